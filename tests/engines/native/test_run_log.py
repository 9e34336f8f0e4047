"""The log of a turn, and the dumps of its requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply
from tests.engines.native.rig import ask, end_of

from pilothouse.core.ids import TurnId
from pilothouse.engines.native.run_log import (
    BLOCK,
    DAY_S,
    RunLog,
    digest,
    prune,
    read_calls,
    run_path,
    shared_prefix,
)

pytestmark = pytest.mark.anyio
DAY = 1_700_000_000.0


def rows(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("sessions/*/*/*/turn-1.jsonl")
    assert file.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_a_turn_logs_its_requests_replies_and_tools(make_rig: MakeRig) -> None:
    failed = Reply("busy", status=529, code="overloaded_error")
    rig = make_rig(failed, Reply(calls=[Call("glob", {"pattern": "*"})]), Reply("Done."))
    assert end_of(await rig.turn("Look", turn_id=TurnId("turn-1"))).outcome == "completed"
    found = rows(Path(rig.host.state_dir))
    assert [row["type"] for row in found] == [
        "run.start",
        "llm.request",
        "llm.response",
        "llm.request",
        "llm.response",
        "tool",
        "llm.request",
        "llm.response",
        "run.end",
    ]
    assert found[0]["prompt"] == "Look"
    assert found[5]["name"] == "glob"
    assert found[-1]["outcome"] == "completed"
    at = found[0]["at"]
    calls = read_calls(Path(rig.host.state_dir, "sessions"), "turn-1", at)
    assert [bool(call.problem) for call in calls] == [True, False, False]
    assert [call.shared_prefix for call in calls] == [None, 1.0, 1.0]


async def test_the_first_request_of_a_turn_is_compared_with_the_last_of_the_turn_before(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(Reply("Done."))
    prompt = rig.folder / "prompt.md"
    told = dict[str, float | None]()
    token = None
    for name, words in (("turn-1", "Help."), ("turn-2", "Help."), ("turn-3", "Obey.")):
        prompt.write_text(words)
        brief = rig.brief(name, resume=token, turn_id=TurnId(name))
        async with rig.engine(system_prompt_file=str(prompt)) as engine, engine.open(brief) as session:
            token = end_of(await ask(session, "Look")).resume
        (path,) = Path(rig.host.state_dir).glob(f"sessions/*/*/*/{name}.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        (told[name],) = [row["shared_prefix"] for row in rows if row["type"] == "llm.request"]
    assert (told["turn-1"], told["turn-2"]) == (None, 1.0)
    assert told["turn-3"] is not None and told["turn-3"] < 1.0
    assert token is not None
    kept = Path(rig.host.state_dir, "sessions", token.value, "last-request-digests")
    assert kept.stat().st_mode & 0o777 == 0o600


async def test_nothing_of_a_request_is_kept_beside_the_log_to_compare_the_next_one(tmp_path: Path) -> None:
    image = bytes(range(256)) * 40_000
    last = tmp_path / "digests"
    log = RunLog(tmp_path, "turn-1", DAY, last=last)
    assert await log.request(b'{"image": "' + image + b'"}', "m", DAY) == 1
    again = RunLog(tmp_path, "turn-2", DAY, last=last)
    await again.request(b'{"image": "' + image[: len(image) // 2] + b'"}', "m", DAY)
    (call,) = read_calls(tmp_path, "turn-2", DAY)
    assert call.shared_prefix == pytest.approx(0.5, abs=0.001)
    assert last.stat().st_size < len(image) / 200
    assert not any(image[at : at + 16] in last.read_bytes() for at in range(256))


def test_digests_that_were_cut_are_no_fault(tmp_path: Path) -> None:
    last, data = digest(b"x" * 5 * BLOCK), b"x" * 9 * BLOCK
    assert shared_prefix(last._replace(blocks=last.blocks[:20]), data) == 0.4
    assert shared_prefix(last._replace(size=0), data) == 1.0


async def test_requests_and_replies_are_dumped_and_told_to_the_log(make_rig: MakeRig, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    rig = make_rig(Reply("Done."), provider_log=True, provider_log_dir=str(dumps))
    told: list[tuple[str, dict[str, Any]]] = []

    def log(event: str, **fields: Any) -> None:
        told.append((event, fields))

    rig.host = replace(rig.host, log=log)
    await rig.turn("Look", turn_id=TurnId("turn-1"))
    assert sorted(path.name for path in dumps.iterdir()) == [
        "turn-1-001-request.json",
        "turn-1-001-response.json",
    ]
    assert (dumps / "turn-1-001-request.json").read_bytes() == rig.model.requests[0].data
    assert "Done." in (dumps / "turn-1-001-response.json").read_text()
    (entry,) = [fields for event, fields in told if event == "native.request"]
    assert entry["bytes"] == len(rig.model.requests[0].data)
    assert rig.model.requests[0].headers["x-api-key"] not in "".join(p.read_text() for p in dumps.iterdir())


def test_logs_past_the_retention_are_deleted_and_sessions_stay(tmp_path: Path) -> None:
    session = tmp_path / "11111111-2222-4333-8444-555555555555" / "history.jsonl"
    request = session.with_name("last-request")
    files = [run_path(tmp_path, "turn", DAY - days * DAY_S) for days in (0, 29, 31, 400)]
    for file in (session, request, *files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
    prune(tmp_path, DAY - 30 * DAY_S)
    assert [file.exists() for file in files] == [True, True, False, False]
    assert (session.exists(), request.exists()) == (True, False)
    assert not files[-1].parents[2].exists()


def test_a_broken_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = run_path(tmp_path, "../x", DAY)
    assert path.is_relative_to(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"type": "llm.request", "at": 1, "seq": 1}\n\xff\n{"type": "llm.request"}\n{"typ')
    assert [call.seq for call in read_calls(tmp_path, "../x", DAY + DAY_S)] == [1]
    assert read_calls(tmp_path, "other", DAY) == ()


@given(st.binary(max_size=50), st.binary(max_size=50), st.binary(max_size=50), st.integers(1, 200))
def test_the_shared_prefix_is_the_longest_of_whole_blocks(
    head: bytes, one: bytes, other: bytes, times: int
) -> None:
    last, data = head * times + one, head * times + other
    kept = last.rstrip(b"]}")
    size = len(kept)
    common = next((at for at, pair in enumerate(zip(kept, data, strict=False)) if pair[0] != pair[1]), None)
    common = min(size, len(data)) if common is None else common
    blocks = common // BLOCK * BLOCK
    assert shared_prefix(digest(last), data) == (1.0 if common == size else round(blocks / size, 4))


async def test_the_total_trim_leaves_out_the_oldest_outputs_only_if_it_is_on(make_rig: MakeRig) -> None:
    for on in (False, True):
        rig = make_rig(
            *[Reply(calls=[Call("bash", {"command": f"yes {n} | head -c 49000"})]) for n in range(6)],
            Reply("Done."),
            total_trim=on,
        )
        assert end_of(await rig.turn("Go", name=f"trim-{on}")).outcome == "completed"
        left_out = ["left out to make room" in result for result in rig.model.requests[-1].results]
        assert left_out == ([True, True, *[False] * 4] if on else [False] * 6)


async def test_the_total_trim_never_leaves_out_a_skill(make_rig: MakeRig) -> None:
    long = [Reply(calls=[Call("bash", {"command": "seq 1 9000"})])] * 6
    load = Reply(calls=[Call("skill_load", {"name": "tidy"})])
    rig = make_rig(load, *long, load, Reply("Done."), total_trim=True)
    path = rig.workspace / ".agents/skills/tidy/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: tidy\ndescription: x\n---\nWipe the table.")
    await rig.turn(approval_mode="full-access", trusted=True)
    first, *_, last = rig.model.requests[-1].results
    assert "Wipe the table." in first
    assert "stands above" in last
    assert "left out to make room" in rig.model.requests[-1].text
