"""`run.start` and `run.cancel`: a run is a message of its own, stored before it is answered.

The server never reads a clipboard by itself: a client that has none, or whose person says no, ends a request that asks for it.
"""

from __future__ import annotations

import msgspec

from pilothouse.channels.client_runs import LOCAL, Said, keep_image
from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.rpc.connection import Connection, Feed
from pilothouse.channels.rpc.model_requests import engine_of
from pilothouse.channels.rpc.notifications import (
    ClipboardImage,
    ClipboardText,
    PickItem,
    UiClipboardParams,
    UiClipboardResult,
    UiPickParams,
    UiPickResult,
)
from pilothouse.channels.rpc.params import (
    ClipboardPart,
    ImagePart,
    ImageUrl,
    Ok,
    PartsInput,
    RunCancelParams,
    RunStartParams,
    RunStartResult,
    TextInput,
    TextPart,
    UiContext,
)
from pilothouse.channels.rpc.protocol import (
    BUSY,
    INTERNAL,
    RUN_NOT_FOUND,
    SESSION_LOAD_FAILED,
    USER_CANCELLED,
    unsupported,
)
from pilothouse.channels.stdio_server import ReplyFailed, Respond
from pilothouse.core.errors import PilothouseError
from pilothouse.core.message import Attachment
from pilothouse.core.policy import MODES

MAX_CLIPBOARD_BYTES = 10 * 1024 * 1024
CLIPBOARD_PROMPT = "Attach what the clipboard holds to your message?"
CONTEXT_CHARS = 20_000
MODE_TEXTS = {
    "minimal": "read in this folder",
    "trusted": "also change files in this folder",
    "full-access": "everything that no rule denies",
}


async def start_run(client: Connection, params: RunStartParams, respond: Respond) -> None:
    """Start a run. Its first frames are the answer and `run.status running`, also if the engine is very fast."""
    if params.tools or params.tool_choice not in (None, "auto"):
        raise unsupported("client_tools", "No engine can call tools of a client. Leave out `tools`.")
    said = None if params.force_compaction else await _read_input(client, params)
    async with client.starting:
        await _pick_mode(client)
        feed = await open_session(client, params.session_id)
        said = said or await _compaction(client, feed)
        async with feed.lock:
            await check_idle(client, feed)
            receipt = await client.runs.start(feed, said)
            if receipt.message_id is None:
                raise RequestError(INTERNAL, receipt.text or "The message was refused.")
            run_id = receipt.message_id
            await respond(RunStartResult(run_id, feed.session_id))
            await client.status(feed, run_id, "running")


async def open_session(client: Connection, session_id: str | None) -> Feed:
    if session_id is None:
        address = client.address_of(client.setup.new_id())
        await client.setup.bind(address)
        return await client.open(address)
    address = await client.find(session_id)
    if address.channel not in LOCAL:
        text = f"The session {session_id} belongs to {address.channel}: it can be read here. Write there."
        raise RequestError(SESSION_LOAD_FAILED, text)
    return await client.open(address)


async def check_idle(client: Connection, feed: Feed) -> None:
    """One run at a time per session; messages of other surfaces count too."""
    running = any(other is feed for other in client.runs.active.values())
    if running or await feed.query("queue", conversation=feed.conversation):
        raise RequestError(BUSY, "The session has a run that has not ended. Wait for it, or cancel it.")
    if await feed.query("live_turn", conversation=feed.conversation) is not None:
        raise RequestError(BUSY, "The session has a run that has not ended. Wait for it, or cancel it.")


async def _read_input(client: Connection, params: RunStartParams) -> Said:
    given = params.input
    if given is None:
        raise RequestError(INVALID_PARAMS, "The parameters are wrong: `input` is missing.")
    parts = (TextPart(given.text),) if isinstance(given, TextInput) else await _with_clipboard(client, given)
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    images = [part for part in parts if isinstance(part, ImagePart)]
    files = tuple([await _store(client, part, number) for number, part in enumerate(images, 1)])
    if not text.strip() and not files:
        raise RequestError(INVALID_PARAMS, "The input is empty. Give a text or an image.")
    is_command = text.lstrip().startswith("/")
    return Said(
        text, files, ui_context="" if is_command else _context_text(params.ui_context or client.ui_context)
    )


async def _with_clipboard(client: Connection, given: PartsInput) -> list[TextPart | ImagePart]:
    """Return the parts, with what the clipboard holds in place of those that ask for it."""
    parts: list[TextPart | ImagePart] = []
    for part in given.parts:
        parts += await _read_clipboard(client, part) if isinstance(part, ClipboardPart) else [part]
    return parts


async def _read_clipboard(client: Connection, part: ClipboardPart) -> list[TextPart | ImagePart]:
    """Ask the client for its clipboard. Raises `RequestError` if it gives nothing that was asked for."""
    if client.able is None or not client.able.supports_clipboard_read:
        raise RequestError(
            INVALID_PARAMS, "A clipboard part needs a client with `supports_clipboard_read`. Send its text."
        )
    if not part.formats:
        raise RequestError(
            INVALID_PARAMS, "The parameters are wrong: `formats` of a clipboard part is empty."
        )
    purpose = "text_paste" if part.formats[0] == "text/plain" else "image_attachment"
    asked = UiClipboardParams(purpose, part.formats, MAX_CLIPBOARD_BYTES, CLIPBOARD_PROMPT)
    try:
        told = await client.dialogs.ask("ui.clipboard.read", asked, UiClipboardResult)
    except ReplyFailed as error:
        raise RequestError(INTERNAL, str(error)) from error
    if told.cancelled:
        raise RequestError(USER_CANCELLED, "The person did not give the clipboard.")
    if not told.ok or not told.items:
        why = told.error or "it is empty"
        raise RequestError(INTERNAL, f"The clipboard cannot be read: {why[:200]}.")
    return [_clipboard_part(item, part) for item in told.items]


def _clipboard_part(item: ClipboardText | ClipboardImage, asked: ClipboardPart) -> TextPart | ImagePart:
    """Check one item against what was asked for."""
    match item:
        case ClipboardText(text=text):
            kind, size, part = "text/plain", len(text), TextPart(text)
        case ClipboardImage(data_url=url):
            kind, size, part = "image/png", len(url) * 3 // 4, ImagePart(ImageUrl(url))
    if kind not in asked.formats:
        raise RequestError(INTERNAL, "The client gave another format of the clipboard than was asked for.")
    if size > MAX_CLIPBOARD_BYTES:
        raise RequestError(INTERNAL, f"The clipboard holds more than {MAX_CLIPBOARD_BYTES // 1_048_576} MB.")
    return part


async def _compaction(client: Connection, feed: Feed) -> Said:
    """Return the message that makes the session's engine compact its history. Raises `RequestError` if there is none."""
    engine = await feed.query("engine", conversation=feed.conversation)
    line = client.setup.compact_lines.get(engine, "")
    if not line:
        reason = f"The engine {engine} compacts by itself; it cannot be told to."
        raise unsupported("force_compaction", reason)
    return Said("", engine_line=line)


def _context_text(context: UiContext | None) -> str:
    """Name the open file and the selection for the engine; empty if there are none."""
    if context is None or not (context.active_file or context.selection):
        return ""
    told = msgspec.json.encode({"active_file": context.active_file, "selection": context.selection}).decode()
    return told[:CONTEXT_CHARS].replace("</", "<\\/")  # still JSON, and the selection cannot end the tag


async def _store(client: Connection, part: ImagePart, number: int) -> Attachment:
    head, comma, body = part.image_url.url.partition(",")
    kind = head.removeprefix("data:").removesuffix(";base64")
    if not head.startswith("data:") or not head.endswith(";base64") or not comma:
        raise RequestError(INVALID_PARAMS, "The URL of an image must be a base64 data: URL.")
    return await keep_image(client.host.blobs, kind, body, number)


async def _pick_mode(client: Connection) -> None:
    """Before the first run in a folder, ask how much the engine may do there. Unanswered, nothing is stored."""
    store, client.pick_mode = client.pick_mode, None
    if store is None or client.able is None or not client.able.supports_pick:
        return
    items = tuple(PickItem(mode, mode, MODE_TEXTS[mode]) for mode in MODES)
    title = f"How much may {await engine_of(client)} do in {client.setup.folder} without asking?"
    try:
        told = await client.dialogs.ask("ui.pick.request", UiPickParams(title, items), UiPickResult)
    except ReplyFailed:
        return
    if len(told.ids) == 1 and told.ids[0] in MODES:
        await store(told.ids[0])


async def cancel_run(client: Connection, params: RunCancelParams, respond: Respond) -> None:
    """Stop a run, or withdraw its message while it waits. Its end comes as `run.status`."""
    feed = client.runs.active.get(params.run_id)
    if feed is None:
        raise RequestError(RUN_NOT_FOUND, f"No run {params.run_id!r} is active.")
    try:
        await client.runs.stop(feed, params.run_id)
    except PilothouseError as error:
        raise RequestError(INTERNAL, f"The run cannot be stopped: {error}") from error
    await respond(Ok())
