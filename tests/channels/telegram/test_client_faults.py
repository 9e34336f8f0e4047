"""Every failure becomes a value that says what to do about it; nothing raises and nothing hangs."""

import anyio
import pytest
from anyio.abc import ByteStream
from tests.channels.telegram.conftest import connect
from tests.channels.telegram.posts import edit_text, keyboard, send_draft, send_file, send_message, send_rich
from tests.channels.telegram.rival import rival
from tests.channels.telegram.server.running import Server, open_server
from tests.http.server import Visits, answer, saying, serving
from tests.ports import hold_port

from pilothouse.channels.telegram import trouble
from pilothouse.channels.telegram.api import UPLOAD_TRIES
from pilothouse.channels.telegram.client import BotClient, open_client
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.payload import Button, Entity, FileBytes
from pilothouse.channels.telegram.trouble import Trouble, classify
from pilothouse.channels.telegram.wire import Message
from pilothouse.core.secret import Secret


async def test_a_flood_says_how_long_to_wait(client: BotClient, server: Server) -> None:
    ada = server.person()
    server.faults.too_many("sendMessage", after_s=37)
    sent = await send_message(client, ada.id, "hi")
    assert isinstance(sent, trouble.RetryAfter)
    assert (sent.after_s, sent.maybe_done) == (37.0, False)
    assert server.world.texts(ada.id) == []


async def test_an_edit_that_changes_nothing_is_told_apart(client: BotClient, server: Server) -> None:
    ada = server.person()
    sent = await send_message(client, ada.id, "same")
    assert isinstance(sent, Message)
    assert isinstance(await edit_text(client, ada.id, sent.message_id, "same"), trouble.NotModified)


async def test_a_press_that_waited_too_long_is_too_old(client: BotClient, server: Server) -> None:
    ada = server.person()
    await send_message(client, ada.id, "?", reply_markup=keyboard(Button("Yes", "k")))
    query = ada.press(server.world.shown(ada.id)[0], "Yes")
    query.expired = True
    assert isinstance(await client.answer_callback(query.id), trouble.TooOld)


async def test_a_bot_that_was_blocked_or_thrown_out_is_told_so(client: BotClient, server: Server) -> None:
    ada = server.person()
    group = ada.make_group("Lab")
    ada.block()
    ada.remove_bot(group)
    blocked = await send_message(client, ada.id, "hi")
    kicked = await send_message(client, group.id, "hi")
    assert isinstance(blocked, trouble.Blocked)
    assert isinstance(kicked, trouble.Blocked)
    assert "kicked from the supergroup" in kicked.text
    forum = ada.make_group("Forum", forum=True)
    assert isinstance(await client.create_topic(forum.id, "x"), trouble.Blocked)


async def test_text_that_telegram_cannot_parse_is_a_parse_error(client: BotClient, server: Server) -> None:
    ada = server.person()
    link = Entity("text_link", 0, 1, url="http://localhost:8000/x")
    tries = [
        await send_message(client, ada.id, "x", entities=(link,)),
        await send_message(client, ada.id, "😀", entities=(Entity("bold", 1, 1),)),
        await send_message(client, ada.id, "half \ud83d of it"),
        await send_rich(client, ada.id, ""),
    ]
    assert [type(one) for one in tries] == [trouble.ParseError] * 4


async def test_text_that_is_too_long_is_told_apart(client: BotClient, server: Server) -> None:
    ada = server.person()
    image = FileBytes("a.png", "image/png", b"x")
    tries = [
        await send_message(client, ada.id, "😀" * 2049),
        await send_file(client, ada.id, image, kind="photo", caption="x" * 1025),
        await send_rich(client, ada.id, "x" * 32769),
    ]
    assert [type(one) for one in tries] == [trouble.TooLong] * 3


async def test_what_is_not_there_any_more_is_named(client: BotClient, server: Server) -> None:
    ada = server.person()
    forum = ada.make_group("Forum", forum=True)
    tries = [
        await edit_text(client, ada.id, 999, "x"),
        await client.delete_message(ada.id, 999),
        await client.call(
            "sendMessage", {"chat_id": ada.id, "text": "x", "reply_parameters": {"message_id": 999}}, Message
        ),
        await send_message(client, forum.id, "x", thread=999),
        await send_message(client, 31337, "x"),
        await client.download("nonsense"),
    ]
    assert [type(one) for one in tries] == [trouble.NotFound] * 6


async def test_a_group_that_became_a_supergroup_gives_its_new_id(client: BotClient, server: Server) -> None:
    ada = server.person()
    old = ada.make_group("Lab", kind="group")
    new = ada.migrate(old)
    sent = await send_message(client, old.id, "hi")
    assert isinstance(sent, trouble.Migrated)
    assert sent.to == new.id


async def test_a_second_poller_ends_the_first_one(client: BotClient, server: Server) -> None:
    results: list[object] = []
    ended = anyio.Event()

    async def poll() -> None:
        results.append(await client.get_updates(0, timeout_s=50))
        ended.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            await server.world.until(lambda: server.polls.waiting)
            async with rival(server):
                await ended.wait()
    (conflict,) = results
    assert isinstance(conflict, trouble.Conflict)
    assert not conflict.webhook


async def test_polling_beside_a_webhook_is_a_conflict_of_its_own(client: BotClient, server: Server) -> None:
    await client.set_webhook("https://example.org/hook", "s")
    conflict = await client.get_updates(0, timeout_s=0)
    assert isinstance(conflict, trouble.Conflict)
    assert conflict.webhook


async def test_a_wrong_token_is_told_before_and_after_it_is_tried(server: Server) -> None:
    for token in ("1234:wrong", "nonsense", "", "12:a/../x", "12:a b\r\nX-Evil: 1", "١٢:a"):
        async with open_client(Endpoint(Secret(token), server.url)) as client:
            assert isinstance(await client.get_me(), trouble.Unauthorized)
    assert [call.method for call in server.calls] == ["getMe"]


async def test_a_success_whose_answer_was_lost_may_have_happened(client: BotClient, server: Server) -> None:
    ada = server.person()
    server.faults.lose_answer("sendMessage")
    lost = await send_message(client, ada.id, "did it?")
    assert isinstance(lost, trouble.NetworkDown)
    assert lost.maybe_done
    assert server.world.texts(ada.id) == ["did it?"]


async def test_a_server_that_nobody_reaches_has_certainly_done_nothing() -> None:
    with hold_port() as port:
        async with open_client(Endpoint(Secret("1:x"), f"http://127.0.0.1:{port}")) as client:
            down = await client.get_me()
    assert isinstance(down, trouble.NetworkDown)
    assert not down.maybe_done
    async with open_client(Endpoint(Secret("1:x"), "http://nowhere.invalid")) as client:
        assert isinstance(await client.get_me(), trouble.NetworkDown)


async def test_a_storm_of_server_errors_passes_and_the_next_call_works(
    client: BotClient, server: Server
) -> None:
    ada = server.person()
    server.faults.storm("sendMessage", status=502, times=3)
    server.faults.refuse("sendMessage", 500, "Internal Server Error")
    for _ in range(4):
        down = await send_message(client, ada.id, "hi")
        assert isinstance(down, trouble.ServerDown)
        assert down.maybe_done
    assert isinstance(await send_message(client, ada.id, "hi"), Message)


async def test_something_else_that_answers_is_not_taken_for_telegram(
    client: BotClient, server: Server
) -> None:
    bodies = (
        b"<html>Log in</html>",
        b"",
        b"[1,2]",
        b'{"ok": true, "result": 7}',
        b'{"ok": true}',
        b"\xff\xfe",
        b'{"ok": true, "result": %b}' % (b"[" * 100_000 + b"]" * 100_000),
    )
    for body in bodies:
        server.faults.garble("getMe", body)
        answer = await client.get_me()
        assert isinstance(answer, trouble.NotTelegram), body
        assert answer.maybe_done


@pytest.mark.parametrize(
    ("status", "kind"),
    [(413, trouble.TooBig), (429, trouble.RetryAfter), (403, trouble.NotTelegram), (504, trouble.ServerDown)],
)
async def test_a_page_of_a_proxy_is_told_by_its_status(
    client: BotClient, server: Server, status: int, kind: type[Trouble]
) -> None:
    server.faults.storm("sendDocument", status=status)
    found = await send_file(client, 1, FileBytes("a.zip", "application/zip", bytes(2_000_000)))
    assert type(found) is kind
    assert found.maybe_done == (status >= 500)


@pytest.mark.parametrize("answers", [True, False])
async def test_a_proxy_that_refuses_a_file_by_closing_the_connection_silences_nothing(answers: bool) -> None:
    """Its 413 is lost where bytes of the file were on their way. A call without a file passes."""

    async def serve(stream: ByteStream, visits: Visits) -> None:
        visits.heads.append([await stream.receive()])
        if answers:
            await stream.send(answer(b"<html>too large</html>", status=b"413 No"))

    async with serving(serve) as visits, open_client(Endpoint(Secret("1:x"), visits.url)) as client:
        found = await send_file(client, 1, FileBytes("a.zip", "application/zip", bytes(16 << 20)))
    assert type(found) is trouble.TooBig
    assert not found.maybe_done
    assert len(visits.heads) <= UPLOAD_TRIES


async def test_what_cannot_be_read_is_not_repeated_at_length() -> None:
    said = b"HTTP/1.1 200 OK\r\nX : " + b"y" * 50_000 + b"\r\n\r\n"
    async with (
        serving(saying(said)) as visits,
        open_client(Endpoint(Secret("1:x"), f"http://127.0.0.1:{visits.port}")) as client,
    ):
        down = await client.get_me()
    assert isinstance(down, trouble.NetworkDown)
    assert "illegal header line" in down.text
    assert len(down.text) <= trouble.TEXT_CHARS


async def test_an_answer_without_end_is_cut_off(client: BotClient, server: Server) -> None:
    server.faults.garble("getMe", b" " * (33 << 20))
    assert isinstance(await client.get_me(), trouble.TooBig)


async def test_a_slow_answer_is_waited_for_and_can_be_given_up(client: BotClient, server: Server) -> None:
    ada = server.person()
    slow = server.faults.hold("sendMessage", times=2)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_message, client, ada.id, "given up")
            await slow.arrived.wait()
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_message, client, ada.id, "waited for")
            await server.world.until(lambda: len(server.called("sendMessage")) == 2)
            slow.release()
    assert "waited for" in server.world.texts(ada.id)


async def test_a_server_without_rich_messages_says_that_it_has_no_such_method() -> None:
    async with open_server(rich=False) as server, connect(server) as client:
        ada = server.person()
        assert isinstance(await send_rich(client, ada.id, "x"), trouble.Unsupported)
        assert isinstance(await send_draft(client, ada.id, 1, "x"), trouble.Unsupported)
        assert isinstance(await send_message(client, ada.id, "x"), Message)


@pytest.mark.parametrize(
    ("code", "description", "kind"),
    [
        (400, "Bad Request: BUTTON_DATA_INVALID", trouble.Refused),
        (400, "Bad Request: ENTITY_BOUNDS_INVALID", trouble.ParseError),
        (400, "Bad Request: CHAT_WRITE_FORBIDDEN", trouble.Blocked),
        (400, "Bad Request: message can't be deleted for everyone", trouble.NotFound),
        (404, "Not Found", trouble.Unauthorized),
        (418, "", trouble.Refused),
        (429, "Too Many Requests", trouble.RetryAfter),
        (999, "the future", trouble.ServerDown),
    ],
)
def test_a_refusal_is_told_by_its_code_and_words(code: int, description: str, kind: type[Trouble]) -> None:
    found = classify(code, description, {"retry_after": "soon"})
    assert type(found) is kind
    assert found.text
