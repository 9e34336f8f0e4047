"""docs/events.md is normative: it and the code say the same, field by field."""

import json
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from msgspec import Struct

from pilothouse.core import event, view
from pilothouse.core.ask import Ask, Option, RuleOffer
from pilothouse.core.call import Call, Cell, Change, Replacement
from pilothouse.core.event import (
    SCHEMA_VERSION,
    EngineEvent,
    PlanItem,
    ResumeToken,
    ToolCall,
    Usage,
    decode_event,
    encode_event,
)
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
VALUES: tuple[type[Struct], ...] = (
    ResumeToken,
    ToolCall,
    Ask,
    Call,
    Change,
    Replacement,
    Cell,
    Option,
    RuleOffer,
    PlanItem,
    Attachment,
    Usage,
    Failure,
)
EVENTS: dict[str, type[Struct]] = {str(kind.__struct_config__.tag): kind for kind in get_args(EngineEvent)}
TYPES: dict[str, type[Struct]] = EVENTS | {value.__name__: value for value in VALUES}


def sections() -> dict[str, str]:
    parts = re.split(r"^### `?(\w+)`?$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(section: str) -> dict[str, tuple[str, str]]:
    """Field → (value, default), as its table has them."""
    found = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| .+ \|$", section, flags=re.MULTILINE)
    return {name: (value, default) for name, value, default in found}


def described(kind: Any) -> str:
    """A type in the page's words."""
    names = {str: "string", int: "integer", float: "number", bool: "true or false"}
    options = [option for option in get_args(kind) if option is not type(None)]
    if get_origin(kind) is Literal:
        return " ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) is tuple:
        inner = described(options[0])
        return f"list of {inner}s" if inner == "string" else f"list of {inner}"
    if get_origin(kind) is dict:
        return "object"
    if type(None) in get_args(kind):
        return f"{described(options[0])} or null"
    kind = getattr(kind, "__supertype__", kind)
    return names.get(kind) or kind.__name__


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value: Any = field.default
    if callable(field.default_factory):
        value = field.default_factory()
    raw = json.dumps(value)
    return raw if value is None or isinstance(value, bool | int | float) else f"`{raw}`"


def test_the_page_has_a_section_for_every_type_and_for_no_other() -> None:
    assert sorted(sections()) == sorted(TYPES)


@pytest.mark.parametrize("name", TYPES)
def test_the_page_names_every_field_with_its_type_and_default(name: str) -> None:
    hints = {field.encode_name: field for field in msgspec.structs.fields(TYPES[name])}
    in_code = {field: (described(info.type), default_of(info)) for field, info in hints.items()}
    assert rows(sections()[name]) == in_code


@pytest.mark.parametrize("name", EVENTS)
def test_each_example_is_an_event_as_it_is_written(name: str) -> None:
    [example] = re.findall(r"```json\n(.+)\n```", sections()[name])
    decoded = decode_event(example)
    assert isinstance(decoded, EVENTS[name])
    assert encode_event(decoded).decode() == example


def test_the_grammar_on_the_page_is_that_of_the_code() -> None:
    def grammar(text: str, first: str) -> list[str]:
        block = text[text.index("stream :=") :]
        block = block[: block.index(first)]
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", block).lower().split()

    assert grammar(PAGE, "```") == grammar(event.__doc__ or "", "\n\n")


def test_the_page_names_the_schema_version_of_the_code() -> None:
    assert f"Schema version **{SCHEMA_VERSION}**" in PAGE


def test_the_page_has_the_bounds_and_times_of_the_code() -> None:
    assert f"{view.FIRST_TEXT_AFTER_S:g} s / {view.TEXT_AFTER_TOOL_S:g} s pass" in PAGE
    assert (
        f"the last {view.RECENT_ACTIONS} actions, the last {view.RECENT_NOTICES} notices and "
        f"the last {view.THINKING_TAIL} characters of thinking" in PAGE
    )
