"""What a shell puts in place of `$x`: values that the text itself sets, and holes where only the running shell knows.

For rules that forbid. A value that is set anywhere in a text counts everywhere in it; a hole, written `*`, may become
anything, several words too, so a rule that could be meant there is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice, product

from pilothouse.policy.reader_table import word_set
from pilothouse.policy.script import Segment

Words = tuple[str, ...]

HOLE = "*"
MAX_VARIANTS = 64
MAX_CHARS = 2000
"""Of a command that values are put into."""
MAX_PASSES = 4
"""Values that name other values, and substitutions inside of substitutions: how deep they are followed."""
_REFERENCE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_DEFAULT = re.compile(r"\$\{\w+:?[-=+]([^{}]*)\}")
_EXPANDED = re.compile(
    r"\$\{[^{}]*\}|\$\(\([^()]*\)\)|\$?\([^()]*\)|`[^`]*`|\$\w+|\$[@*#?$!\-]|[<>]\([^()]*\)"
)
_QUOTING = re.compile(r"['\"\\]")
_DYNAMIC = re.compile(r"[$`]|[<>]\(")
_VALUE_OPTIONS = word_set("-C --git-dir --work-tree --namespace")
"""Of git: what follows is a folder, never what git is told to do."""
_RENAMING = word_set("hash ln cp mv install link")
"""What gives a program another name. Of `hash`: `-p PROGRAM NAME`."""

_NAMING = _RENAMING | {"alias", "sudo"}


def is_dynamic(text: str) -> bool:
    return _DYNAMIC.search(text) is not None


def set_in(segments: Iterable[Segment]) -> Iterable[tuple[str, str]]:
    """Names and the values that they get, quotes taken off: variables, loops, aliases."""
    for segment in segments:
        for assigned in segment.assignments:
            name, _, value = assigned.text.partition("=")
            yield name.rstrip("+"), _QUOTING.sub("", value)


def aliases_in(segments: Iterable[Segment]) -> Iterable[tuple[str, str]]:
    """Names and the commands that they stand for: the shell's aliases, and links and copies of programs."""
    for segment in segments:
        if segment.name not in _NAMING:
            continue
        texts = segment.texts[1:] if segment.name == "sudo" else segment.texts
        if texts[:1] == ("alias",):
            for text in texts[1:]:
                name, equals, value = text.partition("=")
                if equals:
                    yield name, _QUOTING.sub("", value)
        elif texts and texts[0] in _RENAMING:
            said = [text for text in texts[1:] if not text.startswith("-")]
            if len(said) == 2:
                source, name = said if texts[0] == "hash" else [said[0], said[1].rpartition("/")[2]]
                yield name, "$_" if is_dynamic(source) else source


def variants(texts: Words, values: Mapping[str, Iterable[str]]) -> list[Words]:
    """The words with values put in, in many ways; where there are more, the holes still stand for them all."""
    found = [texts]
    if sum(map(len, texts)) > MAX_CHARS:
        return []
    for _ in range(MAX_PASSES):
        more = [one for words in found for one in _variants(words, values)]
        if not more:
            break
        found = list(dict.fromkeys(more))[:MAX_VARIANTS]
    return [words for words in found if words != texts]


def _variants(texts: Words, values: Mapping[str, Iterable[str]]) -> list[Words]:
    """Nothing if there is nothing to put in."""
    line = "\n".join(texts)
    names = [name for name in dict.fromkeys(_names(line)) if name in values]
    if not names and not _DEFAULT.search(line):
        return []
    found: list[Words] = []
    for chosen in islice(product(*(values[name] for name in names)), MAX_VARIANTS):
        filled = _fill(line, dict(zip(names, chosen, strict=True)))
        found.append(tuple(filled.split()))
    return found


def _names(line: str) -> Iterable[str]:
    return (match[1] or match[2] for match in _REFERENCE.finditer(line))


def _fill(line: str, chosen: Mapping[str, str]) -> str:
    line = _DEFAULT.sub(lambda match: match[1], line)
    return _REFERENCE.sub(lambda match: chosen.get(match[1] or match[2], match[0]), line)


def opened(texts: Words, settled: Mapping[str, str]) -> Words:
    """The words with a hole wherever nobody can tell what will stand there."""
    return tuple(
        word if at and texts[at - 1] in _VALUE_OPTIONS else _open(_fill(word, settled) if settled else word)
        for at, word in enumerate(texts)
    )


def _open(word: str) -> str:
    if not is_dynamic(word):
        return word
    for _ in range(MAX_PASSES):
        word, many = _EXPANDED.subn(HOLE, word)
        if not many:
            break
    return HOLE if is_dynamic(word) or len(word) > 256 else re.sub(r"\*+", HOLE, word)
