"""A request begins with the bytes of the one before it: in a turn, in the next turn, and in a session that is resumed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply
from tests.engines.native.rig import ask, end_of
from tests.engines.native.test_turns import DIALECTS, PNG

from pilothouse.testing.engine import resumed

pytestmark = pytest.mark.anyio


CALLS = [Call("view_image", {"file_path": "b.png"}), Call("read", {"file_path": "none"})]
LOOK = Reply("Let me look.", CALLS, thinking="Hm.")
DONE = Reply("That is all.", thinking="So.")


@pytest.mark.parametrize("provider", DIALECTS)
async def test_each_request_begins_with_the_bytes_of_the_one_before(make_rig: MakeRig, provider: str) -> None:
    rig = make_rig(LOOK, LOOK, LOOK, DONE, provider=provider, effort="low")
    (rig.workspace / "b.png").write_bytes(PNG)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        await ask(session, "one")
        token = end_of(await ask(session, "two")).resume
    async with rig.engine() as engine, engine.open(resumed(rig.brief("later"), token)) as session:
        await ask(session, "three")
    sent = [request.data.rstrip(b"]}") for request in rig.model.requests]
    assert len(sent) == 6
    assert [later.startswith(before) for before, later in pairwise(sent)] == [True] * 5
