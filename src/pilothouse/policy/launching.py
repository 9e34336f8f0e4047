"""Programs that run other programs: which of a command's words may be run, read as a command, or stand for one.

For rules that forbid, so generous: a program that is not known may run every word that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pilothouse.policy.look_alikes import fold
from pilothouse.policy.open_programs import INTERPRETERS, plain_name
from pilothouse.policy.reader_table import GIT, READERS, word_set

MAX_WORDS = 200
"""Of a command, that a rule looks at."""
MAX_ROW = 16
"""Words among which a launcher is looked for that another one runs."""
LAUNCHERS = word_set(
    "sudo doas su env nice ionice nohup timeout time command builtin exec stdbuf setsid chroot unshare runuser flock "
    "coproc watch trap eval source . xargs parallel sh bash dash zsh ksh mksh ash fish busybox systemd-run chronic"
)
"""Programs that run the program that they are told."""
FEEDING = word_set("xargs parallel")
"""Those that add to its words what they read."""
_KEEPS_WORDS = frozenset(READERS) | word_set(
    "echo find test mkdir touch cp mv rm ln chmod chown tee pytest ruff mypy black tsc eslint cd"
)
"""Programs that run none of the words that they are given, options apart."""
_RUNNING_OPTION = re.compile(
    r"-(exec|execdir|ok|okdir)$|--(pre|hostname-bin|co[a-z\-]*|to-command|up[a-z\-]*|rece[a-z\-]*|exe[a-z\-]*|ope[a-z\-]*)(=|$)"
    r"|-[A-Za-z]*O|\+[^!]{0,20}!"
)
_GIT_WORDS = frozenset(GIT) | word_set(
    "add commit push pull fetch checkout switch merge reset tag stash rm mv clean"
)
_SHELLS = word_set(
    "sh bash dash zsh ksh mksh ash fish csh tcsh pdksh eval source . xargs parallel busybox su ssh exec trap watch script"
)
_NO_PROGRAM = re.compile(r"[\d.]+[smhd]?|\w+=[^*]*")
_FEEDING_OPTION = re.compile(_NO_PROGRAM.pattern + r"|-[jnPLsId]\S+|-[0rtx]+|--[\w\-]+=.*")
"""Of xargs and parallel: options that no value follows."""
_REAL_SHELLS = word_set("sh bash dash zsh ksh mksh ash fish csh tcsh pdksh su busybox")
_TAKES_JOBS = word_set("at batch crontab ed red")
_TAKES_TEXT = word_set(
    "sqlite3 psql mysql mariadb m4 gdb lldb ftp lftp vi vim ex nvim bc dc gnuplot expect tmux"
)
_MAKEFILE = word_set("-f --file --makefile")
_MAKES_INPUT = re.compile(r"-|/dev/(stdin|fd/0)|-\w*f-|--(make)?file=(-|/dev/(stdin|fd/0))")
_INPUT = word_set("- 0 /dev/stdin /dev/fd/0 /proc/self/fd/0") | {
    f"/dev/fd/{number}" for number in range(3, 64)
}
"""The grammar takes the `0` of `0< file` for a word."""
_CODE = re.compile(r"-[A-Za-z]*[cemEprxh]|--(eval|print|check|version|help|exec|command)\b")
"""Of interpreters: options with which they do not run what they read."""
_LONE = re.compile(r"-[uBsSIqviOdbP0]+|--?[a-z\-]+=.*")
"""Of interpreters: options that no value follows."""
_LETTERS = re.compile(r"-[A-Za-z]+$")
_ONLY_LOOKS = word_set("-n --version --help")
_SHELL_VALUES = word_set("-o +o -O +O --rcfile --init-file")
_SPLITS = re.compile(r"(?:-[a-zA-Z0]*?S|--s[a-z\-]*=)(.+)", re.DOTALL)
"""Of env: a whole command in one word."""

Words = tuple[str, ...]


def runs_words(texts: Words) -> bool:
    if not texts:
        return False
    name = texts[0].rpartition("/")[2]
    if any(map(_RUNNING_OPTION.match, [text for text in texts if text[:1] in ("-", "+")])):
        return True
    if name == "git":
        return len(texts) < 2 or texts[1] not in _GIT_WORDS
    return name not in _KEEPS_WORDS


def has_shell(texts: Words) -> bool:
    if not _SHELLS.isdisjoint(texts) or interpreter_at(texts) is not None:
        return True
    if not all(map(str.isascii, texts)):
        texts = tuple(map(fold, texts))
    return not _SHELLS.isdisjoint([text.rpartition("/")[2] for text in texts])


def is_fed(texts: Words) -> bool:
    """Whether it runs what it reads: a table of jobs, a makefile or an editor's commands on its input."""
    names = [text.rpartition("/")[2] for text in (texts if texts and texts[0] in LAUNCHERS else texts[:1])]
    if "make" in names or "gmake" in names:
        # The grammar drops a `-` that stands before `<<`.
        return texts[-1] in _MAKEFILE or any(map(_MAKES_INPUT.fullmatch, texts))
    return not _TAKES_JOBS.isdisjoint(names)


def takes_text(texts: Words) -> bool:
    """Whether some of what it reads may be a command: then a text that stands there is looked at; what does not is its own."""
    return bool(texts) and not _TAKES_TEXT.isdisjoint([text.rpartition("/")[2] for text in texts[:MAX_ROW]])


def reads_commands(texts: Words) -> bool:
    """A shell that is given no file and no text runs what it reads."""
    if texts and texts[0] in ("source", "."):
        return texts[1:2] != () and texts[1] in _INPUT
    shell = shell_at(texts)
    if shell is None:
        interpreter = interpreter_at(texts)
        return interpreter is not None and _reads_program(texts[interpreter + 1 :])
    return _reads_on(texts[shell:])


def interpreter_at(texts: Words) -> int | None:
    """Where one stands that is run, first or behind a launcher."""
    if not texts or is_interpreter(texts[0]):
        return 0 if texts else None
    if texts[0].rpartition("/")[2] not in LAUNCHERS:
        return None
    return next((at for at, text in enumerate(texts[:MAX_ROW]) if is_interpreter(text)), None)


def is_interpreter(program: str) -> bool:
    """No shell, but one that runs programs of its own language."""
    name = plain_name(program)
    return name in INTERPRETERS and name not in _REAL_SHELLS


def _reads_program(args: Words) -> bool:
    value = False
    for text in args:
        if text in _INPUT:
            return True
        if value:
            value = False
        elif not text.startswith("-") or _CODE.match(text):
            return False
        else:
            value = not _LONE.fullmatch(text)
    return True


def _reads_on(texts: Words) -> bool:
    """`texts` begins with the shell."""
    value = False
    for text in texts[1:]:
        if value or text in _REAL_SHELLS:
            value = False
        elif text in _INPUT or (_LETTERS.match(text) and "s" in text and texts[0] != "su"):
            return True
        elif text in _ONLY_LOOKS or (_LETTERS.match(text) and "c" in text):
            return False
        elif text in _SHELL_VALUES:
            value = True
        elif not text.startswith(("-", "+")) and texts[0].rpartition("/")[2] != "su":
            return False
    return True


def runs_text(texts: Words) -> bool:
    """Whether a word of it is run as a command's text."""
    if texts and texts[0] in ("eval", "trap"):
        return True
    shell = shell_at(texts)
    return shell is not None and any(re.match(r"-\w*c", text) for text in texts[shell + 1 :])


def shell_at(texts: Words) -> int | None:
    if not texts:
        return None
    name = texts[0].rpartition("/")[2]
    if name in _REAL_SHELLS:
        return 0
    if name not in LAUNCHERS:
        return None
    return next((at for at, text in enumerate(texts) if text.rpartition("/")[2] in _REAL_SHELLS), None)


def parallel_command(texts: Words) -> tuple[Words, Words]:
    """What parallel runs, each word for itself, and what it is given for it."""
    marks = [at for at, text in enumerate(texts) if text.startswith(":::")]
    end = marks[0] if marks else len(texts)
    given = tuple(text for text in texts[end:] if not text.startswith(":::"))
    return tuple(" ".join(texts[:end]).split()), given


def placeholders(texts: Words) -> Iterator[str]:
    """What xargs is told to put its input in place of."""
    for at, text in enumerate(texts):
        if text.startswith("-I"):
            yield text[2:] or "".join(texts[at + 1 : at + 2])
        elif text.startswith("--replace="):
            yield text.partition("=")[2]


def launched(words: Words) -> Iterator[str]:
    """Where a launcher's program may stand: behind its options, a duration, and what it sets; launchers in a row too."""
    plain = _FEEDING_OPTION if words[0].rpartition("/")[2] in FEEDING else _NO_PROGRAM
    said = tuple(word for word in words[1 : MAX_WORDS + 1] if not plain.fullmatch(word))
    starts, seen = [0], set[int]()
    while starts:
        start = starts.pop()
        shell = (said[start - 1] if start else words[0]).rpartition("/")[2] in _REAL_SHELLS
        for at in reachable(said, start):
            if at not in seen:
                seen.add(at)
                yield said[at]
                if shell and at > start and said[at - 1] == "-c" and not said[at].startswith("-"):
                    break  # the text that it runs: what follows are only values for it
                if said[at].rpartition("/")[2] in LAUNCHERS and len(seen) <= MAX_ROW:
                    starts.append(at + 1)


def env_texts(texts: Words) -> Iterator[Words]:
    """`env -S` takes a whole command in one word, behind other options too."""
    if any(text.rpartition("/")[2] == "env" for text in texts):
        for at, text in enumerate(texts):
            if found := _SPLITS.fullmatch(text):
                yield (*re.split(r"[\s'\"]+|\\_", found[1].strip("'\" ")), *texts[at + 1 : at + MAX_WORDS])


def git_settings(texts: Words) -> Iterator[tuple[str, str]]:
    """What `-c` and `git config` set."""
    config = texts.index("config") if "config" in texts else len(texts)
    for at, text in enumerate(texts[1:], 1):
        key, _, value = text.partition("=")
        if texts[at - 1] == "-c":
            yield key.casefold(), value
        elif at > config:
            yield key.casefold(), " ".join(texts[at + 1 : at + 1 + MAX_WORDS])


def git_aliases(texts: Words) -> Iterator[Words]:
    """What git would make of its own aliases: each stands for a command, with all that follows."""
    for key, value in git_settings(texts):
        if key.startswith("alias."):
            said = value.removeprefix("!").split()
            yield (*(() if value.startswith("!") else texts[:1]), *said, *texts[1:MAX_WORDS])


def reachable(words: Sequence[str], start: int) -> Iterator[int]:
    after_option = False
    for at in range(start, len(words)):
        yield at
        if words[at].startswith("-"):
            after_option = True
        elif after_option:
            after_option = False
        else:
            return
