"""What makes two processes the same, where attachments go, and which tokens reach no command line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.engines.claude.rig import MemoryBlobs

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId, SessionId
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.config import ClaudeConfig, resolve
from pilothouse.engines.claude.launch import Launch, check_token, has_same_cap, plan_launch, use_scratch
from pilothouse.engines.claude.prompt import PromptComposer
from pilothouse.engines.machine import make_scratch, remove_scratch, scratch_path

ID = "0b0f7a4e-3c5d-4e6f-8a7b-9c0d1e2f3a4b"
BRIEF = Brief(SessionId("s"), "/work/shop")
CONFIG = resolve(ClaudeConfig(), {})


def token(value: str, engine: str = "claude") -> Brief:
    return msgspec.structs.replace(BRIEF, resume=ResumeToken(EngineId(engine), value))


def launch(
    brief: Brief = BRIEF,
    config: ClaudeConfig = CONFIG,
    cwd: str = "/work/shop",
    context: str = "",
    **env: str,
) -> Launch:
    source = {"HOME": "/home/u", **env}
    return plan_launch(config, brief, source, cwd=cwd, new_session=ID, extra={}, context=context)


def test_another_model_is_told_to_the_same_process() -> None:
    other = launch(msgspec.structs.replace(BRIEF, model="opus"))
    assert (other.key, other.model) == (launch().key, "opus")
    assert other.argv != launch().argv


def test_a_context_is_told_on_stdin_with_what_is_appended_and_is_not_frozen() -> None:
    config = msgspec.structs.replace(CONFIG, append_system_prompt="be brief")
    plain, told = launch(config=config), launch(config=config, context="# SOUL.md")
    assert plain.system_prompt == "" and told.system_prompt == "be brief\n\n# SOUL.md"
    assert [word for word in told.argv if word not in plain.argv] == ["--system-prompt-snapshot", "off"]
    assert told.key != launch(config=config, context="# USER.md").key


def test_a_new_session_and_its_resumption_have_the_same_key() -> None:
    assert launch().key == launch(token(ID)).key
    assert launch().argv != launch(token(ID)).argv


def test_whatever_changes_behaviour_changes_the_key() -> None:
    other = "11111111-2222-4333-8444-555555555555"
    changed = msgspec.structs.replace
    keys = [
        launch(),
        launch(token(other)),
        launch(changed(BRIEF, trusted=True)),
        launch(changed(BRIEF, system_prompt="be brief")),
        launch(changed(BRIEF, mcp_servers={"a": {"command": "b"}})),
        launch(changed(BRIEF, environment={"A": "1"})),
        launch(config=changed(CONFIG, tools=["Read"])),
        launch(config=changed(CONFIG, permission_mode="plan")),
        launch(config=changed(CONFIG, add_dirs=["/x"])),
        launch(cwd="/work/other"),
        launch(LANG="C"),
    ]
    assert len({one.key for one in keys}) == len(keys)


@pytest.mark.parametrize("value", ["", "nonsense", "--help", ID.upper(), f"{ID} ", f"{ID}\n", "../" + ID])
def test_a_token_that_is_no_session_id_reaches_no_command_line(value: str) -> None:
    with pytest.raises(EngineError) as caught:
        check_token(token(value))
    assert caught.value.failure.kind == "stale_session"


def test_a_token_of_another_engine_is_stale() -> None:
    with pytest.raises(EngineError):
        check_token(token(ID, "codex"))
    check_token(token(ID))
    check_token(BRIEF)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("notes.txt", "notes.txt"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        (".bashrc", "bashrc"),
        ("..", "a file"),
        ("", "a file"),
        ("a\nb.txt", "a?b.txt"),
        ("会议记录" * 50 + ".docx", "会议记录" * 19 + "会议.docx"),  # 78 characters of three bytes, and five
        ("x" * 300, "x" * 240),
        ("CLAUDE.md", "attached-CLAUDE.md"),
        ("docs/agents.Override.md", "attached-agents.Override.md"),
        ("ＣＬＡＵＤＥ.md", "attached-ＣＬＡＵＤＥ.md"),
        ("claude notes.md", "claude notes.md"),
    ],
)
async def test_an_attachment_lands_in_its_folder_whatever_it_is_called(
    tmp_path: Path, name: str, kept: str
) -> None:
    blobs = MemoryBlobs()
    file = await blobs.put(b"text", name, "text/plain")
    prompting = PromptComposer(blobs, str(tmp_path))
    await prompting.compose(Prompt("look", (file,)), ID)
    await prompting.compose(Prompt("look", (file,)), ID)
    stem, suffix = os.path.splitext(kept)
    assert sorted(path.name for path in (tmp_path / "downloads").iterdir()) == sorted(
        [".gitignore", kept, f"{stem}-2{suffix}"]
    )
    assert [path.name for path in tmp_path.iterdir()] == ["downloads"]


@pytest.mark.parametrize("was_there", [False, True])
async def test_git_does_not_see_what_people_send(tmp_path: Path, was_there: bool) -> None:
    blobs = MemoryBlobs()
    file = await blobs.put(b"text", "notes.txt", "text/plain")
    await anyio.run_process(["git", "init", "-q", str(tmp_path)])
    if was_there:
        (tmp_path / "downloads").mkdir()
    await PromptComposer(blobs, str(tmp_path)).compose(Prompt("look", (file,)), ID)
    assert (tmp_path / "downloads" / "notes.txt").exists()
    status = ["git", "-C", str(tmp_path), "status", "--porcelain"]
    assert (await anyio.run_process(status)).stdout == b""


@pytest.mark.parametrize("is_link", [False, True])
async def test_what_a_repository_ignores_in_its_downloads_is_left_as_it_is(
    tmp_path: Path, is_link: bool
) -> None:
    blobs, downloads, elsewhere = MemoryBlobs(), tmp_path / "repo" / "downloads", tmp_path / "elsewhere"
    downloads.mkdir(parents=True)
    if is_link:
        (downloads / ".gitignore").symlink_to(elsewhere)
    else:
        (downloads / ".gitignore").write_text("*.iso\n")
    file = await blobs.put(b"text", "notes.txt", "text/plain")
    await PromptComposer(blobs, str(downloads.parent)).compose(Prompt("look", (file,)), ID)
    assert (downloads / "notes.txt").read_bytes() == b"text"
    assert not elsewhere.exists() if is_link else (downloads / ".gitignore").read_text() == "*.iso\n"


async def test_a_downloads_folder_that_leads_elsewhere_gets_nothing(tmp_path: Path) -> None:
    blobs, workspace, elsewhere = MemoryBlobs(), tmp_path / "repo", tmp_path / "elsewhere"
    workspace.mkdir()
    elsewhere.mkdir()
    (workspace / "downloads").symlink_to(elsewhere)
    file = await blobs.put(b"text", "authorized_keys", "text/plain")
    message = await PromptComposer(blobs, str(workspace)).compose(Prompt("look", (file,)), ID)
    assert list(elsewhere.iterdir()) == []
    assert "leads out" in message.notices[0].text


async def test_a_note_goes_along_with_every_prompt() -> None:
    message = await PromptComposer(MemoryBlobs(), "/", "Rule: be kind").compose(Prompt("hello"), ID)
    assert b"Rule: be kind" in message.line and b"hello" in message.line


def test_the_scratch_folder_is_ours_empty_and_private(tmp_path: Path) -> None:
    marker = str(tmp_path)
    first = Path(make_scratch(marker))
    (first / "left").write_text("x")
    second = Path(make_scratch(marker))
    assert (first, list(second.iterdir())) == (second, [])
    assert second.stat().st_mode & 0o777 == 0o700
    remove_scratch(str(second))
    assert not second.exists()


def test_a_link_in_the_scratch_folders_place_is_not_followed(tmp_path: Path) -> None:
    marker, place = str(tmp_path), scratch_path(str(tmp_path))
    (tmp_path / "precious").mkdir()
    place.symlink_to(tmp_path / "precious")
    try:
        made = make_scratch(marker)
        assert Path(made) != place
        remove_scratch(made)
    finally:
        place.unlink()


def with_left(usd: float | None) -> Brief:
    return msgspec.structs.replace(BRIEF, budget_usd=usd)


def test_what_the_house_has_left_is_the_cap_of_the_process_where_it_is_less_than_the_configured_one() -> None:
    config = msgspec.structs.replace(CONFIG, max_budget_usd=2.0)
    assert "--max-budget-usd=0.75" in launch(with_left(0.75)).argv
    assert launch(with_left(0.75)).budget_usd == 0.75
    assert "--max-budget-usd=0.75" in launch(with_left(0.75), config).argv
    assert "--max-budget-usd" not in launch(with_left(0.75), config).argv, "it is said once"
    rich = launch(with_left(5.0), config)
    assert rich.budget_usd is None and rich.argv[rich.argv.index("--max-budget-usd") + 1] == "2"


def test_a_warm_process_serves_on_while_its_cap_is_what_the_house_has_left() -> None:
    first, later = launch(with_left(1.0)), launch(with_left(0.6))
    assert first.key == later.key, "what is left changes with every turn"
    assert has_same_cap(first, 0.4, later)
    assert has_same_cap(first, 0.42, later), "it would stop a little earlier"
    assert not has_same_cap(first, 0.38, later), "and never later"
    assert not has_same_cap(first, 0.0, later), "others have spent meanwhile: it would spend too much"
    assert not has_same_cap(first, 0.4, launch(with_left(5.0))), "the cap was raised: it would stop too early"
    assert not has_same_cap(first, 0.4, launch()) and not has_same_cap(launch(), 0.0, first)
    assert has_same_cap(launch(), 9.0, launch())


def test_no_value_of_a_server_stands_on_the_command_line() -> None:
    servers = {
        "pilothouse": {"type": "http", "url": "http://x/", "headers": {"Authorization": "Bearer own"}},
        "docs": {"type": "http", "url": "http://y/", "headers": {"Authorization": "Bearer theirs"}},
        "files": {"command": "files", "args": ["-q"], "env": {"KEY": "hidden"}},
    }
    started = launch(msgspec.structs.replace(BRIEF, mcp_servers=servers))
    named = next(json.loads(word)["mcpServers"] for word in started.argv if "mcpServers" in word)
    parts = {"pilothouse": "headers", "docs": "headers", "files": "env"}
    values = {id: next(iter(named[id][part].values())) for id, part in parts.items()}
    assert {id: started.environment[text.strip("${}")] for id, text in values.items()} == {
        "pilothouse": "Bearer own",
        "docs": "Bearer theirs",
        "files": "hidden",
    }
    assert not [word for word in started.argv if "own" in word or "theirs" in word or "hidden" in word]


def test_commands_see_no_value_of_a_server(tmp_path: Path) -> None:
    script = use_scratch(str(tmp_path), ())["CLAUDE_ENV_FILE"]
    seen = subprocess.run(
        ["/bin/bash", "-c", f". {script}; env"],
        env={"PATH": os.environ["PATH"], "PILOTHOUSE_MCP_12_SECRET": "hidden", "KEPT": "yes"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "KEPT=yes" in seen and "hidden" not in seen
