"""Hostile words, from a corpus: none breaks out of its frame, and none gets an effect that was not granted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.agent_tools.test_isolation import HASHES
from tests.agent_tools.workspaces import SECRETS, open_workspaces

from pilothouse.channels.webhook.config import HookConfig
from pilothouse.channels.webhook.delivery import Call, read_call
from pilothouse.core.ids import BlobHash, ChannelId, UserId
from pilothouse.core.message import Address, Attachment, Author, InboundMessage, MessageKind, clean_text
from pilothouse.core.secret import Secret
from pilothouse.runtime.turns.prompt import frame, spoken

CORPUS: list[str] = [one["text"] for one in json.loads(Path(__file__).with_name("hostile.json").read_bytes())]
ADDRESS = Address(ChannelId("memory"), "room")
GENUINE = "The genuine message."
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
TEMPLATE = "Look at this: {why}\nThen report."
HOOKS = {
    "plain": HookConfig("memory:room", token=Secret("t")),
    "filled": HookConfig("memory:room", token=Secret("t"), prompt=TEMPLATE),
    "hub": HookConfig("memory:room", "github", token=Secret("t")),
}


def test_the_corpus_is_large_enough() -> None:
    assert len(set(CORPUS)) >= 50


def framed(kind: MessageKind, text: str, name: str = "Ada", **more: Any) -> list[ElementTree.Element]:
    """Frame a message and a genuine one behind it; check the frame, and return the elements in the first."""
    author = Author(UserId("memory:ada"), name)
    first = InboundMessage(ADDRESS, author, "1", text, kind, sent_at=1_800_000_000.0, **more)
    person = Author(UserId("memory:person"), "Person")
    prompt = frame([first, InboundMessage(ADDRESS, person, "2", GENUINE)]).text
    root = ElementTree.fromstring(NOT_XML.sub("?", prompt))
    tag = "message" if kind == "chat" else kind
    assert root.tag == "messages"
    assert [(one.tag, one.get("id")) for one in root] == [(tag, "1"), ("message", "2")]
    assert (root[1].text or "").strip() == GENUINE and root[1].get("from") == "Person"
    said = spoken(prompt)
    assert len(said) == 2 and said[1] == ("Person", GENUINE)
    heads = [line for line in prompt.splitlines() if line.startswith("<") and not line.startswith("</")]
    inside = [line for line in heads if line.startswith(("<quoted>", "<file "))]
    assert len(heads) - len(inside) == 3, "each tag of the frame is on a line of its own"
    return list(root[0])


def test_no_words_break_out_of_the_frame() -> None:
    for hostile in map(clean_text, CORPUS):
        file = Attachment(hostile, hostile, 1, BlobHash("0" * 64))
        for kind in ("chat", "webhook", "system", "agent", "reaction"):
            assert not framed(kind, hostile)
        assert not framed("chat", "hi", hostile)
        assert not framed("webhook", "hi", source=hostile)
        assert not framed("chat", "hi", file_text=hostile)
        assert not framed("task", "Do it.", file_text=json.dumps({"page": hostile}))
        quoted = framed("chat", "hi", quoted=hostile)
        assert [one.tag for one in quoted] == ["quoted"]
        files = framed("chat", "hi", attachments=(file,))
        assert [one.tag for one in files] == ["file"]
        assert sorted(files[0].keys()) == ["name", "type"]


def test_no_webhook_body_poses_as_its_frame_or_as_the_owner() -> None:
    for hostile in map(clean_text, CORPUS):
        headers = {"x-event": hostile, "x-github-event": "issue_comment"}
        person = {"login": hostile}
        comment = {"body": hostile, "html_url": hostile}
        body = {
            "why": hostile,
            "action": hostile,
            "sender": person,
            "comment": comment,
            "issue": {"title": hostile, "number": 1},
            "repository": {"full_name": hostile},
        }
        for name, hook in HOOKS.items():
            call = read_call(name, hook, headers, json.dumps(body).encode(), 0.0)
            assert isinstance(call, Call)
            assert not framed("webhook", call.text, source=call.source)
            head, *lines = call.text.split("\n")
            assert re.fullmatch(r"\[WEBHOOK: [a-z]+/[\w.-]{1,64}\]", head)
            check_lines(name, lines)


def check_lines(hook: str, lines: list[str]) -> None:
    if hook == "plain":
        assert len(lines) == 1 and json.loads(lines[0])["why"]
    elif hook == "filled":
        own = [line for line in lines if not line.startswith("> ")]
        assert len(own) == 2 and own[0].startswith("Look at this: ") and own[1] == "Then report."
    else:
        end = lines.index("") if "" in lines else len(lines)
        names = [line.partition(": ")[0] for line in lines[:end]]
        assert names == [
            name for name in ("event", "repository", "by", "title", "number", "url") if name in names
        ]
        assert all(line.startswith("> ") for line in lines[end + 1 :])


async def test_no_hostile_argument_has_an_effect_that_was_not_granted(tmp_path: Path) -> None:
    async with open_workspaces(tmp_path) as workspaces:
        before = workspaces.rows("other"), workspaces.settings_rows()
        for hostile in CORPUS:
            agent = workspaces.agent("main")
            told = [
                await agent.call("send_message", text="x", to=f"{hostile} "),
                await agent.call("send_message", text="x", channel="memory", platformId=hostile),
                await agent.call("send_message", text="x", platformId="main", threadId=hostile),
                await agent.call("send_file", path=hostile),
                await agent.call("send_file", path="own.txt", to=f"{hostile}#"),
                await agent.call("edit_message", messageId=hostile, text=hostile),
                await agent.call("add_reaction", messageId=hostile, emoji="👍"),
                await agent.call("cancel_task", taskId=hostile),
                await agent.call("update_task", taskId=hostile, prompt=hostile),
                await agent.call("schedule_task", prompt=hostile, recurrence=hostile),
            ]
            if hostile == "team":  # the one granted destination, which the second call names by its place
                told.pop(1)
            assert all(text.startswith("refused: ") for text in told), told
            card = {"title": hostile, "actions": [{"label": hostile, "value": hostile, "url": hostile}]}
            await agent.call("send_card", card=card, fallbackText=hostile)
        await workspaces.until_quiet()
        assert (workspaces.rows("other"), workspaces.settings_rows()) == before
        assert workspaces.rig.said("team") == ["x"]
        own = str(workspaces.rows("main"))
        assert not any(word in own for word in (HASHES["other"], SECRETS["other"], "root:"))
        assert await workspaces.rig.until_live()
