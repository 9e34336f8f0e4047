"""Arbitrary events for property tests: any values that the types allow, and ids from a small pool so that they meet."""

from typing import Any, get_args

from hypothesis import strategies as st

from pilothouse.core.ask import ASK_STATES, Ask, AskKind, Option
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    Level,
    MediaProduced,
    Notice,
    Outcome,
    PlanChanged,
    PlanItem,
    PromptAdded,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    ToolKind,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    Usage,
    UsageChanged,
)
from pilothouse.core.ids import AskId, BlobHash, CallId, EngineId, UserId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure, FailureKind

words = st.text(max_size=12)
instants = st.floats(min_value=0, max_value=4e9)
call_ids = st.sampled_from([CallId("c1"), CallId("c2"), CallId("c3")])
ask_ids = st.sampled_from([AskId("a1"), AskId("a2")])
block_ids = st.sampled_from(["b1", "b2", "b3"])

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
payloads = st.dictionaries(words, json_values, max_size=4)

resumes = st.builds(ResumeToken, st.builds(EngineId, words), words, words)
calls = st.builds(
    ToolCall, call_ids, st.sampled_from(get_args(ToolKind)), words, payloads, st.none() | call_ids
)
counts = st.none() | st.integers(0, 2**63 - 1)
usages = st.builds(Usage, st.none() | st.floats(0, 1e6), counts, counts, counts, counts, counts)
failures = st.builds(Failure, st.sampled_from(get_args(FailureKind)), words, st.none() | instants, words)
attachments = st.builds(Attachment, words, words, st.integers(0, 2**40), st.builds(BlobHash, words))
asks = st.builds(
    Ask,
    ask_ids,
    st.sampled_from(get_args(AskKind)),
    words,
    payloads,
    words,
    st.lists(st.builds(Option, words, words), max_size=3).map(tuple),
    st.booleans(),
    st.none() | instants,
)
plan_items = st.builds(PlanItem, words, st.sampled_from(["pending", "active", "done"]))

starts = st.builds(SessionStarted, st.none() | resumes, words, words, st.lists(words, max_size=3).map(tuple))
deltas = st.builds(TextDelta, block_ids, words, st.none() | call_ids)
sets = st.builds(TextSet, block_ids, words, st.none() | call_ids)
tool_starts = st.builds(ToolStarted, calls)
tool_updates = st.builds(ToolUpdated, call_ids, st.none() | words, st.none() | words)
tool_ends = st.builds(ToolFinished, call_ids, st.booleans(), words)
notices = st.builds(Notice, st.sampled_from(get_args(Level)), words, words)
ends = st.builds(
    TurnEnded,
    st.sampled_from(get_args(Outcome)),
    words,
    st.none() | failures,
    st.none() | usages,
    st.none() | resumes,
)

events: st.SearchStrategy[EngineEvent] = st.one_of(
    starts,
    st.builds(SessionChanged, resumes),
    st.builds(PromptAdded, words, words),
    deltas,
    sets,
    st.builds(ThinkingDelta, words),
    tool_starts,
    tool_updates,
    tool_ends,
    st.builds(Asked, asks),
    st.builds(AskChanged, ask_ids, st.sampled_from(ASK_STATES), st.none() | st.builds(UserId, words)),
    st.builds(PlanChanged, st.lists(plan_items, max_size=3).map(tuple)),
    st.builds(MediaProduced, attachments),
    notices,
    st.builds(UsageChanged, usages),
    ends,
)
steps = events.filter(lambda event: not isinstance(event, TurnEnded))
streams = st.lists(events, max_size=25)
"""Anything an engine may send, mostly nonsense."""

likely_streams = st.tuples(
    st.lists(notices, max_size=1),
    st.lists(starts, max_size=1),
    st.lists(steps, max_size=25),
    st.lists(ends, max_size=2),
).map(lambda parts: [event for part in parts for event in part])
"""Nearly what the grammar asks for: long middles, which `streams` cuts short at its first end."""
