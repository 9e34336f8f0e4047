"""Which context files are given to Claude, in which order. Pure over a function that reads a file.

    from a trusted workspace   SOUL.md IDENTITY.md USER.md TOOLS.md, and BOOTSTRAP.md in a first run
    from the configuration     the base files, in their order
    for the conversation       one file

Where `append_system_prompt` is set, the five of the workspace are left out: their words are in the system prompt. A
file that is missing is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

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
