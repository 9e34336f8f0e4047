"""`/send PATH` brings a file of the workspace: what is outside, forbidden or secret stays where it is."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.runtime.rig import ADMIN, MEMBER, Rig, open_rig

from pilothouse.bootstrap.files import read_file
from pilothouse.channels.memory import PERSON, MemoryChannel
from pilothouse.channels.terminal.channel import TerminalChannel
from pilothouse.core.channel import FILE_BYTES
from pilothouse.core.message import Author
from pilothouse.core.policy import parse_rule
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.policy.paths import Filesystem
from pilothouse.runtime.asks.rules import RulePolicy, WorkspaceRules
from pilothouse.runtime.outbox import content_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)


def furnish(rig: Rig, folder: Path, *rules: str) -> Path:
    """A workspace with files, behind the real policy."""
    told = WorkspaceRules(tuple(map(parse_rule, rules)))
    rig.ports.policy = RulePolicy(
        rig.store, partial(decide, env=PolicyEnv(filesystem=Filesystem())), lambda _workspace: told
    )
    rig.ports.read_file = read_file
    work = Path(rig.ports.settings().default_workspace)
    (work / "build").mkdir(parents=True)
    (work / "build" / "chart.png").write_bytes(PNG)
    (work / "my notes.txt").write_text("remember")
    (work / ".env").write_text("TOKEN=1")
    (work / "settings.txt").symlink_to(work / ".env")
    (folder / "outside.txt").write_text("not yours")
    (work / "way out").symlink_to(folder / "outside.txt")
    return work


async def sent(rig: Rig, line: str, author: Author = PERSON) -> tuple[str, dict[str, bytes]]:
    """What is said to a command, and the files that come with it."""
    receipt = await rig.channel.say(line, author=author)
    row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
    content = content_of(row)
    files = {
        file.name: await rig.store.read(lambda tx, file=file: tx.blobs.get(file.blob) or b"")
        for file in content.attachments
    }
    return content.text, files


class AtMachineChannel(MemoryChannel):
    at_machine = True


async def test_at_the_machine_itself_the_file_is_named_by_its_path(tmp_path: Path) -> None:
    channel = AtMachineChannel()
    async with open_rig(tmp_path, channel=channel, default_workspace=str(tmp_path / "work")) as rig:
        work = furnish(rig, tmp_path)
        told = f"build/chart.png is on this machine: {work / 'build' / 'chart.png'}"
        assert await sent(rig, "/send build/chart.png") == (told, {})


def test_a_terminal_is_at_the_machine() -> None:
    assert TerminalChannel.at_machine


async def test_a_file_of_the_workspace_is_sent_to_who_may_talk(tmp_path: Path) -> None:
    async with open_rig(tmp_path, default_workspace=str(tmp_path / "work")) as rig:
        work = furnish(rig, tmp_path)
        assert await sent(rig, "/send build/chart.png", MEMBER) == ("chart.png, 2 kB", {"chart.png": PNG})
        assert (await sent(rig, "/send `my notes.txt`"))[1] == {"my notes.txt": b"remember"}
        assert (await sent(rig, f"/send {work}/my notes.txt"))[1] == {"my notes.txt": b"remember"}
        assert (await sent(rig, "/send"))[0].startswith("/send PATH")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none.txt", "there is no such file"),
        ("build", "it is a folder"),
        ("empty.txt", "it is empty"),
        ("../outside.txt", "it lies outside the workspace"),
        ("way out", "it lies outside the workspace"),
        ("/etc/hostname", "it lies outside the workspace"),
        ("huge.bin", "it has 50.0 MB, and 50.0 MB is the most"),
        ("x" * 300, "it cannot be read: File name too long"),
    ],
)
async def test_what_cannot_be_sent_is_said_with_the_reason(tmp_path: Path, path: str, why: str) -> None:
    async with open_rig(tmp_path, default_workspace=str(tmp_path / "work")) as rig:
        work = furnish(rig, tmp_path)
        with (work / "huge.bin").open("wb") as huge:
            huge.truncate(FILE_BYTES + 1)
        (work / "empty.txt").touch()
        text, files = await sent(rig, f"/send {path}")
        assert why in text and not files


@pytest.mark.parametrize("path", [".env", "settings.txt"])
async def test_what_may_hold_secrets_is_for_owners_also_behind_a_link(tmp_path: Path, path: str) -> None:
    async with open_rig(tmp_path, default_workspace=str(tmp_path / "work")) as rig:
        furnish(rig, tmp_path)
        text, files = await sent(rig, f"/send {path}", ADMIN)
        assert "only to owners: it may hold secrets" in text and not files
        assert (await sent(rig, f"/send {path}"))[1] == {".env": b"TOKEN=1"}


@pytest.mark.parametrize(
    "path",
    [
        ".git-credentials",
        ".pgpass",
        "credentials.json",
        "id_rsa.bak",
        "deep/secrets.yaml",
        ".kube/config",
        "server.key",
    ],
)
async def test_a_name_that_suggests_secrets_is_for_owners(tmp_path: Path, path: str) -> None:
    async with open_rig(tmp_path, default_workspace=str(tmp_path / "work")) as rig:
        file = furnish(rig, tmp_path) / path
        file.parent.mkdir(exist_ok=True)
        file.write_text("TOKEN=1")
        for author in (MEMBER, ADMIN):
            text, files = await sent(rig, f"/send {path}", author)
            assert "only to owners: it may hold secrets" in text and not files


async def test_a_rule_that_forbids_to_read_forbids_to_send(tmp_path: Path) -> None:
    async with open_rig(tmp_path, default_workspace=str(tmp_path / "work")) as rig:
        furnish(rig, tmp_path, "deny read build/**", "ask read *.txt")
        text, files = await sent(rig, "/send build/chart.png")
        assert "deny read build/**" in text and not files
        text, files = await sent(rig, "/send my notes.txt", MEMBER)
        assert "only to owners" in text and not files
        assert (await sent(rig, "/send my notes.txt"))[1] == {"my notes.txt": b"remember"}


async def test_a_repeated_send_is_one_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path, default_workspace=str(tmp_path / "work")) as rig:
        furnish(rig, tmp_path)
        first = await rig.channel.say("/send my notes.txt", native_id="same")
        again = await rig.channel.say("/send my notes.txt", native_id="same")
        assert (first.state, again.state) == ("queued", "duplicate")
