"""Which context files are given to Claude, in which order. Pure over a function that reads a file.

    from a trusted workspace   SOUL.md IDENTITY.md USER.md TOOLS.md, and BOOTSTRAP.md in a first run
    from the configuration     the base files, in their order
    for the conversation       one file

Where `append_system_prompt` is set, the five of the workspace are left out: their words are in the system prompt. A
file that is missing is no error.

Reads what an owner, or a trusted workspace, keeps for a session, and remembers who has had their first run.

Rules: what lies in a workspace is read only where it lies in truth, and links that lead out are not followed; whatever
is no plain file is not there. BOOTSTRAP.md belongs to the session that it was given to first, and to no other once a
turn of that session has been completed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from pilothouse.core.engine import Brief

WORKSPACE_FILES = ("SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md")
BOOTSTRAP = "BOOTSTRAP.md"
FILE_CHARS = 64_000
ALL_CHARS = 200_000

BOOTSTRAP_SKIPPED = (
    "append_system_prompt is set, so BOOTSTRAP.md was not read in this first run. "
    "Unset it until BOOTSTRAP.md has done its work."
)

Read = Callable[[str], str | None]
"""A file's text; None where there is none."""

CONVERSATIONS = "conversations"
PERMISSIONS = "PERMISSIONS.json"
_FIRST_RUNS = "first-runs"
_BYTES = FILE_CHARS * 4 + 4
"""More than a file may have, whatever its characters are: what is longer shows."""


class ContextPlan(Struct, frozen=True):
    workspace: str
    trusted: bool = False
    first_run: bool = False
    append_system_prompt: bool = False
    base_files: tuple[str, ...] = ()
    conversation_file: str = ""


class ContextFile(Struct, frozen=True):
    path: str
    text: str


class Context(Struct, frozen=True):
    files: tuple[ContextFile, ...]
    warnings: tuple[str, ...] = ()
    bootstraps: bool = False
    """BOOTSTRAP.md is among them."""


def gather_context(plan: ContextPlan, read: Read) -> Context:
    files: list[ContextFile] = []
    warnings: list[str] = []
    room = ALL_CHARS
    for path in candidates(plan):
        text = read(path)
        if text is None or not text.strip():
            continue
        limit = min(FILE_CHARS, room)
        if len(text) > limit:
            warnings.append(f"{path} is too long: only {limit:,} of its characters are given.")
        if limit:
            files.append(ContextFile(path, text[:limit]))
            room -= len(files[-1].text)
    if _misses_bootstrap(plan, read):
        warnings.append(BOOTSTRAP_SKIPPED)
    bootstraps = any(file.path == _in(plan, BOOTSTRAP) for file in files)
    return Context(tuple(files), tuple(warnings), bootstraps)


def candidates(plan: ContextPlan) -> list[str]:
    """The paths, in order, each once."""
    return list(dict.fromkeys(_candidates(plan)))


def render_context(context: Context) -> str:
    return "\n\n".join(f"# {_name(file.path)}\n\n{file.text.strip()}" for file in context.files)


def _candidates(plan: ContextPlan) -> Iterator[str]:
    if plan.trusted and not plan.append_system_prompt:
        names = (*WORKSPACE_FILES, BOOTSTRAP) if plan.first_run else WORKSPACE_FILES
        yield from (_in(plan, name) for name in names)
    yield from plan.base_files
    if plan.conversation_file:
        yield plan.conversation_file


def _misses_bootstrap(plan: ContextPlan, read: Read) -> bool:
    skipped = plan.trusted and plan.first_run and plan.append_system_prompt
    return skipped and read(_in(plan, BOOTSTRAP)) is not None


def _in(plan: ContextPlan, name: str) -> str:
    return f"{plan.workspace.rstrip('/')}/{name}"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


class ContextReader:
    """`prompt_is_set`: the configuration has a system prompt of its own, so the workspace's files are left out."""

    def __init__(
        self, state_dir: str, *, base_files: Sequence[str] = (), prompt_is_set: bool = False
    ) -> None:
        self._base_files = tuple(os.path.expanduser(path) for path in base_files)
        self._prompt_is_set = prompt_is_set
        self._first_runs = Path(state_dir, _FIRST_RUNS)

    def gather(self, brief: Brief) -> Context:
        """Read for every turn: what an owner edits holds from the next one on."""
        plan = ContextPlan(
            brief.workspace,
            trusted=brief.trusted,
            first_run=self._is_first_run(brief),
            append_system_prompt=self._prompt_is_set,
            base_files=self._base_files,
            conversation_file=conversation_file(brief),
        )
        own = os.path.realpath(brief.workspace)
        return gather_context(plan, lambda path: read_text(path, own if _is_in(path, brief) else ""))

    def end_first_run(self, brief: Brief) -> None:
        """A turn that had BOOTSTRAP.md was completed. Where that cannot be kept, the next session has it once more."""
        marker = self._marker(brief)
        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            with marker.open("x") as kept:
                kept.write(f"{brief.session_id}\n{os.path.realpath(brief.workspace)}\n")
        except OSError:
            pass

    def _is_first_run(self, brief: Brief) -> bool:
        try:
            return self._marker(brief).read_text().split("\n")[0] == brief.session_id
        except (OSError, UnicodeError):
            return True

    def _marker(self, brief: Brief) -> Path:
        place = os.path.realpath(brief.workspace)
        return self._first_runs / hashlib.sha256(os.fsencode(place)).hexdigest()[:32]


def permissions_text(brief: Brief) -> str | bytes | None:
    """Read for every turn. One that is there and cannot be read allows as little as one that makes no sense."""
    if not brief.settings_dir:
        return None
    try:
        return Path(brief.settings_dir, PERMISSIONS).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"unreadable: {error.strerror}"


def conversation_file(brief: Brief) -> str:
    """`conversations/ID.md` in the owner's folder for the workspace; empty where there is none."""
    if not brief.settings_dir or not brief.conversation_id:
        return ""
    name = quote(brief.conversation_id, safe=":#@+=, ")
    return os.path.join(brief.settings_dir, CONVERSATIONS, f"{name}.md")


def read_text(path: str, inside: str = "") -> str | None:
    """A plain file's text, as far as anybody needs it; None where there is none, or where it leads out of `inside`."""
    try:
        real = os.path.realpath(path)
        if inside and os.path.commonpath((real, inside)) != inside:
            return None
        # A pipe in the file's place would else wait for a writer, and the gateway with it.
        with open(real, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return file.read(_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def _is_in(path: str, brief: Brief) -> bool:
    return os.path.dirname(path) == brief.workspace.rstrip("/")
