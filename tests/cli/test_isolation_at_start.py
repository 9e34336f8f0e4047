"""Isolation from the start of a gateway on: trust that does not hold counts for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.isolation.canary import need_jail
from tests.isolation.test_versions import until_known, write_program

from pilothouse.bootstrap.app import App, judge_call, open_app
from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId, EngineId
from pilothouse.core.isolation import Isolation
from pilothouse.core.policy import Site
from pilothouse.isolation.canaries import read_proofs
from pilothouse.runtime.trust import trust

pytestmark = pytest.mark.anyio
TRUSTED = "the folder is trusted"


async def test_a_folder_that_took_the_place_of_a_trusted_one_is_not_trusted_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, kept, replaced = tmp_path / "home", tmp_path / "kept", tmp_path / "replaced"
    for folder in (home, kept, replaced):
        folder.mkdir()
    monkeypatch.setenv("PILOTHOUSE_HOME", str(home))
    (home / "config.toml").write_text('[isolation]\nkind = "auto"\n')
    places = [os.path.realpath(one) for one in (kept, replaced)]
    async with open_app(on_terminal=False) as app:
        for place in places:
            await app.store.write(lambda tx, place=place: trust(tx, place, "ann", 1.0))
    async with open_app(on_terminal=False) as app:
        assert [TRUSTED in told for told in reports(app, places)] == [True, True]
    replaced.rename(tmp_path / "moved")
    replaced.mkdir()
    async with open_app(on_terminal=False) as app:
        assert [TRUSTED in told for told in reports(app, places)] == [True, False]


async def test_the_native_agents_file_tools_are_said_to_run_outside_of_the_jail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_jail()
    monkeypatch.setenv("PILOTHOUSE_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('[isolation]\nkind = "jail"\n')
    async with open_app(on_terminal=False) as app:
        said = app.jails.describe(str(tmp_path / "work"), "native")
        assert said.startswith("commands in a jail")
        assert "file tools run in Pilothouse itself" in said
        assert app.jails.describe(str(tmp_path / "work"), "claude").endswith("not known, network: open")


async def test_a_held_program_runs_unasked_only_for_an_engine_whose_jail_was_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTHOUSE_HOME", str(tmp_path / "home"))
    for folder in ("home", "work"):
        (tmp_path / folder).mkdir()
    work = str(tmp_path / "work")
    call = Call("command", command="make test", cwd=work)
    ask = Ask(AskId("a"), "approval", "x", call=call)
    site = Site(work, mode="trusted", isolation=Isolation("jail", network="none"))
    async with open_app(on_terminal=False) as app:
        proved = read_proofs()["codex"].version
        app.jails.version_of = lambda engine: proved
        assert (await judge_call(app, EngineId("codex"), ask, site)).outcome == "ask", "none of it runs"
        for engine, version, outcome in (
            ("claude", read_proofs()["claude"].version, "allow"),
            ("codex", proved, "allow"),
            ("codex", "99.0.0", "ask"),
            ("codex", "", "ask"),
            ("native", "1.0.0", "ask"),
            ("some-agent", "1.0.0", "ask"),
        ):
            start = write_program(tmp_path / "bin", version, engine)
            with app.jails.versions.note(engine, start, ()):
                await until_known(app.jails.versions, engine, version)
                assert (await judge_call(app, EngineId(engine), ask, site)).outcome == outcome, engine
        one = write_program(tmp_path / "one", proved)
        other = write_program(tmp_path / "other", "99.0.0")
        with app.jails.versions.note("codex", one, ()), app.jails.versions.note("codex", other, ()):
            await until_known(app.jails.versions, "codex", proved, "99.0.0")
            assert (await judge_call(app, EngineId("codex"), ask, site)).outcome == "ask", "both run"


def reports(app: App, places: list[str]) -> list[str]:
    return [app.jails.describe(place, "claude") for place in places]
