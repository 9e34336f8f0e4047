"""Which files Claude is given, in which order, and which are left out."""

from __future__ import annotations

import msgspec

from pilothouse.engines.workspace_files import (
    BOOTSTRAP_SKIPPED,
    FILE_CHARS,
    ContextPlan,
    gather_context,
    render_context,
)

NAMES = ("SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md", "BOOTSTRAP.md")
FILES = {f"/w/{name}": f"words of {name}" for name in NAMES} | {
    "/etc/p/core.md": "core",
    "/etc/p/safety.md": "safety",
    "/etc/p/room.md": "room",
}
PLAN = ContextPlan(
    "/w/",
    trusted=True,
    first_run=True,
    base_files=("/etc/p/core.md", "/etc/p/safety.md"),
    conversation_file="/etc/p/room.md",
)


def names(plan: ContextPlan, files: dict[str, str] | None = None) -> list[str]:
    found = gather_context(plan, (FILES if files is None else files).get)
    return [file.path.rpartition("/")[2] for file in found.files]


def changed(**changes: object) -> ContextPlan:
    return msgspec.structs.replace(PLAN, **changes)


def test_the_workspace_comes_first_then_the_base_then_the_conversation() -> None:
    assert names(PLAN) == [*NAMES, "core.md", "safety.md", "room.md"]


def test_bootstrap_is_for_a_first_run_only() -> None:
    assert names(changed(first_run=False)) == [*NAMES[:4], "core.md", "safety.md", "room.md"]


def test_an_appended_system_prompt_leaves_the_five_out_and_warns_in_a_first_run() -> None:
    plan = changed(append_system_prompt=True)
    assert names(plan) == ["core.md", "safety.md", "room.md"]
    assert gather_context(plan, FILES.get).warnings == (BOOTSTRAP_SKIPPED,)
    assert gather_context(changed(append_system_prompt=True, first_run=False), FILES.get).warnings == ()
    assert gather_context(plan, {}.get).warnings == ()


def test_an_untrusted_workspace_is_not_read_at_all() -> None:
    asked: list[str] = []

    def read(path: str) -> str | None:
        asked.append(path)
        return None

    gather_context(changed(trusted=False, append_system_prompt=True), read)
    gather_context(changed(trusted=False), read)
    assert not [path for path in asked if path.startswith("/w/")]
    assert names(changed(trusted=False)) == ["core.md", "safety.md", "room.md"]


def test_a_file_that_is_missing_or_empty_is_no_error() -> None:
    assert names(PLAN, {"/w/USER.md": "me", "/w/SOUL.md": " \n"}) == ["USER.md"]


def test_a_file_named_twice_is_given_once() -> None:
    assert names(changed(trusted=False, conversation_file="/etc/p/core.md")) == ["core.md", "safety.md"]


def test_a_long_file_is_cut_and_said() -> None:
    found = gather_context(changed(base_files=()), {"/w/USER.md": "x" * (FILE_CHARS + 1)}.get)
    assert len(found.files[0].text) == FILE_CHARS
    assert "/w/USER.md" in found.warnings[0]


def test_each_file_stands_under_its_name() -> None:
    found = gather_context(PLAN, {"/w/USER.md": "me\n", "/etc/p/core.md": "core"}.get)
    assert render_context(found) == "# USER.md\n\nme\n\n# core.md\n\ncore"
