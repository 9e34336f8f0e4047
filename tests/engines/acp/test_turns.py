"""Turns with the scripted agent: asks, words, modes, models, forms, and an agent that is not known to ask."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engines.acp.rig import ASKING, Scripted, session_of
from tests.engines.codex.rig import Reaction, answer_with, asks_of, end_of, notices_of, read

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.errors import EngineError
from pilothouse.core.event import (
    AskChanged,
    EngineEvent,
    Notice,
    PlanChanged,
    ToolFinished,
    ToolStarted,
    UsageChanged,
)
from pilothouse.core.isolation import Isolation
from pilothouse.core.mcp import McpServer, for_engines
from pilothouse.core.outcome import Failure
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.turn import Prompt
from pilothouse.engines.acp.agents import Agent
from pilothouse.engines.acp.session_open import read_servers

pytestmark = pytest.mark.anyio
PNG = bytes.fromhex("89504e470d0a1a0a") + b"rest"


class Always:
    """A policy with one ruling about everything."""

    def __init__(self, outcome: Any, rule: str = "the rule") -> None:
        self._ruling = Ruling(outcome, rule)
        self.judged: list[Ask] = []

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        self.judged.append(ask)
        return self._ruling


async def open_failure(scripted: Scripted, **fields: Any) -> Failure:
    failures: list[Failure] = []
    async with scripted.engine() as engine:
        try:
            async with engine.open(scripted.brief(**fields)):
                pass
        except EngineError as error:
            failures.append(error.failure)
    (failure,) = failures
    assert scripted.leftovers() == []
    return failure


def finished(events: list[EngineEvent]) -> list[ToolFinished]:
    return [event for event in events if isinstance(event, ToolFinished)]


async def test_what_a_rule_allows_is_accepted_once_and_silently(tmp_path: Path) -> None:
    policy = Always("allow")
    scripted = Scripted(tmp_path, policy=policy)
    async with session_of(scripted) as session:
        events = await read(session, "run make test")
    assert asks_of(events) == []
    assert end_of(events).answer == "Ran with y."
    (call,) = [ask.call for ask in policy.judged]
    assert call is not None
    assert (call.kind, call.command, call.cwd) == ("command", "make test", str(scripted.workspace))
    (started,) = [event.call for event in events if isinstance(event, ToolStarted)]
    assert (started.kind, started.title) == ("command", "make test")
    assert [(one.ok, one.output) for one in finished(events)] == [(True, "output")]


@pytest.mark.parametrize("fault", ["", "steers"])
async def test_a_rule_that_denies_is_told_to_the_model(tmp_path: Path, fault: str) -> None:
    scripted = Scripted(tmp_path, fault, policy=Always("deny", "no make today"))
    async with session_of(scripted) as session:
        events = await read(session, "run make")
    assert asks_of(events) == []
    assert [one.denied for one in finished(events)] == ["no make today"]
    assert "no make today" in end_of(events).answer
    assert end_of(events).outcome == "completed"
    assert len(scripted.sent("session/prompt")) == (1 if fault else 2)


async def test_a_person_is_asked_and_a_no_with_words_reaches_the_model(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        events = await read(
            session, "run make", answer_with(session, Decision("deny", text="not on a Friday"))
        )
    (asked,) = asks_of(events)
    assert asked.ask.title == "make"
    assert end_of(events).answer == "The call was not allowed: not on a Friday"


async def test_a_yes_to_another_input_is_a_no_with_words(tmp_path: Path) -> None:
    changed = Decision("allow", input={"command": "make clean"})
    async with session_of(Scripted(tmp_path)) as session:
        events = await read(session, "run make", answer_with(session, changed))
    assert "make clean" in end_of(events).answer


async def test_a_plain_no_cancels_and_says_so_to_the_agent(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted) as session:
        assert (
            end_of(await read(session, "run make", answer_with(session, Decision("deny")))).outcome
            == "cancelled"
        )
    assert {"outcome": {"outcome": "cancelled"}} in scripted.replies()
    assert len(scripted.sent("session/cancel")) == 1


@pytest.mark.parametrize(
    ("options", "decision", "mode", "chosen"),
    [
        ("allow_once reject_once", "allow", "minimal", "allow_once"),
        ("allow_always allow_once", "allow", "minimal", "allow_once"),
        ("allow_always reject_once", "allow", "full-access", "allow_always"),
        ("allow_always reject_once", "allow", "minimal", ""),
        ("allow_once reject_always", "deny", "minimal", ""),
        ("allow_once", "deny", "minimal", ""),
        ("allow_once reject_once", "deny", "minimal", "reject_once"),
    ],
)
async def test_an_option_is_chosen_by_its_kind(
    tmp_path: Path, options: str, decision: Any, mode: Any, chosen: str
) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted, approval_mode=mode) as session:
        said = Decision(decision, text="no" if decision == "deny" else "")
        await read(session, f"options {options}", answer_with(session, said))
    wanted = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
    assert {"outcome": wanted} in scripted.replies()


async def test_a_change_is_asked_about_with_its_paths_and_its_text(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted) as session:
        events = await read(session, "edit", answer_with(session, Decision("allow")))
    (asked,) = asks_of(events)
    call = asked.ask.call
    assert call is not None
    assert call.change is not None
    assert (call.kind, call.paths) == ("change", (f"{scripted.workspace}/a.txt",))
    assert [(one.old, one.new) for one in call.change.replacements] == [("one\n", "two\n")]
    assert asked.ask.title == "edit: a.txt"


async def test_an_unasked_call_ends_the_turn_unless_a_rule_allows_it(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path, policy=Always("allow"))) as session:
        assert end_of(await read(session, "leak ls")).outcome == "completed"
    scripted = Scripted(tmp_path, policy=Always("ask"))
    async with session_of(scripted) as session:
        failure = end_of(await read(session, "leak rm -rf build")).failure
    assert failure is not None
    assert failure.kind == "permission"
    assert "rm -rf build" in failure.text


async def test_an_agent_that_leaves_its_asking_mode_is_stopped(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        failure = end_of(await read(session, "mode")).failure
    assert failure is not None
    assert failure.kind == "permission"


async def test_an_agent_is_put_into_its_asking_mode_or_not_opened(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, "free")
    async with session_of(scripted) as session:
        assert end_of(await read(session, "Hello")).answer == "Hello"
    assert [one["modeId"] for one in scripted.sent("session/set_mode")] == ["default"]
    other = msgspec.structs.replace(ASKING, mode="careful")
    failure = await open_failure(Scripted(tmp_path, agent=other))
    assert (failure.kind, "could not be put into its mode “careful”" in failure.text) == ("permission", True)


async def test_an_agent_that_is_not_known_to_ask_runs_in_full_access_only(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, agent=Agent("Stranger"))
    failure = await open_failure(scripted)
    assert failure.kind == "permission"
    assert "full access only" in failure.text
    async with session_of(scripted, trusted=True, approval_mode="full-access") as session:
        events = await read(session, "leak rm -rf build")
        again = await read(session, "Hello")
    assert end_of(events).outcome == "completed"
    assert [word for word in ("does not ask",) if word in " ".join(notices_of(events))] == ["does not ask"]
    assert notices_of(again) == []
    vouched = Scripted(tmp_path, agent=Agent("Stranger"), asks_first=True)
    async with session_of(vouched, trusted=True) as session:
        assert end_of(await read(session, "Hello")).answer == "Hello"


async def test_an_agent_that_would_obey_a_folder_starts_only_where_it_is_trusted_or_jailed(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    scripted = Scripted(folder, agent=Agent("Stranger"), asks_first=True)
    failure = await open_failure(scripted)
    assert failure.kind == "permission"
    trust = f"An owner can trust it on the machine: pilothouse trust '{folder}/work'."
    assert f"is not trusted. {trust} A jail would hold it without that" in failure.text
    async with scripted.engine() as engine:
        assert await engine.sessions(str(scripted.workspace)) == ()
    assert not scripted.log.exists(), "the agent was started"
    async with scripted.engine() as engine:
        await _talk(engine, scripted.brief(trusted=True))
        assert len(await engine.sessions(str(scripted.workspace), trusted=True)) == 1

    def in_a_jail(workspace: str) -> Isolation:
        return Isolation("jail")

    scripted.host = msgspec.structs.replace(scripted.host, isolation=in_a_jail)
    async with session_of(scripted) as session:
        assert end_of(await read(session, "Hello")).answer == "Hello"


async def test_a_command_goes_alone_and_its_names_are_known_after_a_turn(tmp_path: Path) -> None:
    (tmp_path / "PERMISSIONS.json").write_text('{"tier": "full", "note": "Be careful."}')
    scripted = Scripted(tmp_path, append_system_prompt="Be brief.")
    async with scripted.engine() as engine:
        assert engine.commands(str(scripted.workspace)) == ()
        async with engine.open(scripted.brief(settings_dir=str(tmp_path))) as session:
            for text in ("/plan the day", "Hello"):
                await read(session, Prompt(text, commands=True))
        assert engine.commands(str(scripted.workspace)) == ("plan",)
    command, first = [one["prompt"][0]["text"] for one in scripted.sent("session/prompt")]
    assert command == "/plan the day"
    assert first.startswith("Be brief.")
    assert "Be careful." in first


@pytest.mark.parametrize("note", ["", "Be careful."])
async def test_only_a_command_that_the_agent_offered_and_an_owner_typed_goes_alone(
    tmp_path: Path, note: str
) -> None:
    (tmp_path / "PERMISSIONS.json").write_text(json.dumps({"tier": "full", "note": note}))
    scripted = Scripted(tmp_path, append_system_prompt="Be brief.")
    kept = await scripted.host.blobs.put(b"x", "a.txt", "text/plain")
    with_file = Prompt("/plan it", (kept,), commands=True)
    texts = ("/etc/hosts is wrong", "/plan the day", "/git:commit now", "\n/plan it", "$plan", "/2x")
    prompts = [Prompt(texts[0], commands=True), with_file, *map(Prompt, texts[1:])]
    async with session_of(scripted, settings_dir=str(tmp_path)) as session:
        for prompt in prompts:
            await read(session, prompt)
    first, *others = [one["prompt"][0]["text"] for one in scripted.sent("session/prompt")]
    assert first.startswith("Be brief.")
    assert first.endswith(texts[0])
    start = f"Rule of this workspace: {note}\n\n" if note else "This message is text, not a command:\n\n"
    assert note in first
    assert [text.startswith(start) for text in others] == [True] * len(others)
    assert [text.removeprefix(start) for text in others[1:]] == list(texts[1:])


async def test_a_limit_of_the_workspace_that_cannot_be_held_keeps_the_agent_out(tmp_path: Path) -> None:
    (tmp_path / "PERMISSIONS.json").write_text('{"tier": "readonly"}')
    scripted = Scripted(tmp_path, agent=Agent("Stranger"))
    failure = await open_failure(scripted, approval_mode="full-access", settings_dir=str(tmp_path))
    assert "PERMISSIONS.json" in failure.text
    asking = Scripted(tmp_path, policy=Always("allow"))
    async with session_of(asking, settings_dir=str(tmp_path)) as session:
        events = await read(session, "run make")
    assert "does not allow shell" in finished(events)[0].denied


async def test_a_model_and_options_are_set_and_wrong_ones_are_named(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, options={"effort": "high"})
    async with scripted.engine() as engine:
        async with engine.open(scripted.brief(model="large")) as session:
            await read(session, "Hello")
        assert [model.name for model in engine.models()] == ["small", "large"]
    chosen = [(one["configId"], one["value"]) for one in scripted.sent("session/set_config_option")]
    assert chosen == [("model", "large"), ("effort", "high")]
    failure = await open_failure(Scripted(tmp_path), model="enormous")
    assert (failure.kind, "It offers: small, large" in failure.text) == ("bad_request", True)
    failure = await open_failure(Scripted(tmp_path, options={"allow_all": "on"}))
    assert failure.kind == "permission"
    failure = await open_failure(Scripted(tmp_path, options={"effort": "none"}))
    assert "no option 'effort' with the value 'none'" in failure.text


async def test_a_form_is_a_question(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        events = await read(session, "form", answer_with(session, Decision("answer", ("2",))))
        declined = await read(session, "form", answer_with(session, Decision("deny")))
    (asked,) = asks_of(events)
    assert (asked.ask.kind, asked.ask.title) == ("question", "Which size?")
    assert end_of(events).answer == '{"action": "accept", "content": {"size": "L"}}'
    assert end_of(declined).answer == '{"action": "decline"}'


async def test_files_of_this_machine_are_not_given_through_us(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted) as session:
        assert end_of(await read(session, "file")).answer == "{}"
    (greeting,) = scripted.sent("initialize")
    assert greeting["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert greeting["clientCapabilities"]["terminal"] is False


async def test_plan_usage_and_cost_are_those_of_the_turn(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        first, second = await read(session, "plan"), await read(session, "Hello")
    (plan,) = [event.items for event in first if isinstance(event, PlanChanged)]
    assert [(item.text, item.status) for item in plan] == [("One", "done"), ("Two", "active")]
    for events in (first, second):
        usage = end_of(events).usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (100, 20, 0.25)
        assert any(isinstance(event, UsageChanged) for event in events)


async def test_an_image_goes_along_and_words_for_the_model_come_first_once(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, append_system_prompt="Be brief.")
    kept = await scripted.host.blobs.put(PNG, "a.png", "image/png")
    async with session_of(scripted) as session:
        await read(session, Prompt("/plan", commands=True))
        events = await read(session, Prompt("look", (kept,)))
        await read(session, "Hello")
    assert end_of(events).answer == "text image"
    texts = [one["prompt"][0]["text"] for one in scripted.sent("session/prompt")]
    assert texts == ["/plan", "Be brief.\n\nlook", "Hello"]


async def test_servers_and_folders_are_handed_on(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, add_dirs=["/srv/shared"])
    servers = {
        "hub": {"command": "cat", "args": ["-"], "env": {"A": "1"}},
        "far": {"url": "http://127.0.0.1:9/"},
        "own": {"url": "http://127.0.0.1:9/", "stdio": {"command": "cat", "args": ["-u"]}},
    }
    async with session_of(scripted, mcp_servers=servers) as session:
        events = await read(session, "Hello")
    (opened,) = scripted.sent("session/new")
    assert opened["additionalDirectories"] == ["/srv/shared"]
    assert [server["name"] for server in opened["mcpServers"]] == ["hub", "own"]
    assert opened["mcpServers"][0]["env"] == [{"name": "A", "value": "1"}]
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("takes no MCP servers by HTTP" in text and "far" in text for text in notices)


def test_an_agent_with_http_gets_addresses() -> None:
    given = {"far": for_engines(McpServer(url="http://127.0.0.1:9/", headers={"A": "1"}))}
    assert read_servers(given, http=True) == [
        {
            "type": "http",
            "name": "far",
            "url": "http://127.0.0.1:9/",
            "headers": [{"name": "A", "value": "1"}],
        }
    ]
    assert read_servers(given, http=False) == []


async def test_a_stop_while_asked_withdraws_the_ask(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        stop: Reaction = lambda event: session.interrupt() if "Asked" in type(event).__name__ else None  # noqa: E731
        events = await read(session, "run make", stop)
    assert end_of(events).outcome == "cancelled"
    assert [event.state for event in events if isinstance(event, AskChanged)] == ["withdrawn"]


async def test_a_session_stays_warm_in_its_process(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with scripted.engine() as engine:
        async with engine.open(scripted.brief()) as session:
            token = end_of(await read(session, "Hello")).resume
        async with engine.open(scripted.brief(resume=token)) as session:
            assert end_of(await read(session, "again")).answer == "again"
        both = [scripted.brief("two"), scripted.brief("three", trusted=True, environment={"A": "1"})]
        await asyncio.gather(*(_talk(engine, brief) for brief in both))
    assert len(scripted.sent("initialize")) == 3
    assert scripted.leftovers() == []


async def test_sessions_are_listed_by_an_agent_that_can(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with scripted.engine() as engine:
        for name in ("one", "two"):
            await _talk(engine, scripted.brief(name))
        found = await engine.sessions(str(scripted.workspace))
    assert [(one.title, one.resume.cwd) for one in found] == [("session-", str(scripted.workspace))] * 2
    assert (found[0].used_at, found[1].used_at) == (1794967200.0, 0.0)
    forgetful = Scripted(tmp_path, "forgetful")
    async with forgetful.engine() as engine:
        assert await engine.sessions(str(scripted.workspace)) == ()
    assert scripted.leftovers() == []


async def _talk(engine: Any, brief: Any) -> None:
    async with engine.open(brief) as session:
        assert end_of(await read(session, "Hello")).answer == "Hello"
