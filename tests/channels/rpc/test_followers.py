"""A client that follows the sessions of others: it neither denies nor stops their runs, and it loses no end of its own. Those of
the terminal are sessions like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import LONG_SCRIPT, Client, pilothouse, wait_for_row, write_home
from tests.channels.rpc.rules import rule

CONFIRM = "ui.confirm.request"


@rule("R27")
def test_a_client_without_confirms_leaves_the_asks_of_a_followed_run_to_others(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as owner, Client(tmp_path) as follower:
        owner.initialize()
        first = owner.start("hello")
        owner.end_of(first["run_id"])
        follower.initialize(supports_markdown=True)
        follower.call("session.history", session_id=first["session_id"])
        run = owner.start("approve", session_id=first["session_id"])
        asked = owner.until(lambda frame: frame.get("method") == CONFIRM)
        follower.until(lambda frame: frame.get("params", {}).get("status") == "awaiting_ui")
        follower.call("session.history", session_id=first["session_id"])
        follower.call("run.cancel", run_id="none")  # a denial by it would come before this answer
        owner.reply(asked, {"ok": True})
        assert owner.end_of(run["run_id"]) == "completed"
        assert owner.contents(run["run_id"], "final") == ["Done."]


@rule("R27")
def test_a_follower_that_leaves_with_cancel_stops_only_its_own_runs(tmp_path: Path) -> None:
    write_home(tmp_path)
    with Client(tmp_path) as owner:
        owner.initialize()
        run = owner.start("approve")
        asked = owner.until(lambda frame: frame.get("method") == CONFIRM)
        with Client(tmp_path, "--on-disconnect", "cancel") as follower:
            follower.initialize()
            follower.call("session.history", session_id=run["session_id"])
            follower.close()
            assert follower.program.wait(60) == 0
        owner.reply(asked, {"ok": True})
        assert owner.end_of(run["run_id"]) == "completed"


@rule("R28")
@pytest.mark.parametrize("max_runs", [20, 0])
def test_a_run_that_ended_before_a_replay_ends_for_its_client_too(max_runs: int, tmp_path: Path) -> None:
    write_home(tmp_path, LONG_SCRIPT)
    with Client(tmp_path) as client:
        client.initialize()
        run = client.start("many")
        wait_for_row(tmp_path, "turns WHERE status = 'done'")
        told = client.call("session.history", session_id=run["session_id"], max_events=10, max_runs=max_runs)
        assert told["result"]["events_sent"] == (10 if max_runs else 0)
        assert client.end_of(run["run_id"]) == "completed"
        again = client.start("again", session_id=run["session_id"])
        assert client.end_of(again["run_id"]) == "completed"
        ends = [frame for frame in client.frames if frame.get("params", {}).get("status") == "completed"]
        assert len(ends) == 2


@rule("R28")
def test_an_ask_that_was_raised_before_a_replay_is_shown_after_it(tmp_path: Path) -> None:
    write_home(tmp_path, LONG_SCRIPT)
    with Client(tmp_path) as client:
        client.initialize()
        client.answers[CONFIRM] = {"ok": True}
        run = client.start("many, then ask")
        wait_for_row(tmp_path, "asks WHERE state = 'open'")
        client.call("session.history", session_id=run["session_id"])
        assert client.end_of(run["run_id"]) == "completed"
        assert client.contents(run["run_id"], "final") == ["Done."]


@rule("R12")
@pytest.mark.parametrize("is_begun", [False, True], ids=["withdrawn", "begun"])
def test_a_queued_run_of_an_earlier_connection_can_be_cancelled_and_its_end_is_told(
    is_begun: bool, tmp_path: Path
) -> None:
    write_home(tmp_path, gateway="max_turns_at_once = 1")
    with Client(tmp_path) as holder:  # it holds the engines, because it is the first one
        holder.initialize()
        before = holder.start("wait")
        holder.until(lambda frame: frame.get("method") == "agent.event")
        with Client(tmp_path) as killed:
            killed.initialize()
            run = killed.start("hello")
            killed.kill()
        with Client(tmp_path) as again:
            again.initialize()
            told = again.call("session.history", session_id=run["session_id"])["result"]
            assert told["run_states"] == [{"run_id": run["run_id"], "status": "running"}]
            if is_begun:
                holder.call("run.cancel", run_id=before["run_id"])
                assert again.end_of(run["run_id"]) == "completed"
                assert [seq for seq, _ in again.events(run["run_id"])] == [-1, 0, 1]
            else:
                assert "result" in again.call("run.cancel", run_id=run["run_id"])
                assert again.end_of(run["run_id"]) == "cancelled"


@rule("R15")
def test_a_session_of_the_terminal_is_listed_replayed_and_continued(tmp_path: Path) -> None:
    write_home(tmp_path)
    pilothouse(tmp_path, "chat", "--approval-mode", "minimal", "hello")
    with Client(tmp_path) as client:
        client.initialize()
        own = client.start("mine")
        client.end_of(own["run_id"])
        rows = client.call("session.list")["result"]["sessions"]
        assert [row["channel"] for row in rows] == ["rpc", "terminal"]
        session = rows[1]["session_id"]
        assert rows[1]["last_user_message"] == "hello"
        client.call("session.history", session_id=session)
        assert client.contents(rows[1]["run_id"], "final") == ["heard: hello"]
        run = client.start("go on", session_id=session)
        assert client.end_of(run["run_id"]) == "completed"
        assert client.call("session.list")["result"]["sessions"][0]["channel"] == "terminal"
