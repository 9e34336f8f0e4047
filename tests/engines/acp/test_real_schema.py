"""What we send is valid by the protocol's own schema, and what we read exists in it, so that an update shows what changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.acp.rig import Scripted, session_of
from tests.engines.acp.schema_judge import Schema, definition, is_valid, load_schema, unknown_keys
from tests.engines.codex.rig import answer_with, end_of, read

from pilothouse.core.ask import Decision
from pilothouse.core.mcp import McpServer, for_engines
from pilothouse.engines.acp import wire
from pilothouse.engines.acp.calls import KINDS

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def schema() -> Schema:
    return load_schema()


async def test_every_message_that_we_send_is_valid(schema: Schema, tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, add_dirs=["/srv"], options={"effort": "high"})
    servers = {
        "hub": for_engines(McpServer(command="cat", env={"A": "1"}, cwd="/")),
        "far": for_engines(McpServer(url="http://127.0.0.1:9/", headers={"X-Key": "1"})),
    }
    async with session_of(scripted, mcp_servers=servers, model="large") as session:
        await read(session, "run make", answer_with(session, Decision("allow")))
        await read(session, "run make", answer_with(session, Decision("deny", text="no")))
        await read(session, "form", answer_with(session, Decision("answer", ("1",))))
        token = end_of(await read(session, "run make", answer_with(session, Decision("deny")))).resume
    async with session_of(scripted, resume=token):
        pass
    sent = [line for line in scripted.lines() if "method" in line]
    assert {line["method"] for line in sent} == {
        "initialize",
        "session/new",
        "session/resume",
        "session/prompt",
        "session/cancel",
        "session/set_config_option",
    }
    for line in sent:
        params = line["params"]
        assert is_valid(schema, definition(schema, line["method"], reply=False), params), line
        assert unknown_keys(schema, line["method"], params) == set(), line
        assert line["jsonrpc"] == "2.0"
    for reply in scripted.replies():
        method = wire.PERMISSION if "outcome" in reply else wire.ELICITATION
        assert is_valid(schema, definition(schema, method, reply=True), reply), reply
    assert not is_valid(schema, definition(schema, "session/prompt", reply=False), {"prompt": "no list"})


def test_every_update_and_kind_that_we_read_exists(schema: Schema) -> None:
    updates = {
        one["properties"]["sessionUpdate"]["const"] for one in schema["$defs"]["SessionUpdate"]["oneOf"]
    }
    assert updates == wire.KNOWN | wire.IGNORED
    assert set(KINDS) <= {one["const"] for one in schema["$defs"]["ToolKind"]["oneOf"]}
    methods = {one.get("x-method") for one in schema["$defs"].values()}
    assert {wire.PERMISSION, wire.ELICITATION, wire.UPDATE, "session/load", "session/set_mode"} <= methods
