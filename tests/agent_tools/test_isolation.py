"""Isolation: no sequence of tool calls of one workspace has an effect in another, and no secret serves two sessions."""

from __future__ import annotations

import hashlib
from itertools import count
from pathlib import Path
from typing import Any

import anyio.from_thread
import anyio.to_thread
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.agent_tools.workspaces import SECRETS, SIDES, Workspaces, open_workspaces

from pilothouse.agent_tools.access import AFTER_LEASE_S, Access
from pilothouse.agent_tools.table import TOOLS
from pilothouse.core.ids import SessionId


class Index(Struct, frozen=True):
    """Stands for one of the messages, or of the tasks, that exist when the call is made."""

    of: str
    number: int


TEXT = "TEXT"
"""Stands for words that only this call says."""
SESSION_OF = "SESSION"
"""Stands for the session of the other side."""
THEIRS = "THEIRS"
"""Stands for the place of the other side."""
HASHES = {side: hashlib.sha256(word.encode()).hexdigest() for side, word in SECRETS.items()}
MESSAGE = st.builds(Index, st.just("message"), st.integers(0, 20)) | st.sampled_from(["1", "0", "-1", "x"])
TASK = st.builds(Index, st.just("task"), st.integers(0, 10)) | st.just("task-unknown")
PATH = st.sampled_from(
    ["own.txt", "../main/own.txt", "../other/own.txt", "link", "/etc/passwd", "../pilothouse.db"]
)


def calls(tool: str, optional: dict[str, st.SearchStrategy[Any]] | None = None, **required: Any) -> Any:
    return st.tuples(st.just(tool), st.fixed_dictionaries(required, optional=optional or {}))


TARGETS: list[dict[str, str]] = [
    {},
    {"to": "team"},
    {"to": THEIRS},
    {"platformId": THEIRS},
    {"channel": "memory", "platformId": THEIRS},
    {"platformId": THEIRS, "threadId": "1"},
    {"to": f"memory:{THEIRS}"},
    {"channel": "memory", "platformId": "team"},
]


def sends(tool: str, **required: Any) -> Any:
    def aim(given: dict[str, Any], target: dict[str, str]) -> tuple[str, dict[str, Any]]:
        return tool, {**given, **target}

    return st.builds(aim, st.fixed_dictionaries(required), st.sampled_from(TARGETS))


SAID, EVERY = st.just(TEXT), st.sampled_from(["1h", "2h"])
BY_TOOL = {
    "send_message": sends("send_message", text=SAID),
    "send_file": sends("send_file", text=SAID, path=PATH),
    "send_card": sends(
        "send_card",
        card=st.fixed_dictionaries({"title": SAID, "actions": st.just([{"label": "Go", "value": "/stop"}])}),
    ),
    "ask_user_question": calls("ask_user_question", question=SAID, timeout=st.just(0.01)),
    "edit_message": calls("edit_message", messageId=MESSAGE, text=SAID),
    "add_reaction": calls("add_reaction", messageId=MESSAGE, emoji=st.sampled_from("👍👀")),
    "schedule_task": calls("schedule_task", prompt=SAID, every=EVERY),
    "list_tasks": calls("list_tasks"),
    "cancel_task": calls("cancel_task", taskId=TASK),
    "pause_task": calls("pause_task", taskId=TASK),
    "resume_task": calls("resume_task", taskId=TASK),
    "send_to_agent": calls(
        "send_to_agent",
        {"files": st.lists(PATH, max_size=1), "sessionId": st.sampled_from([SESSION_OF, "session-x"])},
        agentGroupId=st.sampled_from([*SIDES, "library", "../other", THEIRS]),
        text=SAID,
    ),
    "register_agent_group": calls(
        "register_agent_group",
        {"triggerRules": st.just({"mode": "all"})},
        name=st.sampled_from(["x", THEIRS]),
        folder=st.sampled_from(["x", "../other", THEIRS]),
        platformId=st.sampled_from([THEIRS, "new"]),
        channelType=st.just("memory"),
    ),
    "watch_pull_request": calls(
        "watch_pull_request", {"stop": st.booleans()}, pullRequest=st.sampled_from(["ann/shop#7", THEIRS])
    ),
    "update_task": calls("update_task", {"prompt": SAID, "every": EVERY}, taskId=TASK),
}
STEPS = st.lists(st.tuples(st.sampled_from(SIDES), st.one_of(*BY_TOOL.values())), min_size=4, max_size=10)


def test_every_tool_is_called() -> None:
    assert set(BY_TOOL) == set(TOOLS)


async def test_no_sequence_of_calls_has_an_effect_in_the_other_workspace(tmp_path: Path) -> None:
    async with open_workspaces(tmp_path) as workspaces:
        words = count(1)

        async def play(steps: list[tuple[str, tuple[str, dict[str, Any]]]]) -> None:
            agents = {side: workspaces.agent(side) for side in SIDES}
            for side, (tool, arguments) in steps:
                other = SIDES[1 - SIDES.index(side)]
                before = workspaces.rows(other), workspaces.marks(other)
                filled = fill(workspaces, f"word-of-{side}-{next(words)}", other, arguments)
                text = await agents[side].call(tool, **filled)
                await workspaces.until_quiet()
                assert (workspaces.rows(other), workspaces.marks(other)) == before
                assert workspaces.turns_in(other) == 1, "no agent of it was asked"
                assert not any(word in text for word in (f"word-of-{other}", SECRETS[other], "root:"))

        # All examples share one gateway, so a shrunk one would begin in another state.
        @settings(max_examples=25, phases=[Phase.generate], database=None)
        @given(STEPS)
        def hold(steps: list[tuple[str, tuple[str, dict[str, Any]]]]) -> None:
            anyio.from_thread.run(play, steps)

        await anyio.to_thread.run_sync(hold)
        seen = {place: str(workspaces.rows(place)) for place in (*SIDES, "team")}
        for side, other in (SIDES, SIDES[::-1]):
            assert f"word-of-{side}" in seen[side], "the calls do something"
            assert f"word-of-{other}" not in seen[side] and HASHES[other] not in seen[side]
        assert "word-of-other" not in seen["team"], "only main was granted it"
        assert workspaces.askers_of("library") <= {"main"}, "only main was granted it"
        assert not list(tmp_path.rglob("x")), "no folder was made without a yes"


async def test_a_granted_destination_is_granted_to_one_workspace(tmp_path: Path) -> None:
    async with open_workspaces(tmp_path) as workspaces:
        told = [await workspaces.agent(side).call("send_message", text=side, to="team") for side in SIDES]
        assert told[0].startswith("Delivered. ")
        assert told[1].startswith("refused: That destination is not granted to this workspace.")
        assert workspaces.rig.said("team") == ["main"]


async def test_a_granted_agent_is_granted_to_one_workspace(tmp_path: Path) -> None:
    async with open_workspaces(tmp_path) as workspaces:
        request = {"agentGroupId": "library", "text": "hello"}
        told = [await workspaces.agent(side).call("send_to_agent", **request) for side in SIDES]
        assert told[0].startswith("Sent to library.")
        assert told[1].startswith("Not sent yet: library is not granted to this workspace")
        await workspaces.until_quiet()
        assert workspaces.askers_of("library") == {"main"} and workspaces.turns_in("library") == 1


def fill(workspaces: Workspaces, word: str, theirs: str, arguments: Any) -> Any:
    """Put words, and the places and ids of both sides, where something stands for them."""
    if isinstance(arguments, dict):
        return {key: fill(workspaces, word, theirs, value) for key, value in arguments.items()}
    if isinstance(arguments, list):
        return [fill(workspaces, word, theirs, value) for value in arguments]
    if isinstance(arguments, Index):
        found: list[Any] = workspaces.numbers() if arguments.of == "message" else workspaces.tasks()
        return str(found[-1 - arguments.number % len(found)]) if found else "1"
    if isinstance(arguments, str):
        session = workspaces.session(theirs)
        return arguments.replace(THEIRS, theirs).replace(TEXT, word).replace(SESSION_OF, session)
    return arguments


class HandClock:
    """Time for a property: moved by assignment."""

    time = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


SESSION = st.integers(0, 2)
MOVES = st.lists(
    st.tuples(st.just("lease"), SESSION)
    | st.tuples(st.just("release"), SESSION)
    | st.tuples(st.just("pass"), st.sampled_from([1, AFTER_LEASE_S / 2, AFTER_LEASE_S])),
    max_size=20,
)


@settings(max_examples=50)
@given(MOVES)
def test_a_secret_serves_its_own_session_only_and_not_for_ever(moves: list[tuple[str, float]]) -> None:
    clock = HandClock()
    access = Access(clock)
    held: dict[int, list[Any]] = {0: [], 1: [], 2: []}
    secrets: dict[int, str] = {}
    until: dict[int, float] = {}
    for move, value in moves:
        session = int(value)
        if move == "pass":
            clock.time += value
        elif move == "lease":
            lease = access.lease(SessionId(f"session-{session}"))
            secret = lease.__enter__()
            assert secrets.setdefault(session, secret) == secret
            held[session].append(lease)
        elif held[session]:
            held[session].pop().__exit__(None, None, None)
            until[session] = clock.time + AFTER_LEASE_S
        assert len(set(secrets.values())) == len(secrets)
        for one, secret in secrets.items():
            is_valid = bool(held[one]) or clock.time < until[one]
            expected = SessionId(f"session-{one}") if is_valid else None
            assert access.session_of(f"Bearer {secret}") == expected
            for bad in (secret, f"Basic {secret}", f"Bearer {secret}x", f"Bearer {secret[:-1]}"):
                assert access.session_of(bad) is None
    for wrong in ("", "Bearer", "Bearer ", "Bearer x", "Bearer \x00", "bearer é"):
        assert access.session_of(wrong) is None
