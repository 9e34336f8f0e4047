"""The first turn without a key, and the login at OpenAI: answered as a person would, against servers on loopback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import anyio
import pytest
from anyio.to_thread import run_sync
from msgspec.structs import replace
from tests.engines.native.conftest import MakeRig
from tests.engines.native.issuer import Issuer
from tests.engines.native.model import Reply
from tests.engines.native.rig import Rig, ask, end_of

from pilothouse.core.ask import Ask, Decision, parse_reply
from pilothouse.core.engine import EngineSession
from pilothouse.core.event import AskChanged, Asked, EngineEvent, Notice
from pilothouse.engines.native.config import NativeConfig
from pilothouse.engines.native.engine import NativeEngine
from pilothouse.engines.native.key_file import Kept, KeyFile, Login
from pilothouse.engines.native.login import LoginFailed, OAuthServer, plan_login, read_code, read_tokens

pytestmark = pytest.mark.anyio
KEY = "sk-fake-and-long"


Says = Callable[[Ask], Awaitable[str | None]]


class Person:
    """Answers questions, each by the beginning of its id; an empty answer declines, and None is left open."""

    def __init__(self, session: EngineSession, **answers: str | Says) -> None:
        self.asked: list[Ask] = []
        self._session = session
        self._answers = answers

    def __call__(self, event: EngineEvent) -> Awaitable[object] | None:
        return self._reply(event.ask) if isinstance(event, Asked) else None

    async def _reply(self, ask: Ask) -> None:
        self.asked.append(ask)
        said = self._answers[ask.id.rpartition("setup-")[2]]
        text = said if isinstance(said, str) else await said(ask)
        if text is not None:
            await self._session.answer(ask.id, parse_reply(ask, text) if text else Decision("deny"))  # pyrefly: ignore[missing-attribute]


def engine_of(
    rig: Rig, issuer: Issuer | None = None, now: Callable[[], float] = lambda: 1000.0, **config: Any
) -> NativeEngine:
    settings = NativeConfig(base_url=rig.model.base_url("anthropic"), context_window=100_000, **config)
    server = issuer.server if issuer else OAuthServer(port=0)
    return NativeEngine(settings, rig.host, now=now, models_url=f"{rig.model.url}/none", oauth=server)


async def test_provider_key_and_model_are_picked_in_the_chat_once(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Hello."))
    async with engine_of(rig) as engine:
        async with engine.open(rig.brief()) as session:
            person = Person(session, provider="anthropic", key=KEY, model="claude-haiku-4-5")
            events = await ask(session, "Hi", react=person)
        assert end_of(events).answer == "Hello."
        assert [ask.id.rpartition("-")[2] for ask in person.asked] == ["provider", "key", "model"]
        assert "anthropic/claude-haiku-4-5" in next(e.text for e in events if isinstance(e, Notice))
        async with engine.open(rig.brief("two")) as session:
            assert end_of(await ask(session, "Hi", react=Person(session))).answer == "Hello."
        assert next(iter(engine.models())).name == "claude-haiku-4-5"
    assert [request.headers["x-api-key"] for request in rig.model.requests] == [KEY, KEY]
    assert {request.body["model"] for request in rig.model.requests} == {"claude-haiku-4-5"}
    assert KeyFile(rig.host.state_dir).path.stat().st_mode & 0o777 == 0o600


async def test_a_person_who_does_not_answer_is_told_what_is_missing(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Hello."))
    async with engine_of(rig) as engine, engine.open(rig.brief()) as session:
        for answers in (
            {"provider": ""},
            {"provider": "OpenRouter", "key": "two words"},
            {"provider": "Clippy"},
        ):
            failure = end_of(await ask(session, "Hi", react=Person(session, **answers))).failure
            assert failure is not None
            assert failure.kind == "auth"
            assert "no API key" in failure.text
            assert "ANTHROPIC_API_KEY" in failure.fix
    assert rig.model.requests == []
    assert not KeyFile(rig.host.state_dir).path.exists()


async def test_a_key_from_the_chat_that_is_refused_is_asked_for_again(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("bad key", status=401, code="authentication_error"), Reply("Hello."))
    async with engine_of(rig) as engine, engine.open(rig.brief()) as session:
        first = Person(session, provider="1", key="sk-wrong", model="m")
        failure = end_of(await ask(session, "Hi", react=first)).failure
        assert failure is not None
        assert "give another key" in failure.fix
        second = Person(session, key=KEY, model="m")
        assert end_of(await ask(session, "Hi", react=second)).outcome == "completed"
    assert [request.headers["x-api-key"] for request in rig.model.requests] == ["sk-wrong", KEY]


async def test_a_server_of_ones_own_is_asked_for_its_address(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Hello."))
    settings = NativeConfig()
    engine = NativeEngine(settings, rig.host, models_url=f"{rig.model.url}/none")
    async with engine, engine.open(rig.brief()) as session:
        person = Person(session, provider="compatible", address=f"{rig.model.url}/v1/", key="1", model="qwen")
        assert end_of(await ask(session, "Hi", react=person)).outcome == "completed"
    assert rig.model.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("path", "why"), [("", "could not be reached"), ("/nowhere", "has no chat completions")]
)
async def test_an_address_that_does_not_answer_is_not_kept(make_rig: MakeRig, path: str, why: str) -> None:
    rig = make_rig(Reply("Hello."))
    wrong = f"{rig.model.url}{path}" if path else "http://127.0.0.1:9/v1"
    engine = NativeEngine(NativeConfig(), rig.host, models_url=f"{rig.model.url}/none")
    async with engine, engine.open(rig.brief()) as session:
        failure = end_of(await ask(session, "Hi", react=Person(session, provider="4", address=wrong))).failure
        assert failure is not None and why in failure.text
        right = Person(session, provider="4", address=f"{rig.model.url}/v1", key="1", model="qwen")
        assert end_of(await ask(session, "Hi", react=right)).outcome == "completed"


async def test_a_model_of_another_provider_needs_its_key_alone(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Hello."))
    file = KeyFile(rig.host.state_dir)
    kept = await file.change(
        lambda _: Kept(provider="compatible", model="qwen", base_url="http://127.0.0.1:9/v1")
    )
    rig.host = replace(rig.host, environment={"OPENROUTER_BASE_URL": f"{rig.model.url}/v1"})
    engine = NativeEngine(NativeConfig(), rig.host, models_url=f"{rig.model.url}/none")
    async with engine, engine.open(rig.brief(model="openrouter/some/model")) as session:
        person = Person(session, key=KEY)
        assert end_of(await ask(session, "Hi", react=person)).outcome == "completed"
    assert len(person.asked) == 1
    assert rig.model.requests[0].body["model"] == "some/model"
    assert file.read() == replace(kept, keys={"openrouter": KEY})


def login_url(ask: Ask) -> str:
    return next(word for word in ask.title.split() if "/oauth/authorize?" in word)


async def by_browser(ask: Ask) -> None:
    query = parse_qs(urlsplit(login_url(ask)).query)
    back = query["redirect_uri"][0].replace("localhost", "127.0.0.1")

    def visit() -> None:
        for state in ("wrong", query["state"][0]):
            try:
                urlopen(f"{back}?code=the-code&state={state}").read()
            except OSError:
                assert state == "wrong"

    await run_sync(visit)


async def by_hand(ask: Ask) -> str:
    query = parse_qs(urlsplit(login_url(ask)).query)
    return f"{query['redirect_uri'][0]}?code=the-code&state={query['state'][0]}"


@pytest.mark.parametrize("way", [by_browser, by_hand])
async def test_a_login_at_openai_is_used_like_a_key(make_rig: MakeRig, issuer: Issuer, way: Says) -> None:
    rig = make_rig(Reply("Hello."))
    settings = NativeConfig(base_url=rig.model.base_url("openai"))
    engine = NativeEngine(
        settings, rig.host, now=lambda: 1000.0, models_url=f"{rig.model.url}/none", oauth=issuer.server
    )
    async with engine, engine.open(rig.brief()) as session:
        person = Person(session, provider="OpenAI", way="2", login=way, model="gpt-5.4")
        events = await ask(session, "Hi", react=person)
    usage = end_of(events).usage
    assert usage is not None and (usage.cost_usd, usage.input_tokens) == (0.0, 10)
    withdrawn = [event.ask_id for event in events if isinstance(event, AskChanged)]
    assert [id.endswith("setup-login") for id in withdrawn] == ([True] if way is by_browser else [])
    (request,) = rig.model.requests
    assert request.headers["authorization"] == "Bearer access-1"
    assert request.headers["chatgpt-account-id"] == "acct-1"
    assert "max_output_tokens" not in request.body
    (form,) = issuer.forms
    assert form["code"] == "the-code"
    assert len(form["code_verifier"]) >= 43


async def test_an_old_token_is_renewed_once_by_turns_at_the_same_time(
    make_rig: MakeRig, issuer: Issuer
) -> None:
    rig = make_rig(Reply("Hello."))
    kept = Kept(login=Login("old", "refresh-0", 1100.0, "acct-9"), provider="openai", model="m")
    await KeyFile(rig.host.state_dir).change(lambda _: kept)
    settings = NativeConfig(base_url=rig.model.base_url("openai"))
    engine = NativeEngine(
        settings, rig.host, now=lambda: 1050.0, models_url=f"{rig.model.url}/none", oauth=issuer.server
    )
    async with engine, anyio.create_task_group() as tasks:

        async def turn(name: str) -> None:
            async with engine.open(rig.brief(name)) as session:
                assert end_of(await ask(session, "Hi")).outcome == "completed"

        for name in ("one", "two", "three"):
            tasks.start_soon(turn, name)
    assert [form["refresh_token"] for form in issuer.forms] == ["refresh-0"]
    assert {request.headers["authorization"] for request in rig.model.requests} == {"Bearer access-1"}
    login = KeyFile(rig.host.state_dir).read().login
    assert login is not None
    assert (login.refresh, login.account) == ("refresh-1", "acct-1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not the address"),
        ("the-code", "not the address"),
        ("http://localhost:1/auth/callback?code=x&state=other", "another login"),
        ("http://localhost:1/auth/callback?error=access_denied", "access_denied"),
        ("http://[::1", "not the address"),
    ],
)
def test_an_address_that_is_not_this_logins_is_refused(text: str, why: str) -> None:
    with pytest.raises(LoginFailed, match=why):
        read_code(plan_login(OAuthServer(), 1), text)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"access_token": 1}', b"\xff"])
def test_an_answer_without_a_token_is_none(data: bytes) -> None:
    assert read_tokens(data, 0.0) is None


def test_a_key_file_that_is_not_ours_is_empty_and_a_link_is_not_followed(tmp_path: Path) -> None:
    ring = KeyFile(str(tmp_path))
    assert ring.read() == Kept()
    ring.path.write_text("{broken")
    assert ring.read() == Kept()
    (tmp_path / "other").write_text('{"model": "x"}')
    ring.path.unlink()
    ring.path.symlink_to(tmp_path / "other")
    assert ring.read() == Kept()
    assert "secret-key" not in repr(Kept({"openai": "secret-key"}, Login("secret-key", "secret-key", 0)))
