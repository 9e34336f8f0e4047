"""A client that follows the sessions of others: it neither denies nor stops their runs, and it loses no end of its own."""

from __future__ import annotations

from pathlib import Path

from tests.channels.rpc.client_rig import Client, write_home

CONFIRM = "ui.confirm.request"


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
