"""No text is ever allowed by itself unless a second opinion agrees, and unless a real shell leaves everything as it was."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from tests.policy.oracle import SAFE, is_plainly_safe
from tests.policy.plan import Plan
from tests.policy.test_corpus import CORPUS

VOCABULARY = """
ls cat git status diff log show rg grep find sort head tail wc echo cd test sed -n 1,5p -n -l -r -5
--stat -- - foo README.md src src/app.py tests link_out link_file link_in dangling .. .
../secret.txt /etc/passwd ~ ~/.ssh * src/*.py -name '*.py' "a b" 'a b' a\\ b -exec -delete -o out.txt
--output=out.txt -c --pre rm touch PWNED sh bash eval xargs env sudo X=1 {} \\; + 5 HEAD @{u} HEAD~1
uniq xxd tree date jq . deep printf -v true
"""
WORDS = [*VOCABULARY.split(), "'a b'", '"a b"', "a\\ b"]
JOINTS = [
    " ",
    " ",
    " ",
    " && ",
    " || ",
    "; ",
    " | ",
    " |& ",
    " & ",
    "\n",
    "",
    ";",
    "|",
    " > ",
    " >> ",
    " < ",
    " 2>&1 ",
]
JOINTS += [
    " >/dev/null ",
    " 2>/dev/null ",
    " $(",
    ") ",
    "`",
    " <(",
    "(",
    ")",
    " <<EOF\n",
    "\\",
    "'",
    '"',
    "$",
    "${",
    "}",
    "#",
]
JOINTS += ["!", "\t", "\r", "\0", "\u00a0", "\u2014", "\u200b", "ｒ", "\\\n", "=", "~"]

fragments = st.lists(
    st.tuples(
        st.sampled_from(WORDS),
        st.one_of(st.sampled_from([" ", " ", " && ", " | ", "; "]), st.sampled_from(JOINTS)),
    ),
    min_size=1,
    max_size=10,
).map(lambda pairs: "".join(word + joint for word, joint in pairs))
commands = st.sampled_from([line.command for line in CORPUS])
harmless = st.sampled_from([line.command for line in CORPUS if line.outcome == "allow"])
spliced = st.tuples(commands, st.sampled_from(JOINTS), commands).map("".join)


@st.composite
def edited(draw: st.DrawFn, known: st.SearchStrategy[str] = commands) -> str:
    """A known command with a few characters put in, taken out or changed."""
    text = draw(known)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        put = draw(st.one_of(st.sampled_from(JOINTS), st.characters(), st.sampled_from(WORDS), st.just("")))
        text = text[:at] + put + text[at + draw(st.integers(0, 2)) :]
    return text


texts = st.one_of(
    fragments,
    spliced,
    edited(),
    st.text(max_size=60),
    st.binary(max_size=60).map(lambda b: b.decode("latin-1")),
)
anything = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=300)


@anything
@given(text=texts)
@example(text="ls\nrm a")
@example(text="find . > /dev/null -delete")
@example(text="git log --abbrev --output=x")
@example(text="git status&&git cat-file -p")
@example(text="git log -p -1")
@example(text="git -p log")
@example(text="<0")
@example(text="git status link_out")
@example(text="sort README.md -\\\nofile")
@example(text="cd src&&ls|cd deep&&cat ..")
def test_what_is_allowed_by_itself_is_plainly_safe(plan: Plan, text: str) -> None:
    if plan.rule(text).outcome == "allow":
        assert is_plainly_safe(text, str(plan.root)), text


@anything
@given(text=texts)
def test_any_text_gets_a_ruling_and_a_reason(plan: Plan, text: str) -> None:
    ruling = plan.rule(text, ["deny command rm", "ask path .env", "allow command make"])
    assert ruling.rule
    assert not ruling.offers or ruling.outcome == "ask"


@anything
@given(raw=st.binary(max_size=80))
def test_bytes_that_are_no_text_are_never_allowed(plan: Plan, raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    assume(not text.isascii())
    ruling = plan.rule(text)
    if any("\udc80" <= char <= "\udcff" for char in text):
        assert ruling.outcome == "ask"


def tree_of(root: Path) -> list[tuple[str, str, bytes | str]]:
    found: list[tuple[str, str, bytes | str]] = []
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder, name)
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
            found.append((str(path), oct(path.lstat().st_mode), content))
    return sorted(found)


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only the programs that are believed to read; whatever else is called leaves its name."""
    folder = tmp_path_factory.mktemp("toolbox")
    for name in SAFE - {"docker", "make", "uv", "pip", "pip3", "gh"}:
        real = next((p for d in ("/usr/bin", "/bin") if os.access(p := f"{d}/{name}", os.X_OK)), None)
        if real:
            (folder / name).symlink_to(real)
    return folder


STARTER = 'command_not_found_handle() { "$TOOLS/mkdir" -p "$STRANGERS/${1//\\//_}"; return 127; }\neval "$COMMAND"\n'


def run_shell(environment: dict[str, str], folder: Path) -> bytes:
    """What it said until it ended, or until it had long enough: a slow machine proves nothing about a command."""
    command = ["/bin/bash", "-c", STARTER]
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=100,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as error:
        return error.stdout or b""


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
@given(
    text=st.one_of(
        harmless,
        edited(harmless),
        st.tuples(harmless, st.sampled_from([" && ", "; ", " | ", " || ", "\n", " "]), harmless).map("".join),
    )
)
def test_a_real_shell_changes_nothing_and_tells_nothing_from_outside(
    plan: Plan, toolbox: Path, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    assume(plan.rule(text).outcome == "allow")
    assume("sleep" not in text and "seq" not in text)  # a digit more, and they go on for hours
    strangers = tmp_path_factory.getbasetemp() / "strangers"
    before = tree_of(plan.root.parent)
    environment = {
        "PATH": str(toolbox),
        "HOME": str(plan.home),
        "COMMAND": text,
        "STRANGERS": str(strangers),
        "TOOLS": "/bin",
        "GIT_CEILING_DIRECTORIES": str(plan.root.parent),
    }
    said = run_shell(environment, plan.root)
    assert tree_of(plan.root.parent) == before
    assert {path.name for path in strangers.glob("*")} <= SAFE
    assert b"secret" not in said.replace(b"secret.txt", b"") and b"root:" not in said


MOVES = [
    "cd src",
    "cd links",
    "cd deep",
    "cd nothing",
    "(cd links && ls)",
    "! cd links",
    "cd src/deep",
    "cd ../links",
]
LOOKS = ["ls", "pwd", "cat nothing", "head -1 README.md", "! ls", "grep -q x README.md", "cat told"]
STREAMS = ["", "", " 2>&1", " 2>/dev/null", " >/dev/null", " < README.md"]
walks = st.lists(
    st.tuples(
        st.sampled_from(MOVES) | st.sampled_from(LOOKS),
        st.sampled_from(STREAMS),
        st.sampled_from([" && ", " || ", "; ", " | ", " |& "]),
    ),
    min_size=1,
    max_size=6,
).map(lambda steps: "".join("".join(step) for step in steps) + "cat told")


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=100)
@given(text=walks)
@example(text="cd links && ls 2>&1 | cat; cat told")
@example(text="ls | cat | cat && cd links; cat told")
@example(text="! cd links || cat told")
def test_a_real_shell_is_in_the_folder_that_it_is_thought_to_be_in(plan: Plan, text: str) -> None:
    """In one of the folders a name leads out of the workspace, in the others it leads to nothing."""
    if plan.rule(text).outcome == "allow":
        said = run_shell({"PATH": "/usr/bin:/bin", "COMMAND": text}, plan.root)
        assert b"secret" not in said, text
