"""A turn as it runs always fits, shows the end of what is written, and can be stopped while it runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.channels.discord.judging import check
from tests.channels.telegram.scenes import PUSH, STARTED, VIEWS, call, done, view_of

from pilothouse.channels.discord.payload import Progress, unpack
from pilothouse.channels.discord.progress import render_view
from pilothouse.channels.presses import StopPress, parse_key
from pilothouse.core.event import Asked, Notice, PlanChanged, PlanItem, TextDelta
from pilothouse.core.view import TurnView

LINES = st.lists(
    st.one_of(st.sampled_from(["```py", "```", "~~~", "> ```", "", "| a |", "|---|"]), st.text(max_size=80))
)


def shown(view: TurnView, now: float) -> Progress:
    payload = unpack(render_view(view, now))
    assert isinstance(payload, Progress)
    return payload


@given(LINES.map("\n".join), st.text(max_size=300), st.integers(1, 40))
def test_every_moment_of_a_turn_fits(text: str, title: str, times: int) -> None:
    view = view_of(
        STARTED,
        PlanChanged((PlanItem(title, "active"),)),
        *(event for n in range(8) for event in (call(str(n), "command", title), done(str(n)))),
        *(Asked(PUSH) for _ in range(30)),
        Notice("warning", "x", title),
        TextDelta("b", (text + "\n") * times),
    )
    check(shown(view, 100.0))


def test_the_end_of_what_is_written_is_shown() -> None:
    text = "\n\n".join(f"Paragraph {n} of the answer." for n in range(200))
    found = shown(view_of(STARTED, TextDelta("b", text)), 100.0).text
    assert found.endswith("Paragraph 199 of the answer.")
    assert len(found) > 400


def test_a_turn_that_runs_can_be_stopped_and_one_that_ended_cannot() -> None:
    running, now = VIEWS["working"]
    ((button,),) = (row.items for row in shown(running, now).rows)
    assert running.turn_id is not None
    assert parse_key(button.key) == StopPress(running.turn_id)
    ended, now = VIEWS["ended"]
    assert shown(ended, now).rows == ()


def test_a_turn_that_asks_says_that_it_waits() -> None:
    assert shown(*VIEWS["waiting"]).text.startswith("**Waiting for your answer · claude")


def test_a_part_names_its_turn() -> None:
    view, now = VIEWS["working"]
    assert render_view(view, now).data["turn_id"] == view.turn_id
