"""Dialogs that are answered badly, elsewhere, or with a secret."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from tests.channels.rpc.client_rig import Client, pilothouse, write_home
from tests.channels.rpc.rules import rule
from tests.channels.stdio_rig import Frame

from pilothouse.channels.rpc.dialogs import Dialogs, decide
from pilothouse.channels.rpc.notifications import UiPromptParams, UiPromptResult
from pilothouse.channels.rpc.params import UiCapabilities
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId

CANCEL = "ui.request.cancel"
CONFIRM = "ui.confirm.request"
PICK = "ui.pick.request"


def picks(client: Client) -> list[Frame]:
    return [frame for frame in client.frames if frame.get("method") == PICK]


@rule("R29")
def test_a_choice_that_does_not_exist_shows_the_question_again(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as client:
        client.initialize()
        client.answers[PICK] = lambda frame: {
            "ids": ["nonsense" if len(picks(client)) == 1 else frame["params"]["items"][0]["id"]]
        }
        run = client.start("colour")
        assert client.end_of(run["run_id"]) == "completed"
        assert client.contents(run["run_id"], "final")[0].endswith("Red it is") and len(picks(client)) == 2
        client.answers[PICK] = {"ids": ["nonsense"]}
        client.frames.clear()
        denied = client.start("colour", session_id=run["session_id"])
        assert client.end_of(denied["run_id"]) in ("completed", "cancelled")
        assert len(picks(client)) == 3


BUDGET = "[budget]\nall_usd = 1.0\n"
COSTLY = '[[turn]]\nsteps = [ { usage = { cost_usd = 5.0 } }, { say = "hi" } ]\n'


@rule("R29")
@pytest.mark.parametrize(("verdict", "end"), [("deny", "error"), ("allow", "completed")])
def test_an_ask_of_pilothouse_that_is_answered_elsewhere_is_closed(
    verdict: str, end: str, tmp_path: Path
) -> None:
    write_home(tmp_path, COSTLY, gateway=BUDGET)
    with Client(tmp_path) as client:
        client.initialize()
        first = client.start("a")
        client.end_of(first["run_id"])
        held = client.start("b", session_id=first["session_id"])
        asked = client.until(lambda frame: frame.get("method") == CONFIRM)
        with closing(sqlite3.connect(tmp_path / "pilothouse.db")) as store:
            (ask,) = store.execute("SELECT id FROM asks WHERE state = 'open'").fetchone()
        pilothouse(tmp_path, "asks", verdict, ask)
        assert client.end_of(held["run_id"]) == end
        if not any(frame.get("method") == CANCEL for frame in client.frames):
            client.until(lambda frame: frame.get("method") == CANCEL)
        closed = [frame["params"]["id"] for frame in client.frames if frame.get("method") == CANCEL]
        assert closed == [asked["id"]]


@rule("R11")
def test_an_ask_of_pilothouse_is_shown_to_each_client_of_its_session(tmp_path: Path) -> None:
    write_home(tmp_path, COSTLY, gateway=BUDGET)
    with Client(tmp_path) as client, Client(tmp_path) as other:
        client.initialize()
        first = client.start("a")
        client.end_of(first["run_id"])
        other.initialize()
        other.call("session.history", session_id=first["session_id"])
        client.answers[CONFIRM] = lambda _: None
        held = client.start("b", session_id=first["session_id"])
        asked = client.until(lambda frame: frame.get("method") == CONFIRM)
        other.answers[CONFIRM] = {"ok": True}
        other.until(lambda frame: frame.get("method") == CONFIRM)
        assert client.end_of(held["run_id"]) == "completed"
        if not any(frame.get("method") == CANCEL for frame in client.frames):
            client.until(lambda frame: frame.get("method") == CANCEL)
        assert asked["id"] in [
            frame["params"]["id"] for frame in client.frames if frame.get("method") == CANCEL
        ]


@rule("R09")
def test_a_run_that_is_held_for_the_budget_can_be_cancelled(tmp_path: Path) -> None:
    write_home(tmp_path, COSTLY, gateway=BUDGET)
    with Client(tmp_path) as client:
        client.initialize()
        first = client.start("a")
        client.end_of(first["run_id"])
        held = client.start("b", session_id=first["session_id"])
        asked = client.until(lambda frame: frame.get("method") == CONFIRM)
        client.call("run.cancel", run_id=held["run_id"])
        assert client.end_of(held["run_id"]) == "cancelled"
        if not any(frame.get("method") == CANCEL for frame in client.frames):
            client.until(lambda frame: frame.get("method") == CANCEL)
        closed = [frame["params"]["id"] for frame in client.frames if frame.get("method") == CANCEL]
        assert closed == [asked["id"]]
        assert client.start("/status", session_id=first["session_id"])


@rule("R30")
@pytest.mark.anyio
async def test_a_secret_is_asked_for_as_one_and_other_texts_are_not() -> None:
    asked: list[UiPromptParams] = []

    class Asking:
        async def ask(self, method: str, params: UiPromptParams, result: type[object]) -> UiPromptResult:
            asked.append(params)
            return UiPromptResult("no-key-at-all")

    able = UiCapabilities(supports_prompt=True)
    for secret in (True, False):
        ask = Ask(AskId("a"), "question", "The API key?", {"secret": secret}, free_text=True)
        decision = await decide(cast("Dialogs", Asking()), able, ask, "run")
        assert decision == Decision("answer", text="no-key-at-all")
    assert [(one.secret, one.multiline) for one in asked] == [(True, False), (False, True)]
