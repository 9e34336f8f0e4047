"""Where context files are read from, what counts as one, and when a first run is over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.core.engine import Brief
from pilothouse.core.ids import ConversationId, SessionId
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.workspace_files import (
    ALL_CHARS,
    FILE_CHARS,
    Context,
    ContextReader,
    conversation_file,
    read_text,
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "SOUL.md").write_text("soul")
    (folder / "BOOTSTRAP.md").write_text("boot")
    return folder


def reader(folder: Path, **config: Any) -> ContextReader:
    set_up = ClaudeConfig(**config)
    prompt_is_set = bool(set_up.append_system_prompt)
    return ContextReader(str(folder / "state"), base_files=set_up.context_files, prompt_is_set=prompt_is_set)


def brief(work: Path, session: str = "s1", **fields: Any) -> Brief:
    plain: dict[str, Any] = {"session_id": SessionId(session), "workspace": str(work), "trusted": True}
    return Brief(**(plain | fields))


def names(context: Context) -> list[str]:
    return [os.path.basename(file.path) for file in context.files]


def test_base_files_and_the_conversations_own_come_from_the_owner(tmp_path: Path, work: Path) -> None:
    settings = tmp_path / "settings"
    (settings / "conversations").mkdir(parents=True)
    (settings / "conversations" / "telegram:12#3.md").write_text("room")
    (tmp_path / "core.md").write_text("core")
    here = brief(
        work,
        trusted=False,
        settings_dir=str(settings),
        conversation_id=ConversationId("telegram:12#3"),
    )
    context = reader(tmp_path, context_files=[str(tmp_path / "core.md"), str(tmp_path / "none.md")]).gather(
        here
    )
    assert [file.text for file in context.files] == ["core", "room"]


def test_a_conversation_is_one_file_name_whatever_it_is_called() -> None:
    here = Brief(
        SessionId("s"), "/w", settings_dir="/c", conversation_id=ConversationId("terminal:/home/../x y")
    )
    assert conversation_file(here) == "/c/conversations/terminal:%2Fhome%2F..%2Fx y.md"
    assert conversation_file(msgspec.structs.replace(here, settings_dir="")) == ""


def test_bootstrap_is_for_the_first_session_until_one_of_its_turns_was_completed(
    tmp_path: Path, work: Path
) -> None:
    context = reader(tmp_path)
    assert names(context.gather(brief(work, "s1"))) == ["SOUL.md", "BOOTSTRAP.md"]
    assert names(context.gather(brief(work, "s2"))) == ["SOUL.md", "BOOTSTRAP.md"], (
        "nothing was completed yet"
    )
    context.end_first_run(brief(work, "s1"))
    context.end_first_run(brief(work, "s2"))
    assert names(context.gather(brief(work, "s1"))) == ["SOUL.md", "BOOTSTRAP.md"], (
        "it goes on in its session"
    )
    assert names(context.gather(brief(work, "s2"))) == ["SOUL.md"]
    assert names(reader(tmp_path).gather(brief(work, "s3"))) == ["SOUL.md"], "a restart changes nothing"


def test_what_is_no_plain_file_in_the_workspace_is_not_there(tmp_path: Path, work: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (work / "USER.md").symlink_to(tmp_path / "secret")
    (work / "IDENTITY.md").symlink_to(work / "SOUL.md")
    os.mkfifo(work / "TOOLS.md")
    assert names(reader(tmp_path).gather(brief(work))) == ["SOUL.md", "IDENTITY.md", "BOOTSTRAP.md"]


def test_a_folder_and_a_name_that_is_too_long_are_no_files(tmp_path: Path) -> None:
    assert read_text(str(tmp_path)) is None
    assert read_text(str(tmp_path / ("x" * 300))) is None
    assert read_text("a\0b") is None


def test_what_is_read_is_bounded_alone_and_together(tmp_path: Path, work: Path) -> None:
    files = [tmp_path / f"{number}.md" for number in range(6)]
    for file in files:
        file.write_text("ü" * (FILE_CHARS + 7))
    context = reader(tmp_path, context_files=[str(file) for file in files]).gather(brief(work, trusted=False))
    assert sum(len(file.text) for file in context.files) == ALL_CHARS
    assert len(context.warnings) == len(files)
    assert "5.md is too long: only 0" in context.warnings[-1]


def test_a_relative_base_file_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"context_files": ["core.md"]}, ClaudeConfig)


def test_context_files_of_the_brief_are_given_but_for_those_that_the_program_reads_itself(
    tmp_path: Path, work: Path
) -> None:
    (tmp_path / "CLAUDE.md").write_text("of all")
    (work / "CLAUDE.md").write_text("of the folder")
    (work / "LINK.md").symlink_to("/etc/passwd")
    paths = (str(tmp_path / "CLAUDE.md"), str(work / "CLAUDE.md"), str(work / "LINK.md"))
    here = brief(work, trusted=False, context_files=paths)
    assert [file.text for file in reader(tmp_path).gather(here).files] == ["of all", "of the folder"]
    itself = ContextReader(str(tmp_path / "state"), reads_itself=("CLAUDE.md",))
    assert [file.text for file in itself.gather(here).files] == ["of all"]
