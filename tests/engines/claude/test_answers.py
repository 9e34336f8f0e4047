"""What a person decided, in the words of the CLI."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.ask import Decision, Remember
from pilothouse.engines.claude.asks import NO, NOBODY, answer_request, asks_of
from pilothouse.engines.claude.control import CanUseTool

RULE: dict[str, Any] = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "touch x.txt"}],
    "behavior": "allow",
    "destination": "localSettings",
}
MODE = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
FOLDER = {"type": "addDirectories", "directories": ["/w"], "destination": "session"}
TOUCH = CanUseTool("Bash", {"command": "touch x.txt"}, permission_suggestions=[MODE, FOLDER, RULE])
COLOUR = {"question": "Which colour?", "options": [{"label": "Red", "description": "r"}, {"label": "Blue"}]}
SIZE = {"question": "Which size?", "multiSelect": True, "options": [{"label": "S"}, {"label": "L"}]}
ASKED = CanUseTool("AskUserQuestion", {"questions": [COLOUR, SIZE]})


def test_a_yes_runs_the_call_as_it_was_asked() -> None:
    assert answer_request(TOUCH, [Decision("allow")]) == {
        "behavior": "allow",
        "updatedInput": {"command": "touch x.txt"},
    }


def test_a_no_with_a_reason_goes_on_and_one_without_stops() -> None:
    assert answer_request(TOUCH, [Decision("deny", text="use git")]) == {
        "behavior": "deny",
        "message": "use git",
    }
    assert answer_request(TOUCH, [Decision("deny")]) == {"behavior": "deny", "message": NO, "interrupt": True}


@pytest.mark.parametrize("remember", ["session", "always"])
def test_what_is_remembered_is_the_houses_matter_and_the_cli_keeps_no_rule(remember: Remember) -> None:
    request = CanUseTool("Bash", {}, permission_suggestions=[RULE, MODE])
    assert "updatedPermissions" not in answer_request(request, [Decision("allow", remember=remember)])


def test_questions_are_answered_by_their_labels_or_in_words() -> None:
    decisions = [Decision("answer", options=("1",)), Decision("answer", options=("1", "2"), text="or M")]
    assert len(asks_of("r", ASKED, "/w")) == len(decisions)
    answer = answer_request(ASKED, decisions)
    assert answer["updatedInput"]["answers"] == {"Which colour?": "Red", "Which size?": "S, L, or M"}
    assert answer["updatedInput"]["questions"] == [COLOUR, SIZE]


def test_an_option_that_was_never_offered_is_passed_on_as_words() -> None:
    answer = answer_request(ASKED, [Decision("answer", options=("9",)), Decision("answer", text="XL")])
    assert answer["updatedInput"]["answers"] == {"Which colour?": "9", "Which size?": "XL"}


def test_one_no_among_several_answers_is_a_no_and_so_is_silence() -> None:
    assert answer_request(ASKED, [Decision("answer", text="x"), Decision("deny")])["behavior"] == "deny"
    assert answer_request(TOUCH, [])["behavior"] == "deny"


def test_a_question_that_nobody_answers_does_not_stop_the_turn() -> None:
    answer = answer_request(ASKED, [Decision("deny"), Decision("deny")])
    assert answer == {"behavior": "deny", "message": NOBODY}


def test_words_where_a_yes_was_asked_for_are_no_yes() -> None:
    assert answer_request(TOUCH, [Decision("answer", text="yes, but later")]) == {
        "behavior": "deny",
        "message": "yes, but later",
    }


def test_what_a_person_changed_goes_instead() -> None:
    answer = answer_request(TOUCH, [Decision("allow", input={"command": "touch y.txt"})])
    assert answer["updatedInput"] == {"command": "touch y.txt"}
