"""`ask_user_question`: ask people, and wait for their answer."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.runtime.agent_calls.caller import CallRefused
from pilothouse.runtime.agent_calls.questions import Choice, ask_question

MOST_OPTIONS = 20

Title = Annotated[str, Meta(description="A short title, such as Confirm deletion.")]
Question = Annotated[str, Meta(description="The question.")]
Options = Annotated[
    list[str | dict[str, Any]],
    Meta(
        description="Answers to choose from: texts, or {label, value, selectedLabel}. People may also type another answer."
    ),
]
Timeout = Annotated[float, Meta(description="Seconds to wait for an answer.")]


class AskUserQuestion(Arguments, frozen=True, kw_only=True):
    question: Question
    title: Title = ""
    options: Options = field(default_factory=list)
    timeout: Timeout = 300.0


async def run(call: ToolCall, given: AskUserQuestion) -> str:
    choices = [read_choice(option) for option in given.options]
    if len(choices) > MOST_OPTIONS:
        raise CallRefused(f"There are {len(choices)} options, and {MOST_OPTIONS} is the most.")
    caller = await call.caller()
    return await ask_question(call.ports, caller, given.title, given.question, choices, given.timeout)


def read_choice(option: str | dict[str, Any]) -> Choice:
    """Raises `CallRefused` for an option without words."""
    given: dict[str, Any] = {"label": option} if isinstance(option, str) else option
    label = str(given.get("label") or "").strip()
    if not label:
        raise CallRefused("An option has no label.")
    chosen_label = str(given.get("selectedLabel") or "").strip()
    return Choice(label, str(given.get("value") or label), chosen_label)


TOOL = Tool(
    "ask_user_question",
    "Ask the people of this conversation a question and wait for their answer.",
    AskUserQuestion,
    run,
)
