"""Tools of MCP servers as tools of the agent. Everything that goes wrong is a failed result; images stay images.

The type that a server claims for an image is not trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pilothouse.core.mcp import Elicit, McpImage, McpTool, McpTools
from pilothouse.engines.native.images import BadImage
from pilothouse.engines.native.messages import Image
from pilothouse.engines.native.tools.mcp_schema import object_schema, with_plain_keys
from pilothouse.engines.native.tools.tool import Output, Tool, Workbench
from pilothouse.engines.tool_calls import MCP_PREFIX

NO_WORDS = "[the tool answered nothing]"
LEFT_OUT = "[An image was left out: {why}.]"


def make_tools(servers: McpTools, elicit: Elicit) -> Sequence[Tool]:
    """Return the tools of the servers that are ready now. `elicit` asks people what a server asks during a call."""
    return [_tool(servers, tool, elicit) for tool in servers.tools()]


def _tool(servers: McpTools, tool: McpTool, elicit: Elicit) -> Tool:
    schema, real_keys = with_plain_keys(object_schema(tool.schema))
    return Tool(
        tool.name,
        tool.description,
        "tool",
        dict[str, Any],
        partial(_call, servers, tool.name, elicit, real_keys),
        title=(f"{tool.server}: {tool.tool}", ""),
        schema=schema,
        rule_name=f"{MCP_PREFIX}{tool.server}__{tool.tool}",
    )


async def _call(
    servers: McpTools,
    name: str,
    elicit: Elicit,
    real_keys: Mapping[str, str],
    given: dict[str, Any],
    bench: Workbench,
) -> Output:
    given = {real_keys.get(key, key): value for key, value in given.items()}
    result = await servers.call(name, given, elicit)
    images: list[Image] = []
    words = [result.text] if result.text else []
    for part in result.content:
        if isinstance(part, McpImage):
            try:
                images.append(bench.history.keep_image(part.data))
            except BadImage as error:
                words.append(LEFT_OUT.format(why=error))
    text = "\n".join(words) or ("" if images else NO_WORDS)
    return Output(text, ok=not result.is_error, images=tuple(images))
