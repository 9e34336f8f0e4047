"""Keys and logins that were given in a chat: removed only when they themselves were refused, and never waited for on the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.native.conftest import MakeRig
from tests.engines.native.issuer import Issuer
from tests.engines.native.model import Reply, Request
from tests.engines.native.rig import Rig, ask, end_of

from pilothouse.core.ask import Decision
from pilothouse.core.outcome import Failure
from pilothouse.engines.native.config import NativeConfig
from pilothouse.engines.native.engine import NativeEngine
from pilothouse.engines.native.key_file import Kept, KeyFile, Login
from pilothouse.engines.native.login import OAuthServer
from pilothouse.engines.native.spec import log_out

pytestmark = pytest.mark.anyio
NOW = 1000.0
NOBODY = OAuthServer("http://127.0.0.1:9", 0)
LOGIN = Login("access-0", "refresh-0", NOW + 3600, "acct-1")


def replacing(kept: Kept) -> Callable[[Kept], Kept]:
    return lambda _: kept


def engine_of(rig: Rig, provider: str, oauth: OAuthServer = NOBODY) -> NativeEngine:
    """Return an engine whose only keys are those of the file."""
    settings: dict[str, Any] = {"provider": provider, "model": "m", "base_url": rig.model.base_url(provider)}
    config = NativeConfig(**settings, context_window=100_000)
    models = f"{rig.model.url}/none"
    return NativeEngine(config, rig.host, now=lambda: NOW, sleep=anyio.sleep, models_url=models, oauth=oauth)


async def failure_of(rig: Rig, provider: str, oauth: OAuthServer = NOBODY) -> Failure:
    async with engine_of(rig, provider, oauth) as engine, engine.open(rig.brief()) as session:
        failure = end_of(await ask(session, "Hi", decision=None)).failure
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("provider", "reply", "kind"),
    [
        ("openrouter", Reply("flagged by moderation", status=403, code="403"), "bad_request"),
        ("openai", Reply("no access to model `m`", status=403, code="model_not_found"), "bad_request"),
        ("anthropic", Reply("may not use this", status=403, code="permission_error"), "auth"),
        ("anthropic", Reply(status=403, page="<html>Blocked by a firewall</html>"), "bad_request"),
        ("anthropic", Reply(status=401, page="<html>Log in at the proxy</html>"), "auth"),
    ],
)
async def test_a_key_is_kept_when_something_else_is_refused(
    make_rig: MakeRig, provider: str, reply: Reply, kind: str
) -> None:
    rig = make_rig(reply)
    file = KeyFile(rig.host.state_dir)
    kept = await file.change(lambda _: Kept(keys={provider: "sk"}))
    failure = await failure_of(rig, provider)
    assert failure.kind == kind
    assert "give another key" not in failure.fix
    assert file.read() == kept


@pytest.mark.parametrize(
    "reply",
    [
        Reply("bad key", status=401, code="authentication_error"),
        Reply("Incorrect", status=400, code="invalid_api_key"),
    ],
)
async def test_a_key_that_the_provider_refuses_is_forgotten(make_rig: MakeRig, reply: Reply) -> None:
    rig = make_rig(reply)
    file = KeyFile(rig.host.state_dir)
    await file.change(lambda _: Kept(keys={"openai": "sk", "anthropic": "other"}, login=LOGIN))
    assert "give another key" in (await failure_of(rig, "openai")).fix
    assert file.read() == Kept(keys={"anthropic": "other"}, login=LOGIN)


async def test_a_key_that_was_replaced_during_the_turn_is_kept(make_rig: MakeRig) -> None:
    file: list[KeyFile] = []

    def script(_request: Request) -> Reply:
        anyio.run(file[0].change, replacing(Kept(keys={"openai": "new"}, login=LOGIN)))
        return Reply("bad key", status=401, code="invalid_api_key")

    rig = make_rig(script=script)
    file.append(KeyFile(rig.host.state_dir))
    await file[0].change(lambda _: Kept(keys={"openai": "old"}))
    await failure_of(rig, "openai")
    assert file[0].read() == Kept(keys={"openai": "new"}, login=LOGIN)


async def test_a_login_that_was_renewed_during_the_turn_is_kept(make_rig: MakeRig) -> None:
    file: list[KeyFile] = []
    renewed = Login("access-1", "refresh-1", NOW + 7200, "acct-1")

    def script(_request: Request) -> Reply:
        anyio.run(file[0].change, replacing(Kept(login=renewed)))
        return Reply("token expired", status=401, code="token_expired")

    rig = make_rig(script=script)
    file.append(KeyFile(rig.host.state_dir))
    await file[0].change(lambda _: Kept(login=LOGIN))
    await failure_of(rig, "openai")
    assert file[0].read().login == renewed


async def test_a_refused_token_is_renewed_by_the_next_turn(make_rig: MakeRig, issuer: Issuer) -> None:
    def script(request: Request) -> Reply:
        is_new = request.headers["authorization"] == "Bearer access-1"
        return Reply("Hello.") if is_new else Reply("revoked", status=401, code="token_revoked")

    rig = make_rig(script=script)
    await KeyFile(rig.host.state_dir).change(lambda _: Kept(login=LOGIN))
    async with engine_of(rig, "openai", issuer.server) as engine, engine.open(rig.brief()) as session:
        failure = end_of(await ask(session, "Hi")).failure
        assert failure is not None and "renewed first" in failure.fix
        assert end_of(await ask(session, "Hi")).answer == "Hello."
    assert [form["refresh_token"] for form in issuer.forms] == ["refresh-0"]


@pytest.mark.parametrize("status", [403, 429, 503, None])
async def test_a_login_outlives_a_server_that_does_not_renew_it_now(
    make_rig: MakeRig, issuer: Issuer, status: int | None
) -> None:
    rig = make_rig(Reply("token expired", status=401, code="token_expired"))
    file = KeyFile(rig.host.state_dir)
    await file.change(lambda _: Kept(login=Login("access-0", "refresh-0", NOW - 5, "acct-1")))
    issuer.status = status or 200
    await failure_of(rig, "openai", issuer.server if status else NOBODY)
    login = file.read().login
    assert login is not None and login.refresh == "refresh-0"


async def test_a_login_whose_renewal_is_refused_is_forgotten(make_rig: MakeRig, issuer: Issuer) -> None:
    rig = make_rig(Reply("Hello."))
    file = KeyFile(rig.host.state_dir)
    await file.change(lambda _: Kept(login=Login("access-0", "refresh-0", NOW - 5, "acct-1")))
    issuer.status, issuer.error = 400, "invalid_grant"
    async with engine_of(rig, "openai", issuer.server) as engine, engine.open(rig.brief()) as session:
        failure = end_of(await ask(session, "Hi", Decision("deny"))).failure
    assert failure is not None and "no key for OpenAI" in failure.text
    assert file.read().login is None
    assert rig.model.requests == []


async def test_a_change_waits_for_a_renewal_without_stopping_the_loop(tmp_path: Path) -> None:
    file = KeyFile(str(tmp_path))
    await file.change(lambda _: Kept(keys={"anthropic": "sk"}, login=LOGIN))
    asked, answered = anyio.Event(), anyio.Event()

    async def server(kept: Kept) -> Kept:
        asked.set()
        await answered.wait()
        return Kept(keys=kept.keys, login=Login("access-1", "refresh-1", NOW, "acct-1"))

    async def reject() -> None:
        assert await KeyFile(str(tmp_path)).reject("anthropic", "sk")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(file.renew, server)
            await asked.wait()
            tasks.start_soon(reject)
            await anyio.wait_all_tasks_blocked()
            assert "anthropic" in file.read().keys
            answered.set()
    kept = file.read()
    assert not kept.keys
    assert kept.login is not None and kept.login.refresh == "refresh-1"


async def test_a_logout_from_a_thread_names_what_it_removed(tmp_path: Path) -> None:
    file = KeyFile(str(tmp_path))
    await file.change(lambda _: Kept(keys={"anthropic": "sk"}, login=LOGIN))
    removed = await anyio.to_thread.run_sync(log_out, str(tmp_path))
    assert removed == ["the key of anthropic", "the login at OpenAI"]
    assert file.read() == Kept()
