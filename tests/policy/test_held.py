"""In a proved jail without a network, `trusted` asks less: a test for each class of what the jail holds, and of what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.isolation import OPEN, Isolation
from pilothouse.core.policy import ApprovalMode, Ruling, Site, parse_rule
from pilothouse.policy.allow import HELD
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.policy.paths import Filesystem

JAIL = Isolation("jail", network="none")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    (folder / "build").mkdir()
    return folder


def judged(
    work: Path, command: str, *rules: str, held: bool = True, mode: ApprovalMode = "trusted"
) -> Ruling:
    ask = Ask(AskId("a"), "approval", "x", call=Call("command", command=command, cwd=str(work)))
    env = PolicyEnv(Filesystem(str(work.parent)), own=(str(work.parent / "data"),))
    return decide(
        ask,
        [parse_rule(line) for line in rules],
        Site(str(work), mode=mode, isolation=JAIL if held else None),
        env,
    )


@pytest.mark.parametrize(
    "command",
    [
        "make test",
        "npm run build && ./run --all",
        "rm -rf build",
        "git reset --hard HEAD",
        "python tools/gen.py > out.txt",
        "curl https-only",
    ],
)
def test_a_program_that_is_not_known_runs_because_the_jail_holds_it(work: Path, command: str) -> None:
    assert judged(work, command) == Ruling("allow", HELD)
    assert judged(work, command, held=False).outcome == "ask"
    assert judged(work, command, mode="minimal").outcome == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf ../other",
        "make -C /srv/site",
        "curl https://example.org/x",
        "cp a .envrc",
        "rm .git/hooks/pre-commit",
        "touch ../data/pilothouse.db",
        "make $TARGET",
        "echo x > /etc/passwd",
        "make 'unclosed",
        "make -C ..",
    ],
)
def test_what_leads_out_of_the_workspace_or_to_files_that_others_execute_is_asked_about(
    work: Path, command: str
) -> None:
    assert judged(work, command).outcome == "ask"


@pytest.mark.parametrize(
    "rule",
    ["deny command git push", "ask glob npm publish*", "deny read secrets/**", "deny path ./secrets/**"],
)
def test_where_a_rule_forbids_commands_or_files_any_program_might_be_meant(work: Path, rule: str) -> None:
    (work / "secrets").mkdir()
    rule = rule.replace("secrets", str(work / "secrets")).replace("./", "")
    assert judged(work, "make test", rule).outcome == "ask"


@pytest.mark.parametrize("rule", ["deny read /opt/secret/**", "deny path /etc/**", "ask read *.pem"])
def test_so_is_a_program_where_a_rule_is_about_files_that_the_jail_shows(work: Path, rule: str) -> None:
    for command in ("python x.py", "tar cf o.tar -T list"):
        assert judged(work, command, rule).outcome == "ask"
        assert judged(work, command, "deny read ~/.ssh/**", "deny domain example.org").outcome == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .",
        "rm -rf ./",
        "rm -rf WORK",
        "cd build && rm -rf ..",
        "/bin/rm -r -- build/..",
        "timeout 9 rm -rf .",
        "rsync -a --delete build/ .",
        "find . -delete",
        "find build -name x -exec rm {} +",
        "git ls-files | xargs rm",
        "git clean -fdx",
        "git -C build clean -f",
        "env git clean -fdx",
    ],
)
def test_what_removes_the_workspace_or_files_that_nobody_named_is_asked_about(
    work: Path, command: str
) -> None:
    assert judged(work, command.replace("WORK", str(work))).outcome == "ask"


@pytest.mark.parametrize(
    "command", ["pytest .", "npm run clean", "rm -rf build/x", "git add .", "cp -r build ."]
)
def test_what_only_looks_like_it_is_not(work: Path, command: str) -> None:
    assert judged(work, command) == Ruling("allow", HELD)


def test_a_rule_that_denies_the_command_itself_wins(work: Path) -> None:
    assert judged(work, "make test", "deny command make").outcome == "deny"


def test_other_tools_are_asked_about_as_before(work: Path) -> None:
    for call in (
        Call("web", tool="WebFetch", host="example.org"),
        Call("mcp", tool="x", server="github", server_tool="delete"),
        Call("change", tool="Write", paths=("../other.txt",), cwd=str(work)),
        Call("unreadable"),
    ):
        ask = Ask(AskId("a"), "approval", "x", call=call)
        site = Site(str(work), mode="trusted", isolation=JAIL)
        assert decide(ask, (), site, PolicyEnv(Filesystem(str(work.parent)))).outcome == "ask"


@pytest.mark.parametrize(
    ("isolation", "held"),
    [
        (JAIL, True),
        (Isolation("jail", network="model"), True),
        (Isolation("jail"), False),
        (Isolation("jail", network="model", allow_hosts=("github.com",)), False),
        (Isolation("jail", network="none", allow_read=("/srv",)), False),
        (Isolation("jail", network="none", allow_write=("/srv",)), False),
        (Isolation("container", network="none"), False),
        (OPEN, False),
        (None, False),
    ],
)
def test_only_a_jail_without_a_way_out_counts(isolation: Isolation | None, held: bool) -> None:
    assert Site("/work", isolation=isolation).held == held
