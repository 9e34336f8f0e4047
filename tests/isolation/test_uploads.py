"""Files that people send to a jailed agent lie outside of the workspace, and are read-only inside."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from tests.isolation.canary import Stage, jails, need_jail
from tests.isolation.test_jail import output, start

from pilothouse.core.isolation import UPLOADS
from pilothouse.core.turn import Prompt
from pilothouse.engines.attachments import Attachments
from pilothouse.isolation.jail import Jails
from pilothouse.isolation.uploads import DAY_S, sweep_uploads, uploads_folder
from pilothouse.processes import Launcher
from pilothouse.testing.hosts import MemoryBlobs


def uploading(stage: Stage, folder: Path, **settings: object) -> Jails:
    made = jails(stage, folder, **settings)
    made.places = msgspec.structs.replace(made.places, uploads=str(folder / "data" / "uploads"))
    return made


async def test_a_sent_file_is_read_inside_and_neither_changed_nor_in_the_repository(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    made, blobs = uploading(stage, tmp_path), MemoryBlobs()
    sent = await blobs.put(b"a,b\n", "../sheet.csv", "text/csv")
    prompt = Prompt("look", attachments=(sent,))
    uploads = made.uploads(str(stage.workspace), "claude")
    script = f"cat {UPLOADS}/sheet.csv; echo x > {UPLOADS}/sheet.csv; rm {UPLOADS}/sheet.csv; git status --short; ls -A"
    async with Launcher(made.open).open(start(stage, f"read -r; {script}")) as process:
        given = await Attachments(blobs, str(stage.workspace), "Claude", (), uploads).give(prompt)
        await process.write(b"\n")  # the file came while the process ran
        told = [line.data.decode() async for line in process.lines()]
        said = process.stderr_tail()
    assert given.saved == (f"[A file was attached: {stage.workspace / UPLOADS / 'sheet.csv'}]",)
    assert told[0] == "a,b"
    assert said.count("Read-only") == 2
    assert "downloads" not in told
    assert not any("sheet" in line for line in told[1:])
    assert (Path(uploads) / "sheet.csv").read_bytes() == b"a,b\n"
    assert list((stage.workspace / UPLOADS).iterdir()) == []
    other = await output(Launcher(made.open), start(stage, f"ls {tmp_path}/data/uploads || echo absent"))
    assert "absent" in other


async def test_without_a_jail_or_with_a_link_in_its_place_files_are_saved_in_the_workspace(
    stage: Stage, tmp_path: Path
) -> None:
    assert uploading(stage, tmp_path, kind="none").uploads(str(stage.workspace), "claude") == ""
    assert uploads_folder("", str(stage.workspace)) == ""
    (stage.workspace / ".pilothouse").symlink_to(stage.other)
    assert uploads_folder(str(tmp_path), str(stage.workspace)) == ""
    (stage.workspace / ".pilothouse").unlink()
    (stage.workspace / ".pilothouse").write_text("a file in its place\n")
    assert uploads_folder(str(tmp_path), str(stage.workspace)) == ""


def test_files_that_were_sent_long_ago_are_removed(tmp_path: Path) -> None:
    old, new = tmp_path / "a" / "old.txt", tmp_path / "a" / "new.txt"
    old.parent.mkdir()
    for path in (old, new):
        path.write_text("x")
    os.utime(old, (0, new.stat().st_mtime - 31 * DAY_S))
    sweep_uploads(str(tmp_path), 30)
    assert [path.name for path in old.parent.iterdir()] == ["new.txt"]
    sweep_uploads(str(tmp_path / "missing"), 30)
