"""Lists options that make a program run others or write files: a rule that names only the program does not cover them.

Recognised joined (`sort -uo`), shortened (`sort --out`), with a value (`sed -i.bak`), and behind a folder (`/usr/bin/sort`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from pilothouse.policy.reader_table import word_set

_LETTERS = re.compile(r"-[A-Za-z0-9]")


class Options(Struct, frozen=True):
    """`letters` may be bundled behind one dash; a letter of `values` ends the bundle with its value."""

    letters: str = ""
    values: str = ""
    long: frozenset[str] = frozenset()
    begins: tuple[str, ...] = ()
    """Prefixes of such options."""
    old: bool = False
    """The first word may be a bundle without a dash, as in `tar xzf`."""


ANOTHER_PROGRAM: dict[str, Options] = {
    "find": Options(begins=("-delete", "-exec", "-ok", "-fprint", "-fls")),
    "fd": Options("xX", "dtEeSo", word_set("--exec --exec-batch")),
    "sort": Options("oT", "ktS", word_set("--output --compress-program --temporary-directory")),
    "git": Options(
        "O",
        "mCFSGLUut",
        long=word_set(
            "--config-env --exec-path --exec --output --ext-diff --upload-pack --receive-pack --open-files-in-pager "
            "--output-directory --extcmd --template"
        ),
        begins=("-c",),
    ),
    "git rebase": Options("x", "C"),
    "git difftool": Options("x"),
    "git clone": Options("cu"),
    "git archive": Options("o"),
    "git format-patch": Options("o"),
    "rg": Options(long=word_set("--pre --hostname-bin")),
    "tar": Options(
        "IF",
        long=word_set(
            "--to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command --info-script "
            "--new-volume-script"
        ),
        old=True,
    ),
    "sed": Options("if", "el", word_set("--in-place --file")),
    "awk": Options(
        "fiElopdDe", "Fv", word_set("--file --include --load --exec --source --profile --dump-variables")
    ),
    "xxd": Options("r", "cglos"),
    "tree": Options("o"),
    "date": Options("s", "dfrI", word_set("--set")),
    "make": Options("fE", "jlIoWC", word_set("--file --makefile --eval")),
    "go": Options(
        begins=(
            "-exec",
            "--exec",
            "-toolexec",
            "--toolexec",
            "-vettool",
            "--vettool",
            "-ldflags",
            "--ldflags",
            "-overlay",
            "--overlay",
        )
    ),
    "cargo": Options(long=word_set("--config --manifest-path")),
    "npm": Options(long=word_set("--script-shell --node-options --git --call")),
    "rsync": Options("e", "fTMB", word_set("--rsh --rsync-path")),
}
for _other in ("gawk", "mawk"):
    ANOTHER_PROGRAM[_other] = ANOTHER_PROGRAM["awk"]
ANOTHER_PROGRAM["gmake"] = ANOTHER_PROGRAM["make"]


def is_another_program(texts: Sequence[str], named: Sequence[str]) -> bool:
    """Tell whether an option makes the program do more than a rule that names `named` covers."""
    name = texts[0].rpartition("/")[2]
    found = [ANOTHER_PROGRAM.get(name), ANOTHER_PROGRAM.get(" ".join((name, *texts[1:2])))]
    return any(options is not None and _has_one(options, texts, named) for options in found)


def _has_one(options: Options, texts: Sequence[str], named: Sequence[str]) -> bool:
    if options.old and len(texts) > 1 and not texts[1].startswith("-") and _has_letter(options, texts[1]):
        return texts[1] not in named
    return any(text[:1] == "-" and text not in named and _is_one(options, text) for text in texts[1:])


def _is_one(options: Options, text: str) -> bool:
    if text.startswith(options.begins or "\0"):
        return True
    if text.startswith("--"):
        name = text.partition("=")[0]
        return len(name) > 2 and any(one.startswith(name) for one in options.long)
    return _LETTERS.match(text) is not None and _has_letter(options, text[1:])


def _has_letter(options: Options, letters: str) -> bool:
    for letter in letters:
        if letter in options.letters:
            return True
        if letter in options.values:
            return False
    return False
