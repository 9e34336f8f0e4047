"""A second opinion on commands: slow, written without a parser, and about bad words instead of good ones.

It reads character by character what a shell would, plays every way in which the commands of a chain may succeed or fail,
and looks at every word on the real disk. It says "plainly safe" or it does not; it explains nothing.
"""

from __future__ import annotations

import glob
import os
import re
import unicodedata
from itertools import product

from msgspec import Struct


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SAFE = words(
    "arch basename b2sum cat cd cksum cmp column comm command cut date df dirname du echo egrep false "
    "fgrep file find fold free git grep groups head hexdump hostname id jq ls md5sum nl nproc od paste awk diff [ "
    "printf pwd readlink realpath rev rg sed seq sha1sum sha224sum sha256sum sha384sum sha512sum sleep "
    "sort stat strings sum tac tail test tr tree true type uname uniq uptime wc which whoami xxd : python "
    "python3 node npm bun clang cmake deno docker gcc gh java make pip pip3 psql ruby sqlite3 uv"
)
VERSION_ONLY = words(
    "python python3 node npm bun clang cmake deno docker gcc gh java make pip pip3 psql ruby sqlite3 uv"
)
TEXTUAL = words("echo printf basename dirname realpath readlink which type seq tr df : command id sleep")
PATTERN_FIRST = words("grep egrep fgrep rg jq sed awk")
LISTERS = words("cat du echo egrep fgrep grep head ls md5sum sha1sum sha256sum stat tail wc")
BAD: dict[str, str] = {
    "find": r"-(delete|execd|ok|fprint|fls|files0|L$|H$|D|O)",
    "sed": r"-[^-]*[if]|--(in|fi)",
    "awk": r"-[^-Fv]*[fiElopdDe]|--.",
    "diff": r"-[^-]*[lrD]|--(rec|pag|from|to)",
    "sort": r"--(o|te|co|files0|random-so)|-[^-]*[oT]",
    "rg": r"--(pre|hostname|search-z|follow|file$|file=|ignore-f)|-[^-]*[zLf]",
    "grep": r"--(file|deref|exclude-f)|-[^-]*[Rf]",
    "egrep": r"--(file|deref|exclude-f)|-[^-]*[Rf]",
    "fgrep": r"--(file|deref|exclude-f)|-[^-]*[Rf]",
    "git": r"--(output|ext-|textconv$|open|no-index|exec|git-dir|work-tree|config|upload|receive|contents|filters)|-O",
    "tail": r"--(follow|retry|pid)|-[^-]*[fF]",
    "tree": r"--(out|from)|-[^-]*[oRl]",
    "date": r"--(set|file|ref)|-[^-]*[sfr]",
    "file": r"--(comp|files|magic|uncomp)|-[^-]*[CfmzZ]",
    "wc": r"--files0",
    "du": r"--(files0|exclude-f|deref)|-[^-]*[XLD]",
    "xxd": r"-[^-]*r|-[a-z]c",
    "printf": r"-",
    "jq": r"--(from|raw-?file|slurpf|arg|jsona|seq)|-[^-]*[fnL]",
    "md5sum": r"-[^-]*c|--check",
    "sha256sum": r"-[^-]*c|--check",
    "column": r"-[^-]*e$",
    "ls": r"$^",
}
MOST = {"uniq": 1, "xxd": 1, "cmp": 2, "hostname": 0, "true": 0, "false": 0, "pwd": 0, "whoami": 0, "arch": 0}
GIT = words(
    "blame branch cat-file check-ignore count-objects describe diff diff-tree for-each-ref grep log "
    "ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show show-ref status whatchanged "
    "remote reflog stash tag worktree --version version"
)
NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/fd/1", "/dev/fd/2")


class Piece(Struct, frozen=True):
    """A word, or an operator. `bare` is the word with everything that was quoted blotted out."""

    text: str
    bare: str
    operator: bool = False


class Unsafe(Exception):
    pass


def is_plainly_safe(text: str, root: str) -> bool:
    try:
        pieces = scan(text.strip(" \t\n"))
        items = chain(pieces)
        if not items:
            return False
        play(items, root)
    except Unsafe:
        return False
    return True


def scan(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    word = bare = ""
    open_word = False
    at = 0

    def end() -> None:
        nonlocal word, bare, open_word
        if open_word:
            pieces.append(Piece(word, bare))
        word, bare, open_word = "", "", False

    while at < len(text):
        char, after = text[at], text[at + 1 : at + 2]
        if ord(char) < 32 and char not in "\t\n":
            raise Unsafe
        if char == "\\":
            if not after:
                raise Unsafe
            if after == "\n":
                at += 2  # the lines are one, and so are the words
                continue
            word, bare, open_word, at = word + after, bare + "\0", True, at + 2
        elif char == "'":
            close = text.find("'", at + 1)
            if close < 0:
                raise Unsafe
            word, bare, open_word, at = word + text[at + 1 : close], bare + "\0", True, close + 1
        elif char == '"':
            inside, at = double_quoted(text, at + 1)
            word, bare, open_word = word + inside, bare + "\0", True
        elif char in " \t":
            end()
            at += 1
        elif char == "\n":
            end()
            joined = pieces and pieces[-1].operator and pieces[-1].text in ("&&", "||", "|", "|&", ";", "(")
            if pieces and text[at:].strip(" \t\n") and not joined:
                pieces.append(Piece(";", "", operator=True))
            at += 1
        elif char == "#" and not open_word:
            while at < len(text) and text[at] != "\n":
                at += 1
        elif char in ";|&()<>":
            if char in "<>" and bare.endswith("}"):
                raise Unsafe  # it sets a variable to the number of what is opened
            if char in "<>" and open_word and word in ("0", "1", "2") and bare == word:
                word, bare, open_word = "", "", False
            end()
            found = re.compile(r"&&|\|\||\|&|>&[012](?!\w)|>&-|&>>?|>>|>\||[;|()<>]").match(text, at)
            if found is None or found[0] in ("&",):
                raise Unsafe
            pieces.append(Piece(found[0], "", operator=True))
            at = found.end()
        else:
            if char == "$" and after == "?":
                word, bare, open_word, at = word + "0", bare + "\0", True, at + 2
                continue
            if char in "$`" or (ord(char) > 127 and unicodedata.category(char)[0] not in "LNPSM"):
                raise Unsafe
            word, bare, open_word, at = word + char, bare + char, True, at + 1
    end()
    return pieces


def double_quoted(text: str, at: int) -> tuple[str, int]:
    inside = ""
    while at < len(text):
        char, after = text[at], text[at + 1 : at + 2]
        if char == '"':
            return inside, at + 1
        if char == "\\" and after in '"\\$`':
            inside, at = inside + after, at + 2
            continue
        if char == "$" and after == "?":
            inside, at = inside + "0", at + 2
            continue
        if char == "`" or (char == "$" and after not in (*' |)/"\t\n;&', "")):
            raise Unsafe
        inside, at = inside + char, at + 1
    raise Unsafe


Item = tuple[str, object]


def chain(pieces: list[Piece]) -> list[Item]:
    """Commands with what joins them to the one before; what stands in parentheses is a list of its own."""
    items: list[Item] = []
    command: list[Piece] = []
    joint, at = "", 0
    while at < len(pieces):
        piece = pieces[at]
        if piece.operator and piece.text == "(":
            if command:
                raise Unsafe
            close = matching(pieces, at)
            items.append((joint, chain(pieces[at + 1 : close])))
            at, joint = close + 1, "?"
            continue
        if piece.operator and piece.text in (";", "|", "|&", "&&", "||"):
            if command:
                items.append((joint, command))
            elif joint != "?":
                raise Unsafe
            command, joint = list[Piece](), piece.text
        else:
            if joint == "?":
                raise Unsafe
            command.append(piece)
        at += 1
    if command:
        items.append((joint, command))
    elif joint not in ("", "?", ";"):
        raise Unsafe
    return items


def matching(pieces: list[Piece], start: int) -> int:
    depth = 0
    for at in range(start, len(pieces)):
        if pieces[at].operator and pieces[at].text in "()":
            depth += 1 if pieces[at].text == "(" else -1
            if depth == 0:
                return at
    raise Unsafe


def play(items: list[Item], root: str) -> None:
    """Every command succeeds or fails, in every combination."""
    if len(items) > 10:
        raise Unsafe
    for outcomes in product((True, False), repeat=len(items)):
        run_all(items, outcomes, [root], root)


def run_all(items: list[Item], outcomes: tuple[bool, ...], here: list[str], root: str) -> None:
    ok, skipped = True, False
    piped = [joint in ("|", "|&") for joint, _ in items[1:]] + [False]
    for index, ((joint, item), outcome) in enumerate(zip(items, outcomes, strict=True)):
        if joint not in ("|", "|&"):  # a pipe runs as a whole, or not at all
            skipped = (joint == "&&" and not ok) or (joint == "||" and ok)
        if skipped:
            continue
        alone = piped[index] or joint in ("|", "|&")  # a part of a pipe moves nobody else
        if isinstance(item, list) and item and isinstance(item[0], tuple):
            for inner in product((True, False), repeat=len(item)):
                run_all(item, inner, list(here), root)
        else:
            run_one(item, outcome, list(here) if alone else here, root)
        ok = outcome


def run_one(pieces: object, ok: bool, here: list[str], root: str) -> None:
    assert isinstance(pieces, list)
    words: list[Piece] = []
    rest: list[Piece] = list(pieces)
    while rest:
        piece = rest.pop(0)
        if not piece.operator:
            words.append(piece)
        elif piece.text.startswith(">&"):
            continue
        elif not rest or rest[0].operator:
            raise Unsafe
        elif piece.text == "<":
            check_path(rest.pop(0), here[0], root)
        elif rest.pop(0).text not in NOWHERE:
            raise Unsafe
    if not words and pieces:
        return  # only redirections, each looked at above: nothing runs
    while words and words[0].bare == "!":
        words.pop(0)
    check_command(words, ok, here, root)


def check_command(words: list[Piece], ok: bool, here: list[str], root: str) -> None:
    if not words or words[0].bare != words[0].text or words[0].text not in SAFE:
        raise Unsafe
    name, args = words[0].text, words[1:]
    texts = [arg.text for arg in args]
    if "=" in name or any(map(has_braces, args)):
        raise Unsafe
    if any(map(is_pattern_first, args)) and name not in LISTERS:
        raise Unsafe
    if any(arg.bare[:1] == "*" for arg in args) and glob.glob("-*", root_dir=here[0]):
        raise Unsafe
    if any(looks_alike(text) for text in texts):
        raise Unsafe
    if name == "cd":
        move(texts, ok, here, root)
    elif name in VERSION_ONLY:
        if texts not in (["--version"], ["-V"], ["-v"], ["-version"]):
            raise Unsafe
    else:
        check_words(name, args, texts, here[0], root)


def check_words(name: str, args: list[Piece], texts: list[str], here: str, root: str) -> None:
    if any(re.match(BAD.get(name, "$^"), text) for text in texts if text not in ("-", "--")):
        raise Unsafe
    operands = [arg for arg in args if not arg.text.startswith("-") or arg.text == "-"]
    if len(operands) > MOST.get(name, 1000) + sum(text.startswith("-") for text in texts):
        raise Unsafe
    if name == "git":
        names = [text for text in texts if not text.startswith("-") or text == "--version"]
        at = 1 if texts[:1] == ["-C"] else 0
        if {"-c", "-p", "--paginate"} & set(before(texts, names[at:])):
            raise Unsafe  # behind the name of what git does, they are about what is shown
        asked = names[at:] == ["config", "user.name"] or names[at:] == ["config", "user.email"]
        if not names[at:] or (names[at] not in GIT and not asked):
            raise Unsafe
    if name == "find" and "-exec" in texts:
        ran = texts[texts.index("-exec") + 1 :][:1]
        if not ran or ran[0] not in SAFE - {"find", "git", "uniq", "xxd", "cd", "command", *VERSION_ONLY}:
            raise Unsafe
    if name == "printf" and set(
        re.findall(r"%[\W\d]*(\w)", (texts[:1] or ["%n"])[0].replace("%%", ""))
    ) - set("bcdfsqix"):
        raise Unsafe
    if name == "command" and texts[:1] not in (["-v"], ["-V"]):
        raise Unsafe
    if name in ("test", "["):
        check_test(texts if name == "test" else texts[:-1] if texts[-1:] == ["]"] else [])
    if name == "jq" and re.search(r"env|input|import", " ".join(texts), re.IGNORECASE):
        raise Unsafe
    if name in TEXTUAL:
        return
    skipped = operands[0] if name in PATTERN_FIRST and operands else None
    follows = name != "git" or not {"diff", "-C"}.isdisjoint(
        texts
    )  # git takes a link in a repository for what it is
    for arg in args:
        if arg is not skipped:
            check_path(arg, here, root, follows=follows)


def check_test(texts: list[str]) -> None:
    rest = texts[1:] if texts[:1] == ["!"] else texts
    one_file = len(rest) == 2 and re.fullmatch(r"-[defhLrswxnz]", rest[0])
    same = len(rest) == 3 and rest[1] in ("=", "!=")
    counted = len(rest) == 3 and re.fullmatch(r"-[engl][qet]", rest[1]) and (rest[0] + rest[2]).isdigit()
    if not (one_file or same or counted):
        raise Unsafe


def before(texts: list[str], names: list[str]) -> list[str]:
    return texts[: texts.index(names[0])] if names else texts


def check_path(piece: Piece, here: str, root: str, *, follows: bool = True) -> None:
    """Whatever could be a file must lie inside, wherever links lead."""
    text = piece.text
    if text in ("-", *NOWHERE):
        return
    if piece.bare.startswith("~"):
        raise Unsafe
    for path in {text, text.partition("=")[2]} - {""}:
        found = glob.glob(path, root_dir=here) if re.search(r"[*?\[]", piece.bare) else [path]
        if len(found) > 500:
            raise Unsafe
        for one in found:
            lead = os.path.realpath if follows else os.path.normpath
            real = lead(os.path.join(here, one)) if "\0" not in one else "/"
            exists = os.path.lexists(os.path.join(here, one)) if "\0" not in one else True
            if (exists or one.startswith("/") or ".." in one.split("/")) and not inside(real, root):
                raise Unsafe


def move(texts: list[str], ok: bool, here: list[str], root: str) -> None:
    if len(texts) != 1 or texts[0].startswith(("-", "~")) or not texts[0]:
        raise Unsafe
    real = os.path.realpath(os.path.join(here[0], texts[0]))
    if not inside(real, root):
        raise Unsafe
    if ok:
        here[0] = real


def inside(real: str, root: str) -> bool:
    return real == root or real.startswith(root + "/")


def is_pattern_first(piece: Piece) -> bool:
    return piece.bare[:1] in ("*", "?", "[")


def has_braces(piece: Piece) -> bool:
    return bool(re.search(r"[{}]", re.sub(r"\{[\w^\-]*\}", "", piece.bare)))


def looks_alike(text: str) -> bool:
    """Wide letters and foreign dashes; the rest of Unicode stands for itself in a word that is no program."""
    if text.isascii() or re.search(r"\s", text):
        return False
    dashes = re.sub(r"[‐-―−﹣－]", "-", text)
    return unicodedata.normalize("NFKC", dashes).isascii()
