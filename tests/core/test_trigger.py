"""Triggers: which messages are for us where several people talk, also with odd words and patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.trigger import (
    MATCHED_CHARS,
    MODES,
    MOST_WORDS,
    WORD_CHARS,
    Trigger,
    describe_trigger,
    matches_trigger,
    parse_trigger,
    trigger_problem,
)


@pytest.mark.parametrize(
    ("mode", "plain", "mentioned", "answered"),
    [
        ("all", True, True, True),
        ("mention", False, True, True),
        ("reply", False, False, True),
        ("pattern deploy", False, True, True),
    ],
)
def test_each_trigger_hears_what_it_says(mode: str, plain: bool, mentioned: bool, answered: bool) -> None:
    trigger = parse_trigger(mode)
    assert trigger is not None and not trigger_problem(trigger)
    assert matches_trigger(trigger, "hello", mentioned=False, answered=False) is plain
    assert matches_trigger(trigger, "hello", mentioned=True, answered=False) is mentioned
    assert matches_trigger(trigger, "hello", mentioned=False, answered=True) is answered


@pytest.mark.parametrize(
    ("said", "text", "heard"),
    [
        ("pattern deploy", "please Deploy it", True),
        ("pattern deploy", "please redeploy it", False),
        ("pattern deploy", "we deployed", False),
        ("pattern deploy*", "we deployed", True),
        ("pattern *deploy", "we redeploy", True),
        ("pattern *部署*", "请部署服务", True),
        ("pattern deploy build", "a build", True),
        ("pattern code review, build", "a code\n review", True),
        ("pattern code review, build", "code", False),
        ("pattern c++", "I like C++.", True),
        ("pattern (a+)+$", "aaaa", False),
        ("pattern (a+)+$", "so (a+)+$ it is", True),
        ("pattern .*", "x", False),
    ],
)
def test_words_are_compared_literally(said: str, text: str, heard: bool) -> None:
    trigger = parse_trigger(said)
    assert trigger is not None
    assert matches_trigger(trigger, text, mentioned=False, answered=False) is heard


@pytest.mark.parametrize("said", ["", "everything", "all day", "reply now", "patterns x"])
def test_what_is_no_trigger_is_not_guessed_at(said: str) -> None:
    assert parse_trigger(said) is None


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (Trigger("pattern"), "missing"),
        (Trigger("pattern", words=("x",) * (MOST_WORDS + 1)), "too many"),
        (Trigger("pattern", words=("x" * (WORD_CHARS + 1),)), "too long"),
        (Trigger("pattern", words=("**",)), "no letter"),
        (Trigger("pattern", words=("a*b",)), "beginning or at the end"),
        (Trigger("pattern", "("), "not a regular expression"),
    ],
)
def test_what_cannot_work_is_said(trigger: Trigger, words: str) -> None:
    assert words in trigger_problem(trigger)


def test_only_the_beginning_of_a_long_text_is_looked_at() -> None:
    trigger = Trigger("pattern", words=("end",))
    assert not matches_trigger(trigger, " " * MATCHED_CHARS + "end", mentioned=False, answered=False)
    assert matches_trigger(trigger, " " * (MATCHED_CHARS - 3) + "end", mentioned=False, answered=False)


@given(st.text(max_size=200), st.text(max_size=200))
def test_whatever_people_say_is_a_trigger_that_works_or_a_word_about_it(words: str, text: str) -> None:
    trigger = parse_trigger(f"pattern {words}")
    assert trigger is not None
    if not trigger_problem(trigger):
        assert matches_trigger(trigger, text, mentioned=False, answered=False) in (True, False)
        first = trigger.words[0].strip("*")
        assert matches_trigger(trigger, f"- {first} -", mentioned=False, answered=False)


@given(st.sampled_from(MODES), st.lists(st.text("ab ", min_size=1), max_size=3))
def test_every_trigger_can_be_described(mode: str, words: list[str]) -> None:
    trigger = parse_trigger(f"{mode} {','.join(words) if mode == 'pattern' else ''}")
    assert trigger is not None and describe_trigger(trigger)
