"""Sessions of the real CLI through the whole program: from a terminal into a chat, back, and lost."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.engines.claude.api import call, open_api, say
from tests.engines.claude.binary import claude_binary
from tests.engines.claude.rig import Rig, end_of, read
from tests.engines.claude.test_real_gateway import House

from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId

pytestmark = pytest.mark.slow

ID = "11111111-2222-4333-8444-555555555555"


def run_claude(rig: Rig, *words: str) -> str:
    """What a person does in their own terminal, without us."""
    done = subprocess.run(
        [str(claude_binary()), *words],
        env=rig.environment(),
        cwd=rig.workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", [f"`claude-code resume {ID}`", f"claude --resume {ID}", f"claude -r {ID}"])
def test_a_pasted_line_continues_a_terminals_session_and_session_leads_back(
    tmp_path: Path, line: str
) -> None:
    with open_api(say("I am Ada."), say("Ada, as I said."), say("Still Ada.")) as api:
        house = House(tmp_path, api)
        run_claude(house.rig, "-p", f"--session-id={ID}", "--", "Who are you?")
        assert "Ada, as I said." in house.say(f"Who?\n{line}")
        request = api.main[-1]
        assert "I am Ada." in request.text
        assert (request.prompt, "resume" in request.prompt) == ("Who?", False)
        told = re.search(r"cd \S+ && claude --resume \S+", house.say("/session"))
        assert told is not None
        folder, words = shlex.split(told[0])[1], shlex.split(told[0])[4:]
        assert (folder, words) == (str(house.rig.workspace), ["--resume", ID])
        assert "Still Ada." in run_claude(house.rig, "-p", *words, "--", "And now?")
        assert "Ada, as I said." in api.main[-1].text
    assert house.rig.leftovers() == []


def test_a_session_whose_history_is_gone_is_given_up_aloud_and_the_new_one_has_a_recap(
    tmp_path: Path,
) -> None:
    with open_api(say("I am Ada."), say("Ada, I read."), say("Ada still.")) as api:
        house = House(tmp_path, api)
        house.say("Who are you?")
        (log,) = (house.rig.home / ".claude" / "projects").rglob("*.jsonl")
        log.unlink()
        done = house.ask("Who?")
        assert "Ada, I read." in done.stdout
        assert "given up" in done.stdout + done.stderr
        request = api.main[-1]
        assert "<asked>Who are you?</asked>" in request.prompt
        assert "<answered>I am Ada.</answered>" in request.prompt
        assert request.prompt.endswith("Who?")
        assert "Ada still." in house.say("Again?")
        assert "Ada, I read." in api.main[-1].text, "the new session goes on"
        assert len(list((house.rig.home / ".claude" / "projects").rglob("*.jsonl"))) == 1


def test_an_owner_at_a_terminal_talks_in_text_mode_and_an_alias_names_the_section(tmp_path: Path) -> None:
    with open_api(call("Read", file_path="a.txt"), say("It says a.")) as api:
        house = House(tmp_path, api)
        config = house.home / "config.toml"
        text = config.read_text().replace("[engines.claude]", "[engines.claude-code]")
        config.write_text(text + 'output = "text"\nsession_scanning = true\n')
        (house.rig.workspace / "a.txt").write_text("a\n")
        done = house.ask("What does it say?", "--json")
        assert '"tool: Read a.txt"' in done.stdout
        assert "It says a." in done.stdout


def test_a_resume_line_stands_under_the_answer_where_it_is_wished(tmp_path: Path) -> None:
    with open_api(say("I am Ada."), say("Ada, as I said.")) as api:
        house = House(tmp_path, api)
        config = house.home / "config.toml"
        config.write_text(config.read_text() + "resume_line = true\n")
        found = re.search(r"claude --resume [0-9a-f-]{36}", house.say("Who are you?"))
        assert found is not None
        house.say("/new")
        assert "Ada, as I said." in house.say(f"Who?\n{found[0]}")
        assert "I am Ada." in api.main[-1].text


@pytest.mark.anyio
async def test_logs_list_sessions_and_one_goes_on_from_an_earlier_turn_in_a_session_of_its_own(
    tmp_path: Path,
) -> None:
    with open_api(say("First."), say("Second."), say("Third."), say("Fourth."), say("Fifth.")) as api:
        rig = Rig(tmp_path, api)
        run_claude(rig, "-p", f"--session-id={ID}", "--", "apples")
        token = ResumeToken(EngineId("claude"), ID, str(rig.workspace))
        async with rig.engine() as engine:
            (found,) = await engine.sessions(str(rig.workspace))
            assert (found.resume, found.title) == (token, "apples")
            assert await engine.sessions(str(tmp_path)) == []
            async with engine.open(rig.brief(resume=token)) as session:
                for words in ("bananas", "cherries"):
                    await read(session, words)
            points = await engine.points(token)
            assert [point.title for point in points] == ["apples", "bananas", "cherries"]
            at = rig.brief("two", resume=token, resume_at=points[1].id)
            async with engine.open(at) as session:
                forked = end_of(await read(session, "dragonfruit")).resume
            assert "Second." in api.main[-1].text
            assert "cherries" not in api.main[-1].text
            assert forked is not None
            assert forked.value != ID
            async with engine.open(rig.brief("two", resume=forked)) as session:
                assert end_of(await read(session, "more")).resume == forked
            assert "dragonfruit" in api.main[-1].text
        assert len(await engine.points(token)) == 3, "the first session is as it was"
    assert rig.leftovers() == []
