"""The rules of the protocol that depend on the engine hold with a scripted one, our own, and the real Claude Code."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import Client, write_home
from tests.channels.rpc.engine_houses import ENGINES, open_house
from tests.engines.native import model as native_model

TOOL = ["permission.preview", "permission.ready", "tool_result", "step_complete", "final"]
CONFIRM = "ui.confirm.request"
MODE = ("--approval-mode", "minimal")
SAMPLED = {"claude": (1,)}
"""Events after which the run is cancelled, where a turn takes seconds; elsewhere after each one."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_run_with_an_approval_has_the_same_order_with_every_engine(engine: str, tmp_path: Path) -> None:
    """R03, R04, R05, R06 and R10."""
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


def test_a_run_can_be_cancelled_after_each_event_and_the_next_one_works(engine: str, tmp_path: Path) -> None:
    """R08 and R09: no call is left without its result, neither in the history nor in what the model is sent."""
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
        del client.answers[CONFIRM]
        run = client.start("approve", session_id=session)
        client.until(lambda frame: frame.get("method") == CONFIRM)
        client.send("run.cancel", {"run_id": run["run_id"]}, "stop")
        assert client.end_of(run["run_id"]) == "cancelled"
        assert client.end_of(client.start("hello", session_id=session)["run_id"]) == "completed"
        if engine == "native":
            compacted = client.call("run.start", force_compaction=True, session_id=session)["result"]
            assert client.end_of(compacted["run_id"]) == "completed", client.frames[-3:]
            assert any(frame.get("method") == "run.context" for frame in client.frames)


def test_a_client_picks_mode_provider_key_and_model_before_the_first_native_run(tmp_path: Path) -> None:
    write_home(tmp_path)
    (tmp_path / "config.toml").write_text('[gateway]\ndefault_engine = "native"\n')
    with (
        native_model.open_model(lambda request: native_model.Reply("Hello.")) as model,
        Client(tmp_path, ANTHROPIC_BASE_URL=model.url) as client,
    ):
        client.initialize()
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
