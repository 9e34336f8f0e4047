"""Images that a provider does not take must not end a session: they are refused early, or left out after its 400."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply, Request
from tests.engines.native.rig import ask, end_of

from pilothouse.core.event import EngineEvent, Notice
from pilothouse.core.mcp import Elicit, McpImage, McpReply, McpResult, McpStatus, McpText, McpTool
from pilothouse.core.turn import Prompt
from pilothouse.engines.native.history import History
from pilothouse.engines.native.images import MAX_BYTES, BadImage
from pilothouse.engines.native.outputs import Outputs
from pilothouse.engines.native.prompt import PromptComposer
from pilothouse.engines.native.tools.mcp import make_tools
from pilothouse.engines.native.tools.tool import Output, Workbench
from pilothouse.processes import Launcher
from pilothouse.testing.engine import resumed
from pilothouse.testing.hosts import MemoryBlobs

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8\xff\xe0jpeg"
GOOD, BAD = PNG + b"good", PNG + b"bad"
DIALECTS = ("anthropic", "openai", "openrouter", "compatible")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def provider(request: Request) -> Reply:
    """Refuse the bad image; look at the files that a prompt names."""
    if encoded(BAD) in request.text:
        return Reply("Could not process image", status=400, code="invalid_request_error")
    if request.prompt.startswith("look at ") and not request.results:
        names = request.prompt.removeprefix("look at ").split()
        return Reply(calls=[Call("view_image", {"file_path": name}) for name in names])
    return Reply("Fine.")


def skipped(events: Sequence[EngineEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.kind == "image_skipped"]


@pytest.mark.parametrize("name", DIALECTS)
async def test_an_image_that_the_provider_refuses_is_left_out_for_good(make_rig: MakeRig, name: str) -> None:
    rig = make_rig(script=provider, provider=name)
    (rig.workspace / "good.png").write_bytes(GOOD)
    (rig.workspace / "bad.png").write_bytes(BAD)
    async with rig.engine() as engine:
        async with engine.open(rig.brief()) as session:
            assert end_of(await ask(session, "look at good.png")).outcome == "completed"
            events = await ask(session, "look at bad.png")
            assert end_of(events).outcome == "completed"
            (notice,) = skipped(events)
            assert "Could not process image" in notice
        async with engine.open(resumed(rig.brief(), end_of(events).resume)) as session:
            again = await ask(session, "and now?")
    assert end_of(again).outcome == "completed" and not skipped(again)
    last = rig.model.requests[-1].text
    assert encoded(GOOD) in last
    assert "It was left out" in last
    assert sum(encoded(BAD) in request.text for request in rig.model.requests) == 1


async def test_a_model_without_eyes_gets_no_image_at_all(make_rig: MakeRig) -> None:
    def blind(request: Request) -> Reply:
        if encoded(GOOD) in request.text and request.body["model"] == "other":
            return Reply("No endpoints found that support image input", status=404, code="404")
        return provider(request)

    rig = make_rig(script=blind)
    (rig.workspace / "good.png").write_bytes(GOOD)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        token = end_of(await ask(session, "look at good.png")).resume
    async with (
        rig.engine(model="other") as engine,
        engine.open(resumed(rig.brief(), token)) as session,
    ):
        events = await ask(session, "and now?")
    assert end_of(events).outcome == "completed"
    assert len(skipped(events)) == 1


async def test_a_400_that_no_image_caused_leaves_the_images_in_the_history(make_rig: MakeRig) -> None:
    state = {"fails": False}

    def script(request: Request) -> Reply:
        return Reply("bad option", status=400) if state["fails"] else provider(request)

    rig = make_rig(script=script)
    (rig.workspace / "good.png").write_bytes(GOOD)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        await ask(session, "look at good.png")
        state["fails"] = True
        assert end_of(await ask(session, "and now?")).outcome == "failed"
        state["fails"] = False
        assert end_of(await ask(session, "once more")).outcome == "completed"
    assert encoded(GOOD) in rig.model.requests[-1].text


async def test_an_image_of_a_person_that_is_too_large_is_named_to_both(tmp_path: Path) -> None:
    blobs, history = MemoryBlobs(), History(tmp_path / "session")
    large = await blobs.put(PNG + b"0" * MAX_BYTES, "huge.png", "image/png")
    small = await blobs.put(GOOD, "small.png", "image/png")
    composed = await PromptComposer(blobs, str(tmp_path), history).compose(Prompt("see", (large, small)))
    (notice,) = composed.notices
    assert "huge.png was not shown to the native agent: it is larger than 3.75 MB" in notice.text
    assert "huge.png" in composed.said.text
    (image,) = composed.said.images
    assert history.image(image) == GOOD


def test_the_limit_counts_the_base64(tmp_path: Path) -> None:
    history = History(tmp_path)
    most = PNG + b"0" * (MAX_BYTES - len(PNG))
    image = history.keep_image(most)
    assert len(encoded(history.image(image))) <= 5 * 1024 * 1024
    with pytest.raises(BadImage, match=r"3\.75 MB"):
        history.keep_image(most + b"0")


class Drawing:
    """A server with one tool, whose images all claim to be PNGs."""

    def __init__(self, *images: bytes) -> None:
        self._images = images

    def statuses(self) -> Sequence[McpStatus]:
        return ()

    def tools(self) -> Sequence[McpTool]:
        return [McpTool("mcp__shop__draw", "shop", "draw", "Draws.", {"type": "object"})]

    async def settle(self, within_s: float) -> None: ...

    async def call(self, name: str, arguments: Mapping[str, Any], elicit: Elicit | None = None) -> McpResult:
        return McpResult((McpText("Here."), *(McpImage(data, "image/png") for data in self._images)))


async def draw(folder: Path, *images: bytes) -> Output:
    async def nobody(server: str, params: dict[str, Any]) -> McpReply:
        return McpReply("cancel")

    (tool,) = make_tools(Drawing(*images), nobody)
    history, environment = History(folder / "session"), {"PATH": os.environ["PATH"]}
    bench = Workbench(str(folder), environment, Launcher(), False, history, Outputs(folder / "outputs"))
    return await tool.run({}, bench)


async def test_the_type_of_a_servers_image_is_read_from_its_bytes(tmp_path: Path) -> None:
    output = await draw(tmp_path, JPEG, GOOD)
    assert [image.media_type for image in output.images] == ["image/jpeg", "image/png"]


async def test_a_servers_image_that_is_none_or_too_large_becomes_a_note(tmp_path: Path) -> None:
    output = await draw(tmp_path, b"no image", GOOD, PNG + b"0" * MAX_BYTES)
    assert len(output.images) == 1
    assert output.text.splitlines() == [
        "Here.",
        "[An image was left out: it is not a PNG, JPEG, GIF or WebP.]",
        "[An image was left out: it is larger than 3.75 MB.]",
    ]


async def test_a_file_that_is_too_large_is_told_to_the_model(make_rig: MakeRig) -> None:
    rig = make_rig(script=provider)
    (rig.workspace / "huge.png").write_bytes(PNG + b"0" * MAX_BYTES)
    assert end_of(await rig.turn("look at huge.png")).outcome == "completed"
    assert "larger than" in json.dumps(rig.model.requests[-1].results)
