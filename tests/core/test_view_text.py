"""The answer so far, and the draft: text by blocks, against the rule told once more."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from tests.core.builders import closed, opened, say, viewed
from tests.core.strategies import block_ids, deltas, likely_streams, sets, tool_ends, tool_starts, words

from pilothouse.core.event import (
    EngineEvent,
    TextDelta,
    TextSet,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    well_formed,
)


def paragraphs(texts: Iterable[str]) -> str:
    return "\n\n".join(text.strip("\n") for text in texts if text.strip())


def told(events: Iterable[EngineEvent]) -> dict[str, str]:
    """Each block's text by the rule alone: deltas append, a set replaces, an empty one withdraws."""
    blocks: dict[str, str] = {}
    for event in events:
        match event:
            case TextDelta(block_id=block, text=text, parent_id=None):
                blocks[block] = blocks.get(block, "") + text
            case TextSet(block_id=block, text=text, parent_id=None):
                blocks[block] = text
            case _:
                continue
        if not blocks[block]:
            del blocks[block]
    return blocks


@given(st.lists(deltas | sets | tool_starts | tool_ends, max_size=30))
def test_the_text_is_what_its_blocks_were_told(events: list[EngineEvent]) -> None:
    stream = list(well_formed(events))
    view = viewed(stream[:-1])
    blocks = told(stream)
    assert [(block.id, block.text) for block in view.blocks.values()] == list(blocks.items())
    assert view.text == paragraphs(blocks.values())


@given(st.lists(deltas | sets, max_size=10), block_ids, words.filter(bool))
def test_a_set_text_replaces_every_delta_of_its_block(
    events: list[EngineEvent], block: str, text: str
) -> None:
    before, after = viewed(events), viewed([*events, TextSet(block, text)])
    assert after.blocks[block].text == text
    others = {id: b.text for id, b in before.blocks.items() if id != block}
    assert {id: b.text for id, b in after.blocks.items() if id != block} == others


@given(st.lists(deltas | sets, max_size=10), block_ids)
def test_an_empty_set_text_withdraws_its_block(events: list[EngineEvent], block: str) -> None:
    view = viewed([*events, TextSet(block, "")])
    assert block not in view.blocks


@given(likely_streams)
def test_the_words_of_a_sub_agent_are_never_shown(events: list[EngineEvent]) -> None:
    stream = list(well_formed(events))
    own = [e for e in stream if not (isinstance(e, TextDelta | TextSet) and e.parent_id is not None)]
    assert viewed(stream) == viewed(own)


def drafted(events: Iterable[EngineEvent]) -> str:
    """The deltas since the last tool opened, or the last of the open ones closed, block by block."""
    blocks: dict[str, str] = {}
    order: list[str] = []
    open_tools: set[str] = set()
    for event in events:
        match event:
            case ToolStarted(call=call):
                open_tools.add(call.id)
                blocks = {}
            case ToolFinished(call_id=call_id):
                open_tools.discard(call_id)
                blocks = blocks if open_tools else {}
            case TextDelta(block_id=block, text=text, parent_id=None) if text:
                order.extend([block] if block not in order else [])
                blocks[block] = blocks.get(block, "") + text
            case _:
                pass
    return paragraphs(blocks[block] for block in order if block in blocks)


@given(st.lists(deltas | tool_starts | tool_ends, max_size=30))
def test_the_draft_is_the_text_since_the_last_tool(events: list[EngineEvent]) -> None:
    stream = list(well_formed(events))[:-1]
    view = viewed([e for e in stream if not isinstance(e, TurnEnded)])
    assert view.draft == drafted(stream)
    assert (view.draft_at is None) is (view.draft == "")


@given(st.lists(deltas | sets | tool_starts | tool_ends, max_size=30))
def test_a_draft_has_a_beginning_exactly_while_there_is_something_to_see(events: list[EngineEvent]) -> None:
    view = viewed(list(well_formed(events))[:-1])
    assert (view.draft_at is None) is (view.draft == "")


def test_a_block_that_goes_on_after_a_tool_shows_only_what_is_new() -> None:
    view = viewed([say("I will look."), opened("t"), closed("t"), say(" It is here.")])
    assert view.draft == " It is here."
    assert view.text == "I will look. It is here."
    grown = viewed(
        [TextSet("b1", "I will look."), opened("t"), closed("t"), TextSet("b1", "I will look. Found it.")]
    )
    assert grown.draft == " Found it."


def test_a_correction_of_old_words_does_not_bring_them_back() -> None:
    view = viewed([say("I wil look."), opened("t"), closed("t"), TextSet("b1", "I will look.")])
    assert view.text == "I will look."
    assert view.draft == ""


def test_text_after_a_correction_that_shortened_its_block_is_seen() -> None:
    view = viewed([say("A long story."), opened("t"), closed("t"), say(" More."), TextSet("b1", "Short.")])
    assert view.draft == ""
    assert viewed([say(" And new.")], view).draft == " And new."
