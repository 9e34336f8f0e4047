"""`pilothouse up` as people start it: the file, the token in .env, a code that pairs, and a bot that answers."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import time
import tomllib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.channels.telegram.server.running import Server
from tests.dists import ROOT, SRC, write_dist
from tests.forked import Forked, run

from pilothouse.channels.telegram.content import TELEGRAM
from pilothouse.cli.init_bots import QUESTIONS, SKIP
from pilothouse.cli.pair import render_qr
from pilothouse.core.store import NodeInfo, Tx
from pilothouse.runtime.channel_status import HealthNote, note_health
from pilothouse.stores.sqlite import STORE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

POINTS = {
    "stores": {"sqlite": "pilothouse.stores.sqlite:STORE"},
    "engines": {"script": "pilothouse.engines.script:ENGINE"},
    "channels": {"telegram": "pilothouse.channels.telegram:CHANNEL"},
}


PACKAGES = ("channels.telegram",)


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

    async def on_a_terminal(self, said: str, *words: str) -> tuple[int, str]:
        """Exit code and screen of a run whose three streams are one real terminal."""
        return await anyio.to_thread.run_sync(self._on_a_terminal, said, words)

    def _on_a_terminal(self, said: str, words: Sequence[str]) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        streams = (theirs, theirs, theirs)
        with Forked(
            "pilothouse",
            *words,
            env=self.env,
            cwd=self.home,
            streams=streams,
            session="new",
            packages=PACKAGES,
        ) as process:
            os.close(theirs)
            screen, chosen = b"", False
            with contextlib.suppress(OSError):  # Linux says so when the last one closes its end
                while chunk := os.read(ours, 65536):
                    screen += chunk
                    if b"[telegram]: " in screen and not chosen:
                        os.write(ours, b"\n")
                        chosen = True
                    if (
                        said and f"{QUESTIONS['telegram']}{SKIP}: ".encode() in screen
                    ):  # typed once it is hidden
                        os.write(ours, said.encode())
                        said = ""
            os.close(ours)
            return process.wait(), screen.decode()

    async def run(self, *words: str) -> tuple[int, str]:
        command = partial(run, "pilothouse", *words, env=self.env, cwd=self.home, packages=PACKAGES)
        done = await anyio.to_thread.run_sync(command)
        return done.returncode, done.stdout + done.stderr


@contextlib.asynccontextmanager
async def gateway(installed: Installed, screen: Path) -> AsyncIterator[None]:
    """`pilothouse up`, which is asked to end and does; what it says is in the file `screen`."""
    with screen.open("wb") as out, open(os.devnull, "r+b") as nothing:
        streams = (nothing.fileno(), nothing.fileno(), out.fileno())
        process = Forked(
            "pilothouse", "up", env=installed.env, cwd=installed.home, streams=streams, packages=PACKAGES
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(30, shield=True):
            code = await process.ended()
    assert code == 0


async def test_a_person_pairs_by_a_link_and_is_answered(server: Server, tmp_path: Path) -> None:
    installed, ada = Installed(tmp_path, server), server.person("Ada")
    screen = tmp_path / "screen.txt"
    async with gateway(installed, screen):
        with anyio.fail_after(60):
            await server.world.until(lambda: server.called("getUpdates"))
            while "is ready" not in screen.read_text():
                await anyio.sleep(0.01)
            (ready,) = screen.read_text().splitlines()
            assert re.fullmatch(r"pilothouse \S+ is ready · script.* · telegram", ready), "and no log lines"
            code, told = await installed.run("pair")
            assert code == 0, told
            ada.say(f"/start {told.split()[0]}")
            await server.world.until(lambda: any("let in as owner" in t for t in server.world.texts(ada.id)))
            ada.say(f"repeat {server.token} please")
            await server.world.until(lambda: len(server.world.texts(ada.id)) >= 2)
            shown = f"{server.world.texts(ada.id)} {server.world.drafts}"
            assert server.token not in shown
            await server.world.until(lambda: len(server.world.commands) == 3)
            status = ""
            while not re.search(r"telegram +connected, heard \d+s ago", status):
                status = (await installed.run("status"))[1]
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
    assert "This is @pilot_test_bot" in told
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
    words += ("--no-trust", "--approval-mode", "minimal")
    installed.env |= {"COLUMNS": "100", "LANG": "C.UTF-8"}
    code, screen = await installed.on_a_terminal(f"{server.token}\n", *words)
    assert code == 0, screen
    link = re.findall(r"https://t.me/\S+", screen)[0]
    assert render_qr(link).replace("\n", "\r\n") in screen, "a phone reads the same link"
    assert screen.splitlines()[-1] == "Next: pilothouse up, then open the link on your phone"
    assert screen.lower().count("next:") == 1
    assert "This is @pilot_test_bot" in screen
    assert "https://t.me/pilot_test_bot?start=" in screen
    assert server.token not in screen
    assert f"TELEGRAM_TOKEN={server.token}" in (installed.home / ".env").read_text()
    code, screen = await installed.on_a_terminal("", "pair")
    assert code == 0, screen
    link = re.findall(r"https://t.me/\S+", screen)[0]
    assert link.removeprefix("https://t.me/pilot_test_bot?start=") in screen.splitlines()[0]
    assert render_qr(link).replace("\n", "\r\n") in screen, "`pair` shows the link and its picture too"
    (installed.home / "config.toml").unlink()
    (installed.home / ".env").unlink()
    code, screen = await installed.on_a_terminal("\n", *words)
    assert code == 0, screen
    assert "[channels.telegram]" not in (installed.home / "config.toml").read_text()


async def test_a_new_token_leaves_the_rest_of_the_section_and_the_old_one_nowhere(
    server: Server, tmp_path: Path
) -> None:
    installed, file = Installed(tmp_path, server), tmp_path / "home" / "config.toml"
    section = tomllib.loads(file.read_text())["channels"]["telegram"] | {"chats": {"-1001": {"mode": "all"}}}
    file.write_text(file.read_text() + 'token = "1:old"\nchats.-1001.mode = "all"\n')
    installed.env["TELEGRAM_TOKEN"] = server.token
    code, told = await installed.run("init", "--yes", "--telegram")
    assert (code, "This is @pilot_test_bot" in told) == (0, True), told
    assert tomllib.loads(file.read_text())["channels"] == {"telegram": section}
    assert (installed.home / ".env").read_text() == f"TELEGRAM_TOKEN={server.token}\n"
    del installed.env["TELEGRAM_TOKEN"]
    code, told = await installed.run("init", "--yes", "--telegram")
    assert (code, "This is @pilot_test_bot" in told) == (0, True), "the token that stands there is tried"


async def note_trouble(installed: Installed, text: str, *, gateway_runs: bool) -> None:
    """As a gateway leaves it in the store, which may have ended since."""

    def note(tx: Tx) -> None:
        now = time.time()
        note_health(tx, TELEGRAM, HealthNote(now, now - 90, text))
        if gateway_runs:
            tx.nodes.join(
                NodeInfo("pilothouse up", "another machine", 7, "1"), ["engines", "channels"], now + 600
            )

    async with STORE.open(STORE.config(path=str(installed.home / "pilothouse.db"))) as store:
        await store.write(note)


async def test_the_trouble_of_a_running_gateway_is_told_by_every_command_about_channels(
    server: Server, tmp_path: Path
) -> None:
    installed, trouble = Installed(tmp_path, server), "Telegram could not be reached for 60 s."
    await note_trouble(installed, trouble, gateway_runs=True)
    for command in ("status", "channels", "doctor"):
        _, told = await installed.run(command)
        assert "could not be reached" in " ".join(told.split()), told
    _, told = await installed.run("channels", "--json")
    assert json.loads(told)[0]["trouble"] == trouble


async def test_doctor_tries_the_token_and_repeats_no_old_trouble(server: Server, tmp_path: Path) -> None:
    installed = Installed(tmp_path, server)
    await note_trouble(installed, "Telegram refuses the bot token (Unauthorized).", gateway_runs=False)
    _, told = await installed.run("doctor")
    assert "✓ channel telegram  Telegram: @pilot_test_bot answers" in told and "refuses" not in told
    _, told = await installed.run("channels")
    assert "refuses" not in told
    installed.configure("1:" + "x" * 35)
    code, told = await installed.run("doctor")
    assert code == 1 and "✗ channel telegram  the token is refused" in told
    config = installed.home / "config.toml"
    config.write_text(config.read_text().replace(server.url, "http://127.0.0.1:1"))
    code, told = await installed.run("doctor")
    assert code == 1 and "Check that this machine reaches http://127.0.0.1:1" in " ".join(told.split())


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
    screen = tmp_path / "screen.txt"
    async with gateway(installed, screen):
        status = ""
        with anyio.fail_after(60):
            while "refuses the bot token" not in status:
                status = " ".join((await installed.run("status"))[1].split())
    assert "put it where the old one is: TELEGRAM_TOKEN in the environment" in status
    said = screen.read_text()
    assert "is running, but no channel is connected" in said and "is ready" not in said
    assert said.count("refuses the bot token") == 1 and "telegram is not connected: Telegram refuses" in said
