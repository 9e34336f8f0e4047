"""`model.set` is kept: no flag undoes it, and every answer names the engine and model that a session really uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import Client, write_home

MODE = ("--approval-mode", "minimal")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_home(tmp_path)
    return tmp_path


def models(client: Client, session_id: str | None = None) -> tuple[str, str]:
    told = client.call("model.list", session_id=session_id)["result"]
    return told["provider"], told.get("current", "")


def new_session(client: Client) -> str:
    """Start a session with a command, which no engine needs to answer."""
    run = client.start("/status")
    assert client.end_of(run["run_id"]) == "completed"
    return run["session_id"]


def engines_told(client: Client) -> set[str]:
    return {client.initialize()["result"]["engine"], client.call("context.inspect")["result"]["engine"]}


def test_a_flag_is_the_default_until_a_choice_and_is_stored_over_none(home: Path) -> None:
    with Client(home, *MODE, "--engine", "native", "--model", "flagged") as client:
        assert client.initialize()["result"]["engine"] == "native"
        assert models(client) == models(client, new_session(client)) == ("native", "flagged")
    with Client(home) as client:
        assert client.initialize()["result"]["engine"] == "script" and models(client) == ("script", "")
    with Client(home, "--engine", "script", "--model", "flagged") as client:
        client.initialize()
        told = client.call("model.set", name="chosen")["result"]
        assert (told["provider"], told["name"]) == ("script", "chosen")
        assert models(client) == models(client, new_session(client)) == ("script", "chosen")
    for flags in ((), ("--engine", "script")):
        with Client(home, *flags) as client:
            client.initialize()
            assert models(client) == models(client, new_session(client)) == ("script", "chosen")


def test_a_chosen_engine_is_told_everywhere(home: Path) -> None:
    for flags in ((), ("--engine", "script")):
        with Client(home, *flags) as client:
            client.initialize()
            for provider in ("native", "script", "native"):
                told = client.call("model.set", provider=provider)["result"]
                assert told["provider"] == provider
                assert models(client)[0] == models(client, new_session(client))[0] == provider
                assert engines_told(client) == {provider}


def test_a_model_that_is_set_beside_the_flag_of_another_engine_belongs_to_that_engine(home: Path) -> None:
    with Client(home, *MODE, "--engine", "native") as client:
        client.initialize()
        assert client.call("model.set", name="chosen")["result"]["provider"] == "native"
        assert models(client, new_session(client)) == ("native", "chosen")


def test_a_provider_of_the_native_engine_is_named_with_a_model(home: Path) -> None:
    with Client(home, *MODE, "--engine", "native", ANTHROPIC_API_KEY="no-key-at-all") as client:
        client.initialize()
        session = new_session(client)
        listed = client.call("model.list", session_id=session, provider="anthropic")["result"]
        assert listed["provider"] == "anthropic" and len(listed["models"]) > 1
        assert not client.call("model.list", session_id=session, provider="openai")["result"]["models"]
        assert client.call("model.list", session_id=session, provider="script")["error"]["code"] == -32602
        chosen = {"scope": "session", "session_id": session, "provider": "openai"}
        assert client.call("model.set", **chosen)["error"]["code"] == -32602
        told = client.call("model.set", **chosen, name="gpt-5.4")["result"]
        assert (told["provider"], told["name"]) == ("native", "openai/gpt-5.4")
        assert models(client, session) == ("native", "openai/gpt-5.4")


def test_the_newest_models_come_first(home: Path) -> None:
    with Client(home, *MODE, "--engine", "native", ANTHROPIC_API_KEY="no-key-at-all") as client:
        client.initialize()
        session = new_session(client)
        listed = client.call("model.list", session_id=session, include_details=True)["result"]
        oldest = min(listed["details"], key=lambda name: listed["details"][name].get("release_date", "9"))
        client.call("model.set", name=oldest, scope="session", session_id=session)
        told = client.call("model.list", session_id=session)["result"]
        assert len(told["models"]) > 1 and told["current"] == oldest
        assert told["models"] == listed["models"] and told["models"][0] != oldest
