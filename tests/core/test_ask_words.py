"""An ask in words: who wants what, once, in one line where it fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.calls import with_call

from pilothouse.core.ask import Ask, Option, RuleOffer, hash_payload
from pilothouse.core.ask_view import CUT, MOST, headline, hidden_chars, offer_lines, reason, subject
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.people import Approvers, Authority
from pilothouse.runtime.asks.show import ask_text


def wants(tool: str, **given: Any) -> Ask:
    payload = {"tool": tool, "input": given, "cwd": "/srv/app"}
    ask = Ask(AskId("a"), "approval", f"{tool}: title", payload, hash_payload(payload), asker="Claude")
    return with_call(ask)


@pytest.mark.parametrize(
    ("ask", "said", "about"),
    [
        (wants("Bash", command="npm test"), "Claude wants to run `npm test`", "npm test"),
        (
            wants("Edit", file_path="/srv/app/main.py", old_string="a", new_string="b"),
            "Claude wants to edit main.py",
            "edit main.py",
        ),
        (wants("Write", file_path="new.py", content="x"), "Claude wants to write new.py", "write new.py"),
        (wants("Read", file_path="/etc/passwd"), "Claude wants to read /etc/passwd", "read /etc/passwd"),
        (wants("Grep", pattern="x", path="/etc"), "Claude wants to search /etc", "search /etc"),
        (
            wants("WebFetch", url="https://example.org/a"),
            "Claude wants to fetch https://example.org/a",
            "fetch https://example.org/a",
        ),
        (wants("mcp__hub__find", q="x"), "Claude wants to use find of hub", "use find of hub"),
        (wants("Skill", skill="pdf"), "Claude wants to use the skill pdf", "use the skill pdf"),
        (wants("WebSearch", query="x"), "Claude wants to use WebSearch", "use WebSearch"),
    ],
)
def test_each_kind_of_call_says_who_wants_what(ask: Ask, said: str, about: str) -> None:
    assert headline(ask) == said
    assert subject(ask) == about


@pytest.mark.parametrize("command", ["a\nb", "echo `id`", "x" * 300, "tab\there", " blank", ""])
def test_a_command_that_one_line_cannot_show_literally_stands_in_a_block(command: str) -> None:
    first, fence, *_ = headline(wants("Bash", command=command)).split("\n")
    assert (first, fence[:3]) == ("Claude wants to run:", "```")
    assert command in headline(wants("Bash", command=command))


def test_a_command_cannot_end_its_block() -> None:
    lines = headline(wants("Bash", command="x\n```\nAny member may answer.")).split("\n")
    assert lines[1] == lines[-1] == "````"


def test_a_very_long_command_says_how_much_is_missing() -> None:
    ask = wants("Bash", command="x" * (MOST + 1))
    assert hidden_chars(ask) == MOST + 1 - CUT
    assert f"… and {MOST + 1 - CUT:,} more characters" in ask_text(ask, Authority())
    assert hidden_chars(wants("Bash", command="x" * MOST)) == 0


@pytest.mark.parametrize(
    ("title", "said"),
    [("Which one?", "Claude asks: Which one?"), ("# Plan\n- a", "Claude asks:\n\n# Plan\n- a")],
)
def test_a_question_keeps_its_markdown(title: str, said: str) -> None:
    ask = Ask(AskId("a"), "question", title, options=(Option("1", "A"),), asker="Claude")
    assert headline(ask) == said


def test_our_own_ask_speaks_for_itself() -> None:
    assert headline(Ask(AskId("a"), "approval", "Let Bob in?", of_house=True)) == "Let Bob in?"


def test_the_payload_appears_once_and_remarks_are_left_to_the_details() -> None:
    ask = wants("Bash", command="npm test", description="Run the tests", timeout=5000)
    assert ask_text(ask, Authority(Approvers(("member",)), workspace="/srv/app")) == (
        "Claude wants to run `npm test`\nAny member may answer."
    )


def test_what_changes_the_call_is_never_left_out() -> None:
    ask = wants("Bash", command="make", description="build", run_in_background=True)
    assert "run_in_background: true" in ask_text(ask, Authority())
    assert "In /srv/app" in ask_text(ask, Authority(workspace="/srv")), "nor another folder"
    assert "pattern: x" in ask_text(wants("Grep", pattern="x", path="/etc"), Authority())


@given(st.dictionaries(st.sampled_from(["a", "b", "description"]), st.text("xyz ", max_size=20), max_size=3))
def test_every_value_of_an_unknown_tool_is_shown_whatever_its_title_says(given: dict[str, str]) -> None:
    ask = replace(
        wants("mcp__hub__find", **given), title=f"hub find {' '.join(given.values())} Read mcp__hub__find"
    )
    said = ask_text(ask, Authority(workspace="/srv/app"))
    assert all(f"{key}: {value}" in said for key, value in given.items())


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("not on your allow list: npm test", "Not on your allow list: npm test."),
        ("not on your allow list: npm test -- --all", "Not on your allow list."),
        ("matches the rule `ask command npm`", "Matches the rule `ask command npm`."),
        ("", ""),
    ],
)
def test_the_reason_repeats_nothing(why: str, said: str) -> None:
    assert reason(replace(wants("Bash", command="npm test -- --all"), why=why)) == said


def test_a_path_is_not_repeated_in_the_reason() -> None:
    ask = replace(wants("Read", file_path="/etc/passwd"), why="reads outside the workspace: /etc/passwd")
    assert ask_text(ask, Authority(workspace="/srv/app")).count("/etc/passwd") == 1


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("allow command npm test", "`npm test` with any arguments"),
        ("allow path src/**", "changes to src/**"),
        ("allow read /etc/hosts", "reading /etc/hosts"),
        ("allow domain example.org", "fetching from example.org"),
        ("allow mcp hub find", "the tool find of the server hub"),
        ("allow mcp hub", "every tool of the server hub"),
        ("allow tool Edit", "the tool Edit"),
        ("allow command npm test\nallow command touch", "`npm test` and `touch` with any arguments"),
        (
            "allow command cp\nallow path a.txt\nallow domain x.org",
            "`cp` with any arguments, changes to a.txt and fetching from x.org",
        ),
        ("not a rule", "not a rule"),
    ],
)
def test_lasting_answers_name_what_they_would_allow(rule: str, said: str) -> None:
    ask = Ask(AskId("a"), "approval", "t", offers=(RuleOffer("session", rule), RuleOffer("always", rule)))
    both = "“Allow for this session” and “Always allow” (in this folder)"
    assert offer_lines(ask) == [f"{both} also cover: {said}"]
    alone = replace(ask, offers=ask.offers[:1])
    assert offer_lines(alone) == [f"“Allow for this session” also covers: {said}"]


def test_a_call_of_several_files_says_how_many() -> None:
    ask = Ask(
        AskId("a"), "approval", "t", asker="Claude", call=Call("read", "Read", paths=("/a", "/b", "/c"))
    )
    assert headline(ask) == "Claude wants to read /a and 2 more"
