"""`pilothouse chat` with the real Claude behind it: what a person reads and types, from the question to the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.terminal_rig import Pty
from tests.cli.test_chat import CHAT
from tests.engines.claude.api import Reply, open_api, say, use
from tests.engines.claude.binary import claude_binary
from tests.engines.claude.rig import Rig

pytestmark = pytest.mark.slow

DATABASE = {
    "question": "Which database?",
    "header": "Database",
    "multiSelect": False,
    "options": [
        {"label": "SQLite", "description": "One file"},
        {"label": "Postgres", "description": "A server"},
    ],
}
COLOUR = {**DATABASE, "question": "Which colour?", "header": "Colour"}


def test_a_chat_with_claude_from_the_first_question_to_the_answer(tmp_path: Path) -> None:
    """S4, S9 and S10: requests in words, two questions as lists one after the other, and a line for each deed."""
    deeds = [
        Reply([{"text": "I look."}, use("Bash", command="ls", description="List")]),
        Reply([use("Bash", command="touch made", description="Make it")]),
        Reply([use("AskUserQuestion", questions=[DATABASE, COLOUR])]),
    ]
    with open_api(*deeds, say("All done, friend.")) as api:
        rig = Rig(tmp_path, api)
        (tmp_path / "config.toml").write_text(
            f'[engines.claude]\ncommand = "{claude_binary()}"\n'
            'environment = ["ANTHROPIC_*", "CLAUDE_CODE_*", "DISABLE_*"]\n'
        )
        environ = {**rig.environment(), "PILOTHOUSE_HOME": str(tmp_path)}
        minimal = ("--approval-mode", "minimal")
        with Pty(*minimal, program=CHAT, folder=rig.workspace, environ=environ) as terminal:
            terminal.wait_for("Ctrl-D leaves.")
            terminal.type("do it\r")
            terminal.wait_for("? Claude wants to run `touch made`")
            terminal.type("yes\r")
            terminal.wait_for(
                "? Claude asks: Which database?\n  1 SQLite: One file\n  2 Postgres: A server\n"
            )
            assert "Which colour?" not in terminal.text
            terminal.type("1\r")
            terminal.wait_for("? Claude asks: Which colour?")
            terminal.type("postgres\r")
            terminal.wait_for("All done, friend.")
            terminal.wait_for("✓ ")
        assert terminal.text.index("  $ ls\n") < terminal.text.index("  $ touch made\n")
        assert "SQLite" in api.main[-1].text and "Postgres" in api.main[-1].text
