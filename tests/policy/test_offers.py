"""Which rule an answer would save: never one that lets anything run."""

from __future__ import annotations

import shlex

import pytest

from pilothouse.policy.offers import remember_command


def offered(command: str) -> list[str]:
    return [str(rule) for rule in remember_command(tuple(shlex.split(command)))]


@pytest.mark.parametrize(
    "command",
    [
        "awk '{print $1}' a.txt",
        "gawk 1 a.txt",
        "sed s/a/b/ a.txt",
        "vim a.txt",
        "ed a.txt",
        "sqlite3 app.db 'select 1'",
        "psql -c 'select 1'",
        "tar xzf a.tgz",
        "find . -newer a",
        "make test",
        "make",
        "just test",
        "npm install",
        "npm exec tsx x.ts",
        "npm config set a b",
        "pip install requests",
        "pip3.11 install requests",
        "uv pip install requests",
        "uv tool install ruff",
        "uv add requests",
        "uv run python x.py",
        "uv run bash x.sh",
        "poetry run python x.py",
        "bundle exec ruby x.rb",
        "npx tsx x.ts",
        "npx node x.js",
        "uvx ipython x",
        "git rebase main",
        "git bisect start",
        "git submodule update",
        "git config user.name ann",
        "git clone a",
        "git difftool",
        "git init",
        "cargo run",
        "cargo install x",
        "go run ./cmd",
        "go generate",
        "docker run x",
        "docker exec x ls",
        "docker compose exec web ls",
        "kubectl exec x ls",
        "gh alias set a b",
        "gh extension install x",
        "yarn node x",
        "rsync -a a b",
        "gcc -o a a.c",
        "cmake --build build",
        "./gradlew test",
        "node inspect",
        "python3 -m pip install x",
        "python3.12 -m timeit",
        "less a.txt",
        "curl -s https://example.org",
        "/usr/bin/awk 1 a.txt",
        "bin/sed s/a/b/ a.txt",
    ],
)
def test_of_what_could_run_anything_only_the_very_command_is_offered(command: str) -> None:
    assert offered(command) == [f"allow glob {shlex.join(shlex.split(command))}"]


@pytest.mark.parametrize(
    "command",
    [
        "python3.12 -c x",
        "venv/bin/python -c x",
        ".venv/bin/python3.11 -c x",
        "/usr/bin/perl5.36 -e x",
        "nodejs -e x",
        "lua5.4 -e x",
        "pypy3 -c x",
        "tsx -e x",
        "python3.12",
        "/usr/bin/env x",
        "sudo make",
        "git -c a=b commit",
        "npm --silent install",
        "npx -y x",
    ],
)
def test_nothing_is_offered_for_a_text_that_is_run_nor_for_a_wrapper(command: str) -> None:
    assert offered(command) == []


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("pytest -q", "command pytest"),
        ("mkdir -p a", "command mkdir"),
        ("touch a", "command touch"),
        ("ruff check .", "command ruff"),
        ("git fetch origin", "command git fetch"),
        ("git commit -m x", "command git commit"),
        ("npm test", "command npm test"),
        ("npm run build", "command npm run build"),
        ("docker build .", "command docker build"),
        ("docker compose up", "command docker compose up"),
        ("cargo test", "command cargo test"),
        ("go test ./...", "command go test"),
        ("uv run pytest -q", "command uv run pytest"),
        ("npx eslint src", "command npx eslint src"),
        ("python -m pytest", "command python -m pytest"),
        ("python3.12 manage.py migrate", "command python3.12 manage.py"),
        ("venv/bin/python x.py", "command venv/bin/python x.py"),
        ("bash scripts/build.sh", "command bash scripts/build.sh"),
        ("./run.sh a", "command ./run.sh"),
        ("gh pr view 12", "command gh pr view"),
    ],
)
def test_everyday_work_is_remembered_by_its_name(command: str, rule: str) -> None:
    assert offered(command) == [f"allow {rule}"]
