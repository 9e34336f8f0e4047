"""What a shell is given to read: a text that stands in the command, or one that only the running shell knows.

For rules that forbid. Known is what `echo`, `printf` and here-documents say; a download, a file, and what another
program makes of a text are not. A file that the same text writes and then runs is read like a shell's input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pilothouse.policy.launching import (
    FEEDING,
    LAUNCHERS,
    is_fed,
    launched,
    reads_commands,
    shell_at,
)
from pilothouse.policy.open_programs import INTERPRETERS, plain_name
from pilothouse.policy.reader_table import word_set
from pilothouse.policy.script import Chain, Node, Pipe, Redirect, Script, Segment, Subshell, segments_in

_PRINTERS = word_set("echo printf true false :")
_PASSING = word_set("cat tee")
_QUIET = _PRINTERS | word_set("cd set export test [ mkdir chmod touch for local return exit")
_LOADERS = word_set("curl wget")
_WRITERS = _LOADERS | {"tee"}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|0?[0-7]{1,3}|[ntr\\])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\n", "\\": "\\"}
_RECIPE = re.compile(r"^\s+[@+\-]+(?=\w)", re.MULTILINE)
_MAKE_VALUE = re.compile(r"\$\((\w+)\)")
_BANG = re.compile(r"(?:^|(?<=[\s'\"+:,.;=$%\drwec]))!+(.+)$", re.MULTILINE)
_PUT_TOGETHER = re.compile(r"%(?!%)")
_WHOLE = word_set("%s %b %s\\n %b\\n")
"""What `printf` makes of one word: the word."""
_GOES_ON = re.compile(r"[\\'\"$`<(){}]")
"""In a line that is printed: what may belong together with the next one."""
Words = tuple[str, ...]


def is_fed_blindly(script: Script) -> bool:
    """Whether a shell runs what nobody can tell."""
    if any(_reads(one.texts) for one in script.nested):  # how nested commands are joined is not known
        return (
            not all(map(_is_quiet, script.nested))
            or not _is_one_text(list(script.segments()))
            or _may_feed(script.body)
        )
    return _is_blind(script.body, known=True)


def _reads(texts: Words) -> bool:
    return reads_commands(texts) or is_fed(texts)


def _is_quiet(one: Segment) -> bool:
    return not _files_read(one.redirects) and (
        not one.words or (one.name in _QUIET and _says_itself(one)) or _passes_on(one) or _reads(one.texts)
    )


def _says_itself(one: Segment) -> bool:
    """Whether what it prints stands there as one text: `printf 'git %s' push` puts it together."""
    if one.name != "printf":
        return True
    texts = one.texts[2:] if one.texts[1:2] == ("--",) else one.texts[1:]
    return not texts or not _PUT_TOGETHER.search(texts[0]) or (texts[0] in _WHOLE and len(texts) == 2)


def _is_one_text(segments: Sequence[Segment]) -> bool:
    """Whether nothing that several commands print becomes one only when it is read: one printer, or lines by themselves."""
    printers = [one for one in segments if one.name in ("echo", "printf")]
    return len(printers) < 2 or all(
        one.name == "echo"
        and not any(map(_GOES_ON.search, one.texts[1:]))
        and not any(text.startswith("-") for text in one.texts[1:2])
        for one in printers
    )


def _may_feed(node: Node) -> bool:
    """Whether something in it could reach a shell that stands in a group, a function, or behind a here-document."""
    match node:
        case Segment() as one:
            return _files_read(one.redirects) or (_is_given(one.redirects) and not _is_quiet(one))
        case Pipe(parts=parts):
            return not all(_is_known(part, known=True) for part in parts[:-1]) or _may_feed(parts[-1])
        case Subshell(body=body, redirects=redirects):
            return _files_read(redirects) or _may_feed(body)
        case Chain(items=items):
            return any(_may_feed(inner) for _, inner in items)


def _is_blind(node: Node, *, known: bool) -> bool:
    """`known`: what the command would read from its input."""
    match node:
        case Segment(redirects=redirects) as one:
            if not _reads(one.texts):
                return False
            return _files_read(redirects) or not (known or _is_given(redirects))
        case Pipe(parts=parts):
            for part in parts:
                if _is_blind(part, known=known):
                    return True
                known = _is_known(part, known=known)
            return False
        case Subshell(body=body, redirects=redirects):
            return _is_blind(body, known=known and not _files_read(redirects))
        case Chain(items=items):
            for _, inner in items:
                if _is_blind(inner, known=known):
                    return True
                if isinstance(inner, Segment) and inner.name == "exec" and _files_read(inner.redirects):
                    known = False
            return False


def _is_known(node: Node, *, known: bool) -> bool:
    """Whether what it prints stands in the text."""
    segments = list(segments_in(node))
    return _is_one_text(segments) and all(
        (one.name in _PRINTERS and _says_itself(one)) or _prints_given(one, known=known) for one in segments
    )


def _prints_given(one: Segment, *, known: bool) -> bool:
    return _passes_on(one) and not _files_read(one.redirects) and (known or _is_given(one.redirects))


def _passes_on(one: Segment) -> bool:
    """What it reads, and no file."""
    return one.name in _PASSING and (one.name == "tee" or all(text.startswith("-") for text in one.texts[1:]))


def _is_given(redirects: Sequence[Redirect]) -> bool:
    return any(one.op.startswith("<<") for one in redirects)


def _files_read(redirects: Sequence[Redirect]) -> bool:
    return any(
        one.op in ("<", "<&", "<>") and one.target and one.target.text != "/dev/null" for one in redirects
    )


def runs_written(segments: Sequence[Segment]) -> tuple[bool, bool]:
    """Whether a file is run that the same text writes; and whether nobody can tell what was written."""
    if not any(one.redirects or one.name in _WRITERS for one in segments):
        return False, False
    written = list(_written(segments))
    if not written:
        return False, False
    run = {_base(text) for one in segments for text in _run(one.texts)}
    found = [known for name, known in written if name in run]
    return bool(found), not all(found) or (len(found) > 1 and not _is_one_text(segments))


def _written(segments: Sequence[Segment]) -> Iterator[tuple[str, bool]]:
    """Names of files, and whether what is written stands in the text. Of nested ones the redirections stand alone."""
    printed = False
    for one in segments:
        if not one.words and not one.redirects:
            continue
        here = (one.name in _PRINTERS and _says_itself(one)) or _is_given(one.redirects)
        known = here or (printed and (not one.words or _passes_on(one)))
        for redirect in one.redirects:
            if redirect.changes and redirect.target is not None:
                yield _base(redirect.target.text), known
        if one.name == "tee":
            yield from ((_base(text), known) for text in one.texts[1:])
        elif one.name in _LOADERS:
            yield from ((_base(text), False) for text in one.texts[1:])
        printed = known


def _run(texts: Words) -> Iterator[str]:
    if not texts:
        return
    name = _base(texts[0])
    if "/" in texts[0]:
        yield texts[0]
    if plain_name(name) in INTERPRETERS:
        yield from texts[1:]
    if name in LAUNCHERS and name not in FEEDING:
        yield from launched(texts)
        shell = shell_at(texts)
        if shell is not None:
            yield from launched(texts[shell:])


def _base(text: str) -> str:
    return text.rpartition("/")[2]


def printed(text: str) -> str:
    """What `printf` makes of a text."""
    return _ESCAPE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    body = match[1]
    if body[0] == "x":
        return chr(int(body[1:], 16))
    return _ESCAPED.get(body) or chr(int(body, 8) & 0xFF)


def as_makefile(text: str) -> str:
    """A makefile as a shell would write it: `$(X)` is a value there, and `@` is no part of a command."""
    return _MAKE_VALUE.sub(r"${\1}", _RECIPE.sub("\t", text))


def bangs(text: str) -> list[str]:
    """Commands that an editor or a pager would hand to a shell: `!ls`, `w !ls`, `+!ls`."""
    return _BANG.findall(text) if "!" in text else []
