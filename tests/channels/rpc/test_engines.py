"""The rules of the protocol that depend on the engine hold with a scripted one, our own, and the real Claude Code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import Client
from tests.channels.rpc.engine_houses import ENGINES, open_house
from tests.channels.rpc.rules import rule
from tests.channels.stdio_rig import Frame
from tests.engines.native import model as native_model

TOOL = ["permission.preview", "permission.ready", "tool_result", "step_complete", "final"]
CANCEL = "ui.request.cancel"
CONFIRM = "ui.confirm.request"
MODE = ("--approval-mode", "minimal")
PICK = "ui.pick.request"
PROMPT = "ui.prompt.request"
SAMPLED = {"claude": (1,)}
"""Events after which the run is cancelled, where a turn takes seconds; elsewhere after each one."""
DIALOGS = {
    "script": {"approve": CONFIRM, "colour": PICK, "name": PROMPT},
    "native": {"approve": CONFIRM, "colour": PICK, "name": PROMPT},
    "claude": {"approve": CONFIRM, "colour": PICK},
}
"""Prompts that open a dialog. Our own engine asks its questions by a tool of Pilothouse."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@rule("R03", "R04", "R05", "R06", "R10")
def test_a_run_with_an_approval_has_the_same_order_with_every_engine(engine: str, tmp_path: Path) -> None:
    with open_house(engine, tmp_path) as house, Client(house.home, *MODE, **house.environ) as client:
        client.initialize()
        client.answers[CONFIRM] = {"ok": True}
        run = client.start("approve this")
        assert client.end_of(run["run_id"]) == "completed", client.frames[-1]
        live = client.events(run["run_id"])
        kinds = [kind for _, kind in live]
        assert [seq for seq, _ in live] == list(range(len(live)))
        assert kinds.count("final") == 1 and kinds[-1] == "final"
        assert [kind for kind in kinds if kind in TOOL and kind != "step_complete"][:2] == TOOL[:2]
        assert kinds.index("permission.ready") < kinds.index("tool_result") < kinds.index("step_complete")
        assert client.contents(run["run_id"], "text")[0] == "Let me look."
        assert "Done." not in client.contents(run["run_id"], "text")
        assert client.contents(run["run_id"], "final") == ["Done."]
        told = [frame.get("method") for frame in client.frames]
        asked = told.index(CONFIRM)
        assert client.frames[asked - 1]["params"]["status"] == "awaiting_ui"
        assert client.frames[asked - 2]["params"]["event"]["type"] == "permission.ready"
        client.answers[CONFIRM] = {"ok": False, "reason": "not today"}
        denied = client.start("approve that", session_id=run["session_id"])
        assert client.end_of(denied["run_id"]) == "completed"
        client.answers[CONFIRM] = {"ok": False}
        stopped = client.start("approve it", session_id=run["session_id"])
        assert client.end_of(stopped["run_id"]) in ("cancelled", "completed")
        client.frames.clear()
        client.call("session.history", session_id=run["session_id"])
        assert client.events(run["run_id"]) == [(-1, "hidden_user_message"), *live]


@rule("R08", "R09")
def test_a_run_can_be_cancelled_after_each_event_and_the_next_one_works(engine: str, tmp_path: Path) -> None:
    """No call is left without its result, neither in the history nor in what the model is sent."""
    with open_house(engine, tmp_path) as house, Client(house.home, *MODE, **house.environ) as client:
        client.initialize()
        client.answers[CONFIRM] = {"ok": True}
        run = client.start("approve")
        client.end_of(run["run_id"])
        session, events = run["session_id"], len(client.events(run["run_id"]))
        for after in SAMPLED.get(engine, range(events)):
            client.frames.clear()
            run = client.start("approve", session_id=session)
            while len(client.events(run["run_id"])) <= after:
                client.until(lambda frame: frame.get("method") == "agent.event")
            client.send("run.cancel", {"run_id": run["run_id"]}, f"stop{after}")
            assert client.end_of(run["run_id"]) in ("cancelled", "completed")
            kinds = [kind for _, kind in client.events(run["run_id"])]
            assert kinds.count("tool_call") == kinds.count("tool_result"), after
            assert kinds.count("step_start") == kinds.count("step_complete")
            following = client.start("hello", session_id=session)
            assert client.end_of(following["run_id"]) == "completed", client.frames[-1]
        if engine == "native":
            compacted = client.call("run.start", force_compaction=True, session_id=session)["result"]
            assert client.end_of(compacted["run_id"]) == "completed", client.frames[-3:]
            kinds = [kind for _, kind in client.events(compacted["run_id"])]
            assert kinds == ["compaction_start", "compaction_complete", "final"]
            assert client.contents(compacted["run_id"], "final") == ["The conversation was compacted."]
            fresh = client.call("run.start", force_compaction=True)["result"]
            assert client.end_of(fresh["run_id"]) == "completed"
            assert "no conversation to compact" in client.contents(fresh["run_id"], "final")[0]
            assert any(frame.get("method") == "run.context" for frame in client.frames)


@rule("R08", "R09")
def test_a_run_can_be_cancelled_after_each_event_while_nobody_answers(engine: str, tmp_path: Path) -> None:
    """A second run is refused while the dialog is open, and the cancel closes the dialog."""
    with open_house(engine, tmp_path) as house, Client(house.home, *MODE, **house.environ) as client:
        client.initialize()
        first = client.start("hello")
        client.end_of(first["run_id"])
        for text, dialog in DIALOGS[engine].items():
            after, is_shown = 0, False
            while not is_shown:
                is_shown = cancel_after(client, first["session_id"], text, dialog, after)
                after += 1 if engine not in SAMPLED else 100
                following = client.start("hello", session_id=first["session_id"])
                assert client.end_of(following["run_id"]) == "completed", client.frames[-1]


def cancel_after(client: Client, session: str, text: str, dialog: str, after: int) -> bool:
    """Cancel a run after so many events, or when its dialog is open; return whether that came first."""
    client.frames.clear()
    run = client.start(text, session_id=session)
    is_shown = False
    while len(client.events(run["run_id"])) <= after and not is_shown:
        is_shown = client.until(is_event_or(dialog))["method"] == dialog
    busy = client.call("run.start", input={"type": "text", "text": "x"}, session_id=session)
    assert busy["error"]["code"] == -32001
    client.send("run.cancel", {"run_id": run["run_id"]}, "stop")
    assert client.end_of(run["run_id"]) == "cancelled"
    kinds = [kind for _, kind in client.events(run["run_id"])]
    assert kinds.count("tool_call") == kinds.count("tool_result"), after
    dialogs = [frame for frame in client.frames if frame.get("method") == dialog]
    assert [frame["params"]["run_id"] for frame in dialogs] == [run["run_id"]] * len(dialogs)
    opened = [frame["id"] for frame in dialogs]
    statuses = [frame["params"]["status"] for frame in client.frames if frame.get("method") == "run.status"]
    assert not is_shown or "awaiting_ui" in statuses
    assert opened == [frame["params"]["id"] for frame in client.frames if frame.get("method") == CANCEL]
    return is_shown


def is_event_or(method: str) -> Callable[[Frame], bool]:
    return lambda frame: frame.get("method") in ("agent.event", method)


@rule("R07")
@pytest.mark.parametrize("engine", [name for name in ENGINES if "colour" in DIALOGS[name]])
def test_a_question_with_options_is_a_pick(engine: str, tmp_path: Path) -> None:
    with open_house(engine, tmp_path) as house, Client(house.home, *MODE, **house.environ) as client:
        client.initialize()
        client.answers[PICK] = lambda frame: {"ids": [frame["params"]["items"][1]["id"]]}
        run = client.start("colour")
        assert client.end_of(run["run_id"]) == "completed"
        asked = next(frame["params"] for frame in client.frames if frame.get("method") == PICK)
        assert asked["title"] == "Which colour?" and asked["run_id"] == run["run_id"]
        assert [item["label"].partition(":")[0] for item in asked["items"]][:2] == ["Red", "Blue"]
        assert client.contents(run["run_id"], "final")[0].endswith("Done.")


@rule("R11", "R12")
def test_two_clients_share_a_session_and_a_killed_one_comes_back(engine: str, tmp_path: Path) -> None:
    with open_house(engine, tmp_path) as house, ExitStack() as stack:
        first = stack.enter_context(Client(house.home, *MODE, **house.environ))
        first.initialize()  # it holds the engines, because it is the only one
        run = first.start("approve")
        first.until(lambda frame: frame.get("method") == CONFIRM)
        second = stack.enter_context(Client(house.home, **house.environ))
        second.initialize()
        second.ask("session.history", session_id=run["session_id"])
        second.reply(second.until(lambda frame: frame.get("method") == CONFIRM), {"ok": True})
        first.until(lambda frame: frame.get("method") == CANCEL)
        assert first.end_of(run["run_id"]) == second.end_of(run["run_id"]) == "completed"
        live = first.events(run["run_id"])
        assert second.events(run["run_id"]) == [(-1, "hidden_user_message"), *live]
        second.close()
        assert second.program.wait(60) == 0
        long = first.start("wait", session_id=run["session_id"])
        while "tool_call" not in [kind for _, kind in first.events(long["run_id"])]:
            first.until(is_event_or(""))
        first.kill()
        with Client(house.home, **house.environ) as again:
            again.initialize()
            told = again.call("session.history", session_id=run["session_id"])["result"]["run_states"]
            assert again.events(run["run_id"]) == [(-1, "hidden_user_message"), *live]
            state = told[-1]["status"]
            assert (again.end_of(long["run_id"]) if state == "running" else state) == "error"
            seen = [seq for seq, _ in again.events(long["run_id"])]
            assert seen == list(range(-1, len(seen) - 1))


@rule("R18")
def test_a_client_that_leaves_with_cancel_stops_its_run(engine: str, tmp_path: Path) -> None:
    with open_house(engine, tmp_path) as house:
        with Client(house.home, *MODE, "--on-disconnect", "cancel", **house.environ) as client:
            client.initialize()
            run = client.start("wait")
            client.until(is_event_or(""))
            client.close()
            assert client.program.wait(60) == 0
        with Client(house.home, **house.environ) as again:
            again.initialize()
            told = again.call("session.history", session_id=run["session_id"])["result"]["run_states"]
            assert told == [{"run_id": run["run_id"], "status": "cancelled"}]


@rule("R19")
@pytest.mark.parametrize("config", ["", '[gateway]\ndefault_engine = "native"\n'])
def test_a_client_picks_mode_provider_key_and_model_before_the_first_native_run(
    config: str, tmp_path: Path
) -> None:
    """Our own engine also answers where nothing is configured, and no other engine's program is found."""
    (tmp_path / "work").mkdir()
    (tmp_path / "config.toml").write_text(config)
    with (
        native_model.open_model(lambda request: native_model.Reply("Hello.")) as model,
        Client(tmp_path, ANTHROPIC_BASE_URL=model.url, PATH=str(tmp_path)) as client,
    ):
        assert client.initialize()["result"]["engine"] == "native"
        client.answers["ui.pick.request"] = lambda frame: {"ids": [frame["params"]["items"][0]["id"]]}
        client.answers["ui.prompt.request"] = {"value": "no-key-at-all"}
        run = client.start("hello")
        assert client.end_of(run["run_id"]) == "completed", client.frames[-1]
        assert client.contents(run["run_id"], "final") == ["Hello."]
        asked = [frame["params"] for frame in client.frames if frame.get("method") == "ui.prompt.request"]
        assert [one["secret"] for one in asked] == [True]
    picked = [frame["params"]["title"] for frame in client.frames if frame.get("method") == "ui.pick.request"]
    assert [title.split()[-1] for title in picked] == ["asking?", "use?", "name."], picked
    assert model.requests[-1].headers["x-api-key"] == "no-key-at-all"
    assert not any("no-key-at-all" in str(frame) for frame in client.frames)
