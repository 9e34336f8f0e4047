"""Reload: what is safe is applied, what is not says so, and a broken edit changes nothing."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.config.homes import Home

from pilothouse.config import SECTIONS, ConfigHolder, may_reload, watch
from pilothouse.config.holder import RELOADABLE
from pilothouse.config.model import GatewaySection, LogSection


def hold(home: Home, text: str = "") -> ConfigHolder:
    return ConfigHolder(home.load(text), home.again)


def test_a_safe_change_is_in_force_at_once(home: Home) -> None:
    holder = hold(home)
    home.file.write_text("[gateway]\nbusy = 'queue'\n[people]\nowners = ['a:1']\n[log]\nlevel = 'debug'\n")
    change = holder.reload()
    assert change.text == "now in force: gateway.busy, log.level, people.owners"
    assert (holder.current.gateway.busy, holder.current.log.level) == ("queue", "debug")
    assert holder.current.people.owners == ("a:1",)


def test_an_unsafe_change_waits_for_a_restart_and_says_so(home: Home) -> None:
    holder = hold(home)
    before = holder.current
    home.file.write_text(
        "[gateway]\nmax_turns_at_once = 2\n[store]\npath = '/x'\n[channels.telegram]\n"
        "[engines.script]\nmodel = 'x'\n[log]\nfile = '/y'\n"
    )
    expected = "channels.telegram, engines.script, gateway.max_turns_at_once, log.file, store"
    assert holder.reload().text == f"needs a restart: {expected}"
    assert holder.current == before
    assert holder.reload().needs_restart


def test_an_engine_that_is_only_just_switched_on_is_no_default_before_a_restart(home: Home) -> None:
    holder = hold(home, "[engines.script]\nenabled = false\n")
    home.file.write_text("[gateway]\ndefault_engine = 'script'\nbusy = 'queue'\n")
    change = holder.reload()
    assert change.applied == ("gateway.busy",)
    assert change.needs_restart == ("engines.script", "gateway.default_engine")
    assert (holder.current.gateway.default_engine, holder.current.gateway.busy) == ("auto", "queue")


@pytest.mark.parametrize("text", ["[gateway\n", "[gateway]\nbusy = 'nope'\n", "[people]\nowners = 1\n"])
def test_a_broken_edit_keeps_the_last_good_configuration_and_says_so(home: Home, text: str) -> None:
    holder = hold(home, "[gateway]\nbusy = 'queue'\n")
    home.file.write_text(text)
    change = holder.reload()
    assert change.text.startswith("the configuration is broken, so the last good one stays in force:\n")
    assert str(home.file) in change.problem
    assert holder.current.gateway.busy == "queue"
    home.file.write_text("[gateway]\nbusy = 'steer'\n")
    assert holder.reload().applied == ("gateway.busy",)


def test_an_edit_without_a_change_says_nothing_changed(home: Home) -> None:
    holder = hold(home)
    home.file.write_text("# a comment\n")
    assert holder.reload().text == "nothing changed"


def test_every_section_has_a_row_and_every_key_in_it_exists() -> None:
    assert set(RELOADABLE) == set(SECTIONS)
    for section, model in (("gateway", GatewaySection), ("log", LogSection)):
        assert (RELOADABLE[section] or frozenset()) <= set(model.__struct_fields__)
    assert may_reload("people.owners")
    assert not may_reload("store.path")


@pytest.mark.anyio
async def test_a_change_of_a_watched_file_is_noticed_however_it_is_written(tmp_path: Path) -> None:
    file, other = tmp_path / "config.toml", tmp_path / "other"
    changes: list[str] = []
    noticed = anyio.Event()

    def note() -> None:
        nonlocal noticed
        changes.append(file.read_text() if file.exists() else "gone")
        noticed.set()
        noticed = anyio.Event()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, [file], note, 0.01)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(60):
            for step in ("written", "replaced", "gone"):
                waiting = noticed
                if step == "written":
                    file.write_text(step)
                elif step == "replaced":
                    other.write_text(step)
                    other.replace(file)
                else:
                    file.unlink()
                await waiting.wait()
        tasks.cancel_scope.cancel()
    assert changes == ["written", "replaced", "gone"]


def test_a_file_that_is_deleted_keeps_the_last_good_configuration_and_says_so(home: Home) -> None:
    holder = hold(home, "[gateway]\nmax_attempts = 7\n")
    home.file.unlink()
    result = holder.reload()
    assert "was deleted; restore it" in result.text
    assert holder.current.gateway.max_attempts == 7
    home.file.write_text("[gateway]\nmax_attempts = 5\n")
    assert "gateway.max_attempts" in holder.reload().text


def test_an_unknown_key_is_told_at_a_reload_too(home: Home) -> None:
    holder = hold(home)
    home.file.write_text("[gateway]\nmax_atempts = 7\n")
    assert "max_atempts" in holder.reload().text
