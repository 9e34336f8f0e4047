"""Progress: every moment of every turn can be shown, and says what matters."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.channels.telegram.judging import check
from tests.channels.telegram.scenes import STARTED, call, done, view_of
from tests.core.strategies import streams

from pilothouse.channels.telegram.payload import Look
from pilothouse.channels.telegram.progress import render_view
from pilothouse.core.ask import Ask
from pilothouse.core.event import Asked, EngineEvent, TextDelta, ToolFinished
from pilothouse.core.ids import AskId, CallId
from pilothouse.core.view import TurnView, fold
from pilothouse.testing.channel import EVENTS

LOOKS = st.builds(Look, rich=st.booleans())


@given(streams, LOOKS, st.floats(0, 1e6))
@settings(deadline=None, max_examples=150)
def test_telegram_takes_every_view_of_any_turn(
    happened: list[EngineEvent], look: Look, late_s: float
) -> None:
    view = TurnView()
    for at, event in enumerate((*EVENTS[:5], *happened)):
        view = fold(view, event, float(at))
        check(render_view(view, at + late_s, look))


def test_a_long_draft_shows_its_end() -> None:
    text = "\n\n".join(f"Paragraph {n}." for n in range(2000))
    shown = render_view(view_of(STARTED, TextDelta("b", text)), 60.0, Look())
    assert "Paragraph 1999." in shown.text
    assert "Paragraph 0." not in shown.text
    check(shown)


def test_a_draft_that_is_cut_within_code_stays_code() -> None:
    text = "```python\n" + "\n".join(f"line{n} = {n}" for n in range(1000))
    shown = render_view(view_of(STARTED, TextDelta("b", text)), 60.0, Look())
    assert [entity.language for entity in shown.entities if entity.type == "pre"] == ["python"]


def test_the_same_moment_looks_the_same_and_a_later_one_does_not() -> None:
    view = view_of(STARTED, call("1", "command", "sleep 60"))
    assert render_view(view, 5.0, Look()) == render_view(view, 5.4, Look())
    assert render_view(view, 5.0, Look()) != render_view(view, 6.0, Look())


def test_a_turn_that_waits_for_a_person_changes_a_few_times_a_minute() -> None:
    """Often enough that Telegram does not take a draft away, which it does after half a minute."""
    view = view_of(
        STARTED, call("1", "command", "make release"), Asked(Ask(AskId("a"), "approval", "Run make?", {}))
    )
    looks = [render_view(view, at, Look()) for at in range(5, 125)]
    changes = sum(before != after for before, after in pairwise(looks))
    assert 4 <= changes <= 7


def test_a_sub_agent_that_started_long_ago_stands_above_its_steps() -> None:
    steps: list[EngineEvent] = [call("a", "subagent", "task: look around")]
    for number in range(9):
        steps += [call(str(number), "read", f"tool: Read f{number}.py", "a"), done(str(number))]
    lines = render_view(view_of(STARTED, *steps), 60.0, Look()).text.split("\n")
    at = next(n for n, line in enumerate(lines) if "Sub-agent: look around" in line)
    assert all(line.startswith("\N{EM SPACE}✓ Read") for line in lines[at + 1 :])


def test_a_call_that_is_its_own_parent_is_shown_once() -> None:
    view = view_of(STARTED, call("a", "command", "ls", "a"), ToolFinished(CallId("a"), ok=True))
    assert render_view(view, 9.0, Look()).text.count("ls") == 1


def test_a_stop_button_is_there_until_the_turn_ends() -> None:
    running = render_view(view_of(STARTED), 1.0, Look())
    assert running.reply_markup is not None
    assert running.reply_markup.inline_keyboard[0][0].callback_data == "s|turn-3f9k2a7c1d5e"
    assert render_view(view_of(*EVENTS), 9.0, Look()).reply_markup is None
