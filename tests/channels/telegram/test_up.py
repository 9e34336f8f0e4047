"""`pilothouse up` as people start it: the file, the token in .env, a code that pairs, and a bot that answers."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.channels.telegram.server.running import Server
from tests.dists import ROOT, SRC, write_dist

from pilothouse.channels.telegram.addresses import TELEGRAM
from pilothouse.cli.init_bots import TELEGRAM_QUESTION
from pilothouse.core.channel_status import HealthNote, note_health
from pilothouse.core.store import Tx
from pilothouse.stores.sqlite import STORE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

POINTS = {
    "stores": {"sqlite": "pilothouse.stores.sqlite:STORE"},
    "engines": {"script": "pilothouse.engines.script:ENGINE"},
    "channels": {"telegram": "pilothouse.channels.telegram:CHANNEL"},
}


class Installed:
    def __init__(self, folder: Path, server: Server) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        packages = write_dist(folder / "packages", "pilothouse", POINTS)
        path = os.pathsep.join(map(str, (SRC, packages, ROOT)))
        self.env = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PILOTHOUSE_HOME": str(self.home)}
        self.configure(server.token)
        (self.home / "config.toml").write_text(
            f'[gateway]\ndefault_engine = "script"\ndefault_workspace = "{self.home}"\n'
            f'[channels.telegram]\napi_base = "{server.url}"\n'
        )

    def configure(self, token: str) -> None:
        file = self.home / ".env"
        file.write_text(f"TELEGRAM_TOKEN={token}\n")
        file.chmod(0o600)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "pilothouse", *words]

    async def on_a_terminal(self, said: str, *words: str) -> tuple[int, str]:
        """Exit code and screen of a run whose three streams are one real terminal."""
        return await anyio.to_thread.run_sync(self._on_a_terminal, said, words)

    def _on_a_terminal(self, said: str, words: Sequence[str]) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            self.command(*words),
            env=self.env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self.home,
            start_new_session=True,
        ) as process:
            os.close(theirs)
            screen = b""
            with contextlib.suppress(OSError):  # Linux says so when the last one closes its end
                while chunk := os.read(ours, 65536):
                    screen += chunk
                    if said and f"{TELEGRAM_QUESTION}: ".encode() in screen:  # typed once it is hidden
                        os.write(ours, said.encode())
                        said = ""
            os.close(ours)
            return process.wait(), screen.decode()

    async def run(self, *words: str) -> tuple[int, str]:
        done = await anyio.run_process(
            self.command(*words), env=self.env, cwd=self.home, stderr=subprocess.STDOUT, check=False
        )
        return done.returncode, done.stdout.decode()


async def test_a_person_pairs_by_a_link_and_is_answered(server: Server, tmp_path: Path) -> None:
    installed, ada = Installed(tmp_path, server), server.person("Ada")
    command = installed.command("up")
    async with await anyio.open_process(
        command, env=installed.env, cwd=installed.home, stderr=None
    ) as process:
        try:
            with anyio.fail_after(60):
                await server.world.until(lambda: server.called("getUpdates"))
                code, told = await installed.run("pair")
                assert code == 0, told
                ada.say(f"/start {told.split()[0]}")
                await server.world.until(
                    lambda: any("let in as owner" in t for t in server.world.texts(ada.id))
                )
                ada.say("hello")
                await server.world.until(lambda: len(server.world.texts(ada.id)) >= 2)
                await server.world.until(lambda: len(server.world.commands) == 3)
                status = ""
                while not re.search(r"telegram +\d+s ago +none", status):
                    status = (await installed.run("status"))[1]
        finally:
            process.terminate()
            with anyio.fail_after(30, shield=True):
                await process.wait()
    assert process.returncode == 0
    log = "".join(file.read_text() for file in (installed.home / "logs").iterdir())
    assert "telegram.connected" in log
    assert server.token not in log


async def test_init_tries_the_token_and_shows_a_link_that_pairs(server: Server, tmp_path: Path) -> None:
    installed = Installed(tmp_path, server)
    for file in (".env", "config.toml"):
        (installed.home / file).unlink()
    (installed.home / ".env").write_text("OTHER=1\n")
    words = ("init", "--yes", "--telegram", "--telegram-api", server.url, "--workspace", str(installed.home))
    installed.env["TELEGRAM_TOKEN"] = "1:wrong"
    code, told = await installed.run(*words)
    assert (code, "the token is refused" in told) == (1, True)
    assert not (installed.home / "config.toml").exists()
    installed.env["TELEGRAM_TOKEN"] = server.token
    code, told = await installed.run(*words)
    assert code == 0, told
    assert "this is @pilot_test_bot" in told
    assert re.search(r"https://t.me/pilot_test_bot\?start=\w{4}-\w{4}", told)
    assert server.token not in told + (installed.home / "config.toml").read_text()
    assert (installed.home / ".env").read_text() == f"OTHER=1\nTELEGRAM_TOKEN={server.token}\n"
    assert (installed.home / ".env").stat().st_mode & 0o777 == 0o600
    del installed.env["TELEGRAM_TOKEN"]
    assert "telegram  on" in re.sub(" +", "  ", (await installed.run("channels"))[1])


async def test_init_asks_for_the_token_and_never_shows_it(server: Server, tmp_path: Path) -> None:
    installed = Installed(tmp_path, server)
    for file in (".env", "config.toml"):
        (installed.home / file).unlink()
    words = ("init", "--telegram-api", server.url, "--workspace", str(installed.home), "--engine", "script")
    words += ("--owner", "telegram:1", "--no-trust")
    code, screen = await installed.on_a_terminal(f"{server.token}\n", *words)
    assert code == 0, screen
    assert "this is @pilot_test_bot" in screen
    assert "https://t.me/pilot_test_bot?start=" in screen
    assert server.token not in screen
    assert f"TELEGRAM_TOKEN={server.token}" in (installed.home / ".env").read_text()
    (installed.home / "config.toml").unlink()
    (installed.home / ".env").unlink()
    code, screen = await installed.on_a_terminal("\n", *words)
    assert code == 0, screen
    assert "[channels.telegram]" not in (installed.home / "config.toml").read_text().replace("# [", "")


async def test_a_new_token_leaves_the_rest_of_the_section_and_the_old_one_nowhere(
    server: Server, tmp_path: Path
) -> None:
    installed, file = Installed(tmp_path, server), tmp_path / "home" / "config.toml"
    section = tomllib.loads(file.read_text())["channels"]["telegram"] | {"chats": {"-1001": {"mode": "all"}}}
    file.write_text(file.read_text() + 'token = "1:old"\nchats.-1001.mode = "all"\n')
    installed.env["TELEGRAM_TOKEN"] = server.token
    code, told = await installed.run("init", "--yes", "--force", "--telegram")
    assert (code, "this is @pilot_test_bot" in told) == (0, True), told
    assert tomllib.loads(file.read_text())["channels"] == {"telegram": section}
    assert (installed.home / ".env").read_text() == f"TELEGRAM_TOKEN={server.token}\n"
    del installed.env["TELEGRAM_TOKEN"]
    code, told = await installed.run("init", "--yes", "--force", "--telegram")
    assert (code, "this is @pilot_test_bot" in told) == (0, True), "the token that stands there is tried"


async def test_a_channel_in_trouble_is_told_of_by_every_command_that_tells_of_channels(
    server: Server, tmp_path: Path
) -> None:
    installed = Installed(tmp_path, server)
    async with STORE.open(STORE.config(path=str(installed.home / "pilothouse.db"))) as store:
        noted = HealthNote(time.time(), time.time() - 90, "Telegram could not be reached for 60 s.")

        def note(tx: Tx) -> None:
            note_health(tx, TELEGRAM, noted)

        await store.write(note)
    for command in ("status", "channels", "doctor"):
        _, told = await installed.run(command)
        assert "could not be reached" in " ".join(told.split()), told
    _, told = await installed.run("channels", "--json")
    assert json.loads(told)[0]["trouble"] == noted.trouble


async def test_a_malformed_token_is_told_and_nothing_starts(server: Server, tmp_path: Path) -> None:
    installed = Installed(tmp_path, server)
    installed.configure("nonsense")
    with anyio.fail_after(60):
        code, told = await installed.run("up")
    assert code != 0
    assert "@BotFather" in told
    assert f"where the old one is: {installed.home}/.env (TELEGRAM_TOKEN)" in " ".join(told.split())
    assert "nonsense" not in told
    assert "Traceback" not in told


async def test_a_refused_token_is_told_with_the_place_that_counts(server: Server, tmp_path: Path) -> None:
    """The good one is in .env, where it does not help."""
    installed = Installed(tmp_path, server)
    installed.env["TELEGRAM_TOKEN"] = "1:" + "x" * 35
    async with await anyio.open_process(
        installed.command("up"), env=installed.env, cwd=installed.home, stderr=None
    ) as process:
        try:
            status = ""
            with anyio.fail_after(60):
                while "refuses the bot token" not in status:
                    status = " ".join((await installed.run("status"))[1].split())
        finally:
            process.terminate()
            with anyio.fail_after(30, shield=True):
                await process.wait()
    assert "put it where the old one is: TELEGRAM_TOKEN in the environment" in status
