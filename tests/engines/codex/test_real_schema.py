"""Every name that we send or read exists in the schema that the real Codex prints, so that an update shows what changed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.engines.codex.binary import codex_binary

import pilothouse.engines.codex
from pilothouse.engines.codex import asks
from pilothouse.engines.codex.failures import WORDS
from pilothouse.engines.codex.wire import KINDS as NOTIFICATIONS
from pilothouse.engines.codex.wire_items import KINDS as ITEMS

pytestmark = pytest.mark.slow

SOURCES = Path(pilothouse.engines.codex.__file__).parent


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("schema")
    words = [
        str(codex_binary()),
        "app-server",
        "generate-json-schema",
        "--experimental",
        "--out",
        str(folder),
    ]
    environment = {"HOME": str(folder), "CODEX_HOME": str(folder), "PATH": "/usr/bin:/bin"}
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=100)
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def methods(schema: dict[str, Any], union: str) -> set[str]:
    return {name for one in schema[union]["oneOf"] for name in one["properties"]["method"]["enum"]}


def test_every_method_that_we_send_exists(schema: dict[str, Any]) -> None:
    sent = {
        name
        for path in SOURCES.glob("*.py")
        for name in re.findall(r'"((?:thread|turn|model)/[a-zA-Z/]+)"', path.read_text())
    }
    ours = sent - set(NOTIFICATIONS) - {"turn/diff/updated", "turn/moderationMetadata"}
    assert ours >= {
        "thread/start",
        "thread/resume",
        "turn/start",
        "turn/steer",
        "turn/interrupt",
        "model/list",
    }
    assert ours - methods(schema, "ClientRequest") == set()


def test_every_notification_that_we_read_exists(schema: dict[str, Any]) -> None:
    known = methods(schema, "ServerNotification")
    assert {*NOTIFICATIONS, "item/started", "item/completed"} - known == set()


def test_every_request_that_we_answer_exists(schema: dict[str, Any]) -> None:
    answered = {asks.COMMAND, asks.FILE_CHANGE, asks.MORE_PERMISSIONS, asks.ELICITATION, asks.USER_INPUT}
    assert answered - methods(schema, "ServerRequest") == set()


def test_every_item_and_every_word_for_a_failure_exists(schema: dict[str, Any]) -> None:
    text = json.dumps(schema["ServerNotification"])
    assert [name for name in (*ITEMS, *WORDS) if f'"{name}"' not in text] == []


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ("ThreadStartParams", ["cwd", "model", "approvalPolicy", "approvalsReviewer", "sandbox", "config"]),
        ("ThreadStartParams", ["developerInstructions"]),
        ("ThreadResumeParams", ["threadId", "excludeTurns"]),
        (
            "TurnStartParams",
            ["threadId", "input", "approvalPolicy", "approvalsReviewer", "sandboxPolicy", "effort"],
        ),
        ("TurnSteerParams", ["threadId", "input", "expectedTurnId", "clientUserMessageId"]),
        ("TurnInterruptParams", ["threadId", "turnId"]),
        ("ThreadBackgroundTerminalsCleanParams", ["threadId"]),
    ],
)
def test_every_parameter_that_we_send_exists(schema: dict[str, Any], params: str, names: list[str]) -> None:
    known = schema["ClientRequest"]["definitions"][params]["properties"]
    assert [name for name in names if name not in known] == []
