"""One call of every tool, as a model of a real engine makes them, and the effects that people must see.

A later call needs what an earlier one returned: the id of a message, or of a task. It is read from the request to the model.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.agent_tools.agent import NEW_GROUP
from tests.runtime.rig import MAIN, Rig

from pilothouse.agent_tools.table import TOOLS
from pilothouse.bootstrap.files import read_file
from pilothouse.core.ask import Ask
from pilothouse.core.store import Tx
from pilothouse.testing.policy import FixedPolicy

MESSAGE, TASK = "the message", "the last task"
RETURNED = {MESSAGE: re.compile(r"messageId: (\d+)"), TASK: re.compile(r"Added (task-\w+)")}
FILE = "report.txt"
WITHIN_S = 100.0

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("send_message", {"text": "Half done."}),
    ("edit_message", {"messageId": MESSAGE, "text": "All done."}),
    ("add_reaction", {"messageId": "1", "emoji": "eyes"}),
    ("send_file", {"path": FILE, "text": "Here."}),
    ("send_card", {"card": {"title": "Deploy?", "actions": ["Go"]}}),
    ("ask_user_question", {"question": "Which colour?", "options": ["Red", "Blue"]}),
    ("schedule_task", {"prompt": "Look around", "recurrence": "@daily"}),
    ("pause_task", {"taskId": TASK}),
    ("list_tasks", {}),
    ("update_task", {"taskId": TASK, "prompt": "Look twice"}),
    ("resume_task", {"taskId": TASK}),
    ("schedule_task", {"prompt": "Look away", "recurrence": "@daily"}),
    ("cancel_task", {"taskId": TASK}),
    ("watch_pull_request", {"pullRequest": "ann/shop#7"}),
    ("send_to_agent", {"agentGroupId": "docs", "text": "Where is the manual?"}),
    ("register_agent_group", NEW_GROUP),
)
ASKED = ("schedule_task", "update_task", "resume_task", "schedule_task", "watch_pull_request")
"""The calls that people are asked about, in their order."""
assert {tool for tool, _ in CALLS} == set(TOOLS)


def filled(given: dict[str, Any], request: str) -> dict[str, Any]:
    """Return the arguments of a call, with the newest ids in a request to the model."""

    def fill(value: Any) -> Any:
        pattern = RETURNED.get(value) if isinstance(value, str) else None
        return pattern.findall(request)[-1] if pattern else value

    return {name: fill(value) for name, value in given.items()}


def gateway_settings(folder: Path) -> dict[str, Any]:
    """Settings of a gateway in which every call has an effect: another agent, a root for new ones, and files that may leave."""
    return {"workspaces": {"docs": str(folder)}, "roots": (str(folder),), "policy": FixedPolicy()}


def prepare(gateway: Rig, workspace: Path) -> None:
    (workspace / FILE).write_text("42")
    gateway.ports.read_file = read_file


async def until_asked(gateway: Rig, title: str) -> Ask:
    """As the rig's, for an engine that takes its time."""

    def asked(tx: Tx) -> list[Ask]:
        return [row.ask for row in tx.asks.open_in(MAIN) if title in row.ask.title]

    found: list[Ask] = await gateway.until(asked, WITHIN_S)
    return found[0]


async def answer_question(gateway: Rig) -> None:
    ask = await until_asked(gateway, "Which colour?")
    assert (await gateway.channel.answer(ask, "answer", options=("2",))).accepted


async def check_effects(gateway: Rig, results: list[str]) -> None:
    """`results` are those of the calls, as the engine tells them."""
    told = dict(zip((tool for tool, _ in CALLS), results, strict=True))
    for text in ("All done.", f"Here.\n[{FILE}]", "**Deploy?**\n\n- Go"):
        await gateway.until_said(text)
    assert "Half done." not in gateway.said(), "it was edited"
    assert [emoji for _, emoji in gateway.channel.reactions] == ["👀"]
    assert "Blue" in told["ask_user_question"]
    assert "Look around" in told["list_tasks"] and "Paused" in told["list_tasks"]
    await gateway.until_said("ask that of docs")
    await gateway.until_said("Register the agent helpers?")
    await gateway.channel.say("/tasks")
    listed = await gateway.until_said("Look twice")
    assert "Look away" not in listed and "paused" not in listed.lower()
    await gateway.channel.say("/watch")
    await gateway.until_said("ann/shop#7\n")
