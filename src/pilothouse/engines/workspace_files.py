"""Files of an owner, or of a trusted workspace, that are given to a model as context.

    from a trusted workspace   SOUL.md IDENTITY.md USER.md TOOLS.md, and BOOTSTRAP.md in a first run
    from the configuration     the base files, in their order, and the brief's context files
    for the conversation       one file

Where `append_system_prompt` is set, it replaces the five of the workspace. Links that lead out of a workspace are not
followed, and only plain files are read. BOOTSTRAP.md belongs to the first session that gets it, and to no other once a
turn of that session has completed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
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
CONVERSATIONS = "conversations"
PERMISSIONS = "PERMISSIONS.json"
_FIRST_RUNS = "first-runs"
_BYTES = FILE_CHARS * 4 + 4
"""Enough to see that a file has more than `FILE_CHARS`, whatever its characters are."""

Read = Callable[[str], str | None]
"""Returns a file's text, or None where there is no such file."""


class Unreadable(Struct, frozen=True):
    """A file that is there and cannot be read, and why."""

    why: str


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
    """True if BOOTSTRAP.md is among the files."""


def gather_context(plan: ContextPlan, read: Read) -> Context:
    """Read the files of the plan, in order. A missing file is no error."""
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
    """Return the paths in order, each once."""
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
    """`prompt_is_set` says that the configuration appends a system prompt, which replaces the workspace's files.
    `reads_itself` are names of files in a trusted workspace that the program reads without us."""

    def __init__(
        self,
        state_dir: str,
        *,
        base_files: Sequence[str] = (),
        prompt_is_set: bool = False,
        reads_itself: Collection[str] = (),
    ) -> None:
        self._base_files = tuple(os.path.expanduser(path) for path in base_files)
        self._prompt_is_set = prompt_is_set
        self._reads_itself = reads_itself
        self._first_runs = Path(state_dir, _FIRST_RUNS)

    def gather(self, brief: Brief) -> Context:
        """Read the files for one turn, so that an owner's edit counts from the next turn on."""
        plan = ContextPlan(
            brief.workspace,
            trusted=brief.trusted,
            first_run=self._is_first_run(brief),
            append_system_prompt=self._prompt_is_set,
            base_files=(*self._base_files, *self._context_files(brief)),
            conversation_file=conversation_file(brief),
        )
        own = os.path.realpath(brief.workspace)
        return gather_context(plan, lambda path: read_text(path, own if _is_in(path, brief) else ""))

    def _context_files(self, brief: Brief) -> Iterator[str]:
        for path in brief.context_files:
            if not (_is_in(path, brief) and os.path.basename(path) in self._reads_itself):
                yield path

    def end_first_run(self, brief: Brief) -> None:
        """Note that a turn with BOOTSTRAP.md completed. If that cannot be written, the next session gets it once more."""
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


def permissions_text(brief: Brief) -> bytes | Unreadable | None:
    """Read PERMISSIONS.json for one turn; None if there is none."""
    if not brief.settings_dir:
        return None
    try:
        text = _read_plain(os.path.join(brief.settings_dir, PERMISSIONS))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unreadable(error.strerror or type(error).__name__)
    return text if len(text) < _BYTES else Unreadable(f"it has more than {FILE_CHARS * 4:,} bytes")


def conversation_file(brief: Brief) -> str:
    """Return the path of `conversations/ID.md` in the owner's folder for the workspace; empty without such a folder."""
    if not brief.settings_dir or not brief.conversation_id:
        return ""
    name = quote(brief.conversation_id, safe=":#@+=, ")
    return os.path.join(brief.settings_dir, CONVERSATIONS, f"{name}.md")


def read_text(path: str, inside: str = "", most: int = _BYTES) -> str | None:
    """Return the text of a plain file, up to so many bytes; None if there is no such file, or if it leads out of `inside`."""
    try:
        real = os.path.realpath(path)
        if inside and os.path.commonpath((real, inside)) != inside:
            return None
        return _read_plain(real, most).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def _read_plain(path: str, most: int = _BYTES) -> bytes:
    """Return the beginning of a plain file. Raises `OSError` for anything else: a pipe would never end."""
    # Without O_NONBLOCK, a pipe in the file's place would block the gateway until a writer comes.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a plain file", path)
        return file.read(most)


def _is_in(path: str, brief: Brief) -> bool:
    return os.path.dirname(path) == brief.workspace.rstrip("/")
