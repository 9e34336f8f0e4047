"""What an attack found in the policy, closed for good: each test fails on the version that was attacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.policy.plan import Plan

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.policy import MODES, ApprovalMode, Ruling, Site
from pilothouse.engines.claude.calls import call_of
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.policy.paths import PROTECTED, Filesystem

UNASKED: tuple[ApprovalMode, ...] = ("minimal", "trusted")


@pytest.fixture
def hostile(tmp_path: Path) -> Plan:
    """A workspace of its own, with links out in it, as a cloned repository may have them."""
    made = Plan(tmp_path.resolve())
    root = made.root
    for name in ("secret", "s[a]x", "d/e/leak", "one/x", "é"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to("/etc/hostname")
    (root / "two").mkdir()
    (root / "two" / "x").write_text("x")
    (root / "list").write_text("/etc/hostname")
    (root / "sub").mkdir()
    (root / "sub" / "link").symlink_to("/etc/hostname")
    return made


def asked(plan: Plan, command: str, rule: str = "") -> None:
    for mode in UNASKED:
        assert plan.rule(command, mode=mode).outcome == "ask", (mode, command)
    if rule:
        assert plan.rule(command, [rule], "full-access").outcome != "allow", (rule, command)


@pytest.mark.parametrize(
    "command", ["cat a\\\n#; touch PWNED", "ls \\\n# ; x\\\n; touch PWNED", "cat a\\\n#\ntouch PWNED"]
)
def test_a1_a_joined_line_hides_no_command(plan: Plan, command: str) -> None:
    asked(plan, command, "deny command touch")


def test_a2_a_repository_that_the_same_command_plants_is_not_obeyed(hostile: Plan) -> None:
    plant = "mkdir -p t/objects t/refs && echo x > t/HEAD && echo y > t/config && "
    for command in (f"{plant}git -C t status", f"{plant}cd t && git status"):
        assert hostile.rule(command, mode="trusted").outcome == "ask", command
    assert hostile.rule(plant.removesuffix(" && "), mode="trusted").outcome == "allow"


@pytest.mark.parametrize(
    "pattern",
    ["s[^x]cret", "s[[:alpha:]]cret", "s\\[a]*", "s'[a]'*", 's"["*', "d/**/leak", "?", "s?cret", "@(secret)"],
)
def test_a6_a_pattern_that_shells_read_in_other_ways_is_asked(hostile: Plan, pattern: str) -> None:
    asked(hostile, f"cat {pattern}", "deny path /etc/**")


def test_a6_a_plain_pattern_counts_by_the_files_that_it_means(hostile: Plan) -> None:
    for command in ("cat *", "cat s*", "head -1 sub/*", "cat -- *", "ls one/*"):
        asked(hostile, command, "deny path /etc/**")
    (hostile.root / "two" / "-delete").touch()
    for command in ("cd two && ls *", "cd two && cat *"):
        asked(hostile, command)


@pytest.mark.parametrize(
    "command", ["echo x >!/tmp/file", "echo x >>!/tmp/file", "echo x &>!/tmp/file", "echo x >&! f"]
)
def test_a8_what_zsh_reads_as_another_redirection_is_asked(plan: Plan, command: str) -> None:
    asked(plan, command, "deny path /tmp/**")


@pytest.mark.parametrize(
    "command", ["cat =ls", "ls | cd links; cat told", "ls ~+", "cat src/(app|x).py", "cd +1 && ls"]
)
def test_a8_what_zsh_reads_in_another_way_is_asked(plan: Plan, command: str) -> None:
    asked(plan, command)


def test_a11_a_file_with_names_of_files_is_asked(hostile: Plan) -> None:
    for command in ("strings @list", "strings -a @list", "cat @list"):
        asked(hostile, command)


@pytest.mark.parametrize(
    "command",
    [
        "cd sub && cat /proc/self/cwd/link",
        "cat /proc/self/environ",
        "cat /proc/1/root/etc/shadow",
        "cat < /proc/self/maps",
    ],
)
def test_a12_a_path_below_proc_is_asked(hostile: Plan, command: str) -> None:
    asked(hostile, command, "deny path /etc/hostname")


def test_a12_a_link_to_proc_is_asked(hostile: Plan) -> None:
    (hostile.root / "here").symlink_to("/proc/self/cwd")
    asked(hostile, "cat here/sub/link", "deny path /etc/hostname")


def test_a13_a_repository_that_is_larger_than_the_workspace_is_not_told(hostile: Plan) -> None:
    inner = hostile.root / "two"

    def ruled(command: str) -> str:
        ask = Ask(AskId("a"), "approval", "x", call=Call("command", "Bash", str(inner), command))
        return decide(ask, (), Site(str(inner)), hostile.env).outcome

    for command in (
        "git grep x -- :/",
        "git show HEAD:other",
        "git diff",
        "git log -p",
        "git cat-file -p HEAD:a",
    ):
        assert ruled(command) == "ask", command
        assert hostile.rule(command).outcome == "allow", command
    assert ruled("git status") == "allow"


def test_a14_a_program_of_a_virtual_environment_is_not_overwritten(plan: Plan) -> None:
    for name in (
        ".venv/bin/pip",
        "venv/bin/python",
        "env/bin/pip3.11",
        "x/Scripts/pip",
        "node_modules/.bin/tsc",
    ):
        asked(plan, f"echo x > {name}")
    assert plan.rule("echo x > src/bin/main.rs", mode="trusted").outcome == "allow"


OBEYED = [
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    "sub/CLAUDE.md",
    ".claude/settings.json",
    ".cursorrules",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    ".devcontainer/devcontainer.json",
    ".githooks/pre-commit",
    ".husky/pre-commit",
    ".cargo/config.toml",
    ".zed/tasks.json",
    ".vscode/tasks.json",
    "lefthook.yml",
    ".pre-commit-config.yaml",
    ".envrc",
    ".npmrc",
    ".yarnrc.yml",
    ".gitattributes",
    ".git/config",
    ".git/hooks/pre-commit",
    ".bashrc",
    ".zshrc",
    ".profile",
    ".ssh/authorized_keys",
    ".config/fish/config.fish",
    ".local/bin/ls",
    ".mcp.json",
    ".pilothouse.toml",
    "mise.toml",
    ".vimrc",
    "Jenkinsfile",
]


@pytest.mark.parametrize("name", OBEYED)
def test_a25_a_file_that_other_tools_execute_is_asked_in_trusted(plan: Plan, name: str) -> None:
    call = Call("change", "Write", str(plan.root), paths=(name,))
    ruling = decide(
        Ask(AskId("a"), "approval", "x", call=call), (), Site(str(plan.root), mode="trusted"), plan.env
    )
    assert (ruling.outcome, ruling.offers) == ("ask", ())
    asked(plan, f"echo x > {name.upper()}")
    assert all(word == word.casefold() for word in PROTECTED)


def home_ruling(home: Path, call: Call, mode: ApprovalMode, rules: Any = ()) -> Ruling:
    env = PolicyEnv(Filesystem(str(home)), (str(home / ".config/pilothouse"), str(home / "data")))
    return decide(Ask(AskId("a"), "approval", "x", call=call), rules, Site(str(home / "w"), mode=mode), env)


@pytest.mark.parametrize(
    "call",
    [
        Call("change", "Write", paths=("~/.config/pilothouse/config.toml",)),
        Call("read", "Read", paths=("../data/pilothouse.db",)),
        Call("command", "Bash", command="cat ~/.config/pilothouse/.env"),
        Call("command", "Bash", command="cd ../data && sqlite3 pilothouse.db .dump"),
        Call("command", "Bash", command="bash -c 'echo x >> $HOME/.config/pilothouse/config.toml'"),
        Call("command", "Bash", command="cp evil linked/config.toml"),
        Call("mcp", "mcp__files__write", input={"path": "~/.config/pilothouse/config.toml"}),
    ],
)
def test_a10_no_engine_names_a_file_of_pilothouse_in_any_mode(tmp_path: Path, call: Call) -> None:
    home = tmp_path.resolve()
    (home / "w").mkdir()
    (home / "w" / "linked").symlink_to(home / ".config" / "pilothouse")
    made = Call(call.kind, call.tool, str(home / "w"), call.command, call.paths, input=call.input)
    for mode in MODES:
        ruling = home_ruling(home, made, mode)
        assert (ruling.outcome, ruling.offers) == ("ask", ())
        assert "Pilothouse itself" in ruling.rule
    other = Call("command", "Bash", str(home / "w"), "cat notes.txt")
    assert home_ruling(home, other, "full-access").outcome == "allow"


def test_a10_a_workspace_among_the_files_of_pilothouse_is_a_workspace(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    (home / "w").mkdir()
    env = PolicyEnv(Filesystem(str(home)), (str(home),))
    call = Call("read", "Read", str(home / "w"), paths=("notes.txt",))
    ask = Ask(AskId("a"), "approval", "x", call=call)
    assert decide(ask, (), Site(str(home / "w")), env).outcome == "allow"


def test_a10_a_workspace_that_is_the_folder_of_pilothouse_is_asked_about(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    env = PolicyEnv(Filesystem(str(home)), (str(home),))
    ask = Ask(AskId("a"), "approval", "x", call=Call("change", "Write", str(home), paths=("config.toml",)))
    assert decide(ask, (), Site(str(home), mode="full-access"), env).outcome == "ask"


def test_a3_a_path_with_blanks_at_its_ends_is_unreadable() -> None:
    call = call_of({"tool": "Grep", "input": {"pattern": "x", "path": " /root/.ssh"}, "cwd": "/work"})
    assert call is not None and call.kind == "unreadable"


@pytest.mark.parametrize(
    "command",
    [
        "diff one two",
        "diff -r one two",
        "find . -type f -exec xxd {} +",
        "find . -type f -exec uniq {} +",
        "find . -name x -exec cat {} +",
        "find . -exec cat {} + -type f",
        "find . -type f -o -name x -exec cat {} +",
        "find . -type f -exec sh -c cat {} +",
        "find . -type f -exec jq {} list ;",
        "find . -type f -exec cat ../{} +",
        "find . -type f -execdir cat {} +",
        "uniq src/a*",
        "xxd src/*",
        "awk 1 FS=x list",
        "test -v x",
        "[ 'a[$(id)]' -eq 0 ]",
        "[ -f a -o -f b ]",
        "cat $?",
        "git $?",
        "ls\tsrc\x0bx",
        "ls '\x00'",
    ],
)
def test_what_became_quieter_lets_nothing_else_pass(hostile: Plan, command: str) -> None:
    asked(hostile, command)
