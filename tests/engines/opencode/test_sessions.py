"""Lists that the server tells, read into ours; and what `opencode auth list` prints about logins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilothouse.engines.opencode.config import OpenCodeConfig
from pilothouse.engines.opencode.login import LOG_IN, NO_LOGIN, check_login
from pilothouse.engines.opencode.session_list import next_prompt, read_points, read_sessions

FILES = "┌  Credentials \x1b[90m~/.local/share/opencode/auth.json\n│\n"
NONE = f"{FILES}└  0 credentials\n"
TWO = f"{FILES}●  Anthropic \x1b[90mapi\n│\n●  GitHub Copilot \x1b[90moauth\n│\n└  2 credentials\n"
VARIABLE = f"{NONE}\n┌  Environment\n│\n●  OpenAI \x1b[90mOPENAI_API_KEY\n│\n└  1 environment variable\n"


def message(id: str, role: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": {"id": id, "role": role, "time": {"created": 2000}, **info}, "parts": list(parts)}


def said(id: str, text: str) -> dict[str, Any]:
    return message(
        id, "user", {"type": "text", "text": text}, {"type": "text", "text": "x", "synthetic": True}
    )


def answered(id: str, *, over: bool = True) -> dict[str, Any]:
    return message(id, "assistant", time={"completed": 3000} if over else {})


HISTORY: list[Any] = [
    said("msg_1", "apples"),
    answered("msg_2"),
    message("msg_3", "user", {"type": "compaction"}),
    answered("msg_4"),
    message("msg_5", "user", {"type": "file", "filename": "a.png"}),
    answered("msg_6"),
    "nonsense",
]


def test_prompts_are_points_and_what_opencode_says_itself_is_none() -> None:
    points = read_points(HISTORY)
    assert [(one.id, one.title, one.at) for one in points] == [
        ("msg_1", "apples", 2.0),
        ("msg_5", "[a.png]", 2.0),
    ]
    assert read_points([*HISTORY, said("msg_7", "more"), answered("msg_8", over=False)]) == points
    assert read_points(None) == []


@pytest.mark.parametrize(
    ("point", "before"), [("msg_1", "msg_5"), ("msg_5", ""), ("msg_2", None), ("msg_3", None)]
)
def test_a_copy_ends_before_the_next_prompt(point: str, before: str | None) -> None:
    assert next_prompt(HISTORY, point) == before


def test_only_sessions_of_the_folder_are_listed_last_used_first(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    told: list[Any] = [
        {"id": f"ses_0000000{n}", "directory": str(folder), "title": f"t{n}", "time": {"updated": n * 1000}}
        for n, folder in enumerate((tmp_path, tmp_path / "link", "/elsewhere"))
    ]
    found = read_sessions([*told, {"id": "bogus", "directory": str(tmp_path)}, None], str(tmp_path))
    assert [(one.title, one.used_at) for one in found] == [("t1", 1.0), ("t0", 0.0)]


@pytest.mark.parametrize(
    ("printed", "fields", "available", "words"),
    [
        (TWO, {}, True, "logged in (Anthropic, GitHub Copilot)"),
        (VARIABLE, {}, True, "logged in (OpenAI)"),
        (NONE, {"model": "opencode/big-pickle"}, True, "a model of OpenCode's makers"),
        (NONE, {}, False, NO_LOGIN),
        ("Error: unknown command", {}, True, "OpenCode did not say whether it is logged in"),
    ],
)
def test_the_program_is_asked_for_its_logins(
    tmp_path: Path, printed: str, fields: dict[str, Any], available: bool, words: str
) -> None:
    program = tmp_path / "opencode"
    program.write_text(f"#!/bin/sh\n[ \"$1 $2\" = 'auth list' ] && cat <<'END'\n{printed}END\n")
    program.chmod(0o755)
    status = check_login(
        OpenCodeConfig(command=str(program), **fields), {"HOME": str(tmp_path), "PATH": "/bin:/usr/bin"}
    )
    assert (status.available, status.problem or status.version) == (available, words)
    assert status.fix == ("" if available else LOG_IN)


def test_a_provider_in_the_users_own_settings_is_a_login(tmp_path: Path) -> None:
    settings = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    settings.parent.mkdir(parents=True)
    settings.write_text('{\n  // mine\n  "provider": {\n    "mine": {}\n  }\n}\n')
    status = check_login(OpenCodeConfig(command="/no/such/program"), {"HOME": str(tmp_path)})
    assert (status.available, status.version) == (True, "own model provider")
