"""Each tool alone, on real files and processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.engines.native.files import BadFile, open_plain, real_path, replace_file
from pilothouse.engines.native.history import History
from pilothouse.engines.native.outputs import Outputs
from pilothouse.engines.native.skills import Skill, find_skills, parse_skill
from pilothouse.engines.native.toolbox import BUILT_IN, LANES
from pilothouse.engines.native.tools.glob import GlobPattern
from pilothouse.engines.native.tools.tool import Output, ToolError, Workbench, input_schema
from pilothouse.engines.native.tools.webfetch import plain_text
from pilothouse.processes import Launcher

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    folder = tmp_path / "w"
    folder.mkdir()
    history = History(tmp_path / "session")
    environment = {"PATH": os.environ["PATH"]}
    return Workbench(str(folder), environment, Launcher(), False, history, Outputs(tmp_path / "outputs"))


async def use(bench: Workbench, name: str, /, **given: Any) -> Output:
    tool = next(tool for tool in BUILT_IN if tool.name == name)
    if tool.path_key in given:
        given[tool.path_key] = real_path(given[tool.path_key], bench.workspace)
    return await tool.run(msgspec.convert(given, tool.input), bench)


def test_a_description_is_one_short_sentence_and_a_schema_has_no_references() -> None:
    for tool in (*BUILT_IN, *LANES):
        assert len(tool.description) <= 120
        schema = input_schema(tool.input)
        assert schema["type"] == "object"
        assert "$ref" not in str(schema)


async def test_read_shows_a_part_and_says_how_to_go_on(bench: Workbench) -> None:
    Path(bench.workspace, "a").write_text("".join(f"line {n}\n" for n in range(10)) + "x" * 3000)
    text = (await use(bench, "read", file_path="a", offset=3, limit=2)).text
    assert text.splitlines()[:3] == [
        "    4  line 3",
        "    5  line 4",
        "[more lines follow; go on with offset=5]",
    ]
    last = (await use(bench, "read", file_path="a", offset=10)).text.splitlines()[0]
    assert len(last) == len("   11  ") + 2001


async def test_read_stops_at_its_limit_of_bytes(bench: Workbench) -> None:
    Path(bench.workspace, "a").write_text("é" * 500 + "\n" + ("y" * 999 + "\n") * 100)
    text = (await use(bench, "read", file_path="a")).text
    assert len(text.encode()) < 52 * 1024
    assert "go on with offset=" in text


@pytest.mark.parametrize("name", ["folder", "pipe", "binary", "none", "/dev/zero"])
async def test_read_refuses_what_is_no_text_file(bench: Workbench, name: str) -> None:
    os.mkdir(Path(bench.workspace, "folder"))
    os.mkfifo(Path(bench.workspace, "pipe"))
    Path(bench.workspace, "binary").write_bytes(b"a\0b")
    with pytest.raises(ToolError):
        await use(bench, "read", file_path=name)


EDITS = Path(__file__).parent / "edits"
"""Each case is a folder: `before` and `call.json`, then `after`, or the words of the `error`."""


@pytest.mark.parametrize("name", sorted(os.listdir(EDITS)))
async def test_an_edit_gives_the_file_of_its_case(bench: Workbench, name: str) -> None:
    case, path = EDITS / name, Path(bench.workspace, "file")
    path.write_bytes((case / "before").read_bytes())
    path.chmod(0o640)
    given = json.loads((case / "call.json").read_text("utf-8"))
    if (case / "error").exists():
        with pytest.raises(ToolError, match=(case / "error").read_text().strip()):
            await use(bench, "edit", file_path="file", **given)
        after = case / "before"
    else:
        await use(bench, "edit", file_path="file", **given)
        after = case / "after"
    assert path.read_bytes() == after.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o640


async def test_equal_strings_are_no_error_and_a_changed_file_is_not_edited(bench: Workbench) -> None:
    path = Path(bench.workspace, "a")
    path.write_text("one")
    shown = (await use(bench, "read", file_path="a")).text
    known = shown.partition("content_sha256=")[2].rstrip("]")
    same = await use(bench, "edit", file_path="a", old_string="one", new_string="one", expected_hash=known)
    assert same.ok
    path.write_text("one more")
    for name, given in (("edit", {"old_string": "one", "new_string": "1"}), ("write", {"content": "x"})):
        with pytest.raises(ToolError, match="has changed"):
            await use(bench, name, file_path="a", expected_hash=known, **given)
    assert path.read_text() == "one more"


async def test_write_makes_folders_and_leaves_nothing_else(bench: Workbench) -> None:
    await use(bench, "write", file_path="new/deep/a.txt", content="hé")
    assert Path(bench.workspace, "new/deep/a.txt").read_text() == "hé"
    assert os.listdir(Path(bench.workspace, "new/deep")) == ["a.txt"]


def test_a_path_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "w"
    root.mkdir()
    (root / "up").symlink_to("..")
    (root / "dangling").symlink_to("/nowhere/at/all")
    assert real_path("up/secret", str(root)) == str(root.parent / "secret")
    assert real_path("a/../../secret", str(root)) == str(root.parent / "secret")
    assert real_path("dangling", str(root)) == "/nowhere/at/all"
    assert real_path("/proc/self/root/etc", str(root)) == "/etc"
    with pytest.raises(BadFile):
        real_path("a\0b", str(root))


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_link_that_appears_after_the_check_is_not_followed(tmp_path: Path, swapped: str) -> None:
    root = tmp_path.resolve()
    (root / "w/inner").mkdir(parents=True)
    (root / "out").mkdir()
    (root / "out/a").write_text("secret")
    (root / "w/inner/a").write_text("mine")
    real = real_path("inner/a", str(root / "w"))
    if swapped == "file":
        os.unlink(real)
        os.symlink(root / "out/a", real)
    else:
        os.rename(root / "w/inner", root / "w/old")
        os.symlink(root / "out", root / "w/inner")
    with pytest.raises(BadFile), open_plain(real) as file:
        file.read()
    with pytest.raises(BadFile):
        replace_file(real, b"changed")
    assert (root / "out/a").read_text() == "secret"


async def test_glob_follows_no_link_that_appears_after_the_check(bench: Workbench, tmp_path: Path) -> None:
    root, out = Path(bench.workspace), tmp_path / "out"
    (root / "inner").mkdir()
    (root / "inner/mine").touch()
    out.mkdir()
    (out / "secret").touch()
    (root / "link").symlink_to(out)
    assert (await use(bench, "glob", pattern="**", path=".")).text == f"{root}/inner/mine"
    tool = next(tool for tool in BUILT_IN if tool.name == "glob")
    judged = msgspec.convert({"pattern": "**", "path": real_path("inner", str(root))}, tool.input)
    os.rename(root / "inner", root / "old")
    (root / "inner").symlink_to(out)
    with pytest.raises(ToolError, match="no folder"):
        await tool.run(judged, bench)


async def test_glob_does_not_go_too_deep(bench: Workbench) -> None:
    for depth in (99, 150):
        folder = Path(bench.workspace, *["d"] * depth)
        folder.mkdir(parents=True)
        (folder / "file").touch()
    found = (await use(bench, "glob", pattern="**/file", path=".")).text.splitlines()
    assert found == [str(Path(bench.workspace, *["d"] * 99, "file"))]


async def test_bash_returns_both_outputs_the_exit_code_and_has_no_input(bench: Workbench) -> None:
    output = await use(bench, "bash", command="echo out; echo err >&2; cat; pwd; exit 3")
    assert not output.ok
    assert output.text.splitlines() == ["out", "err", bench.workspace, "[exit code 3]"]


@pytest.mark.parametrize("size", [3_000_000, 12_000_000])
async def test_bash_says_what_it_dropped_of_long_lines(bench: Workbench, size: int) -> None:
    output = await use(bench, "bash", command=f"head -c {size} /dev/zero | tr '\\0' x; echo; echo end")
    told = f"[{size + 5:,} bytes were printed; those after the first 10,485,760 were dropped]\n"
    whole = f"{'x' * size}\nend"
    expected = whole if size < 10_485_760 else told + whole[:10_485_760]
    assert (len(output.text), output.text == expected) == (len(expected), True)


async def test_bash_does_not_wait_for_what_it_left_running(bench: Workbench) -> None:
    output = await use(bench, "bash", command="sleep 600 & echo on")
    assert output.text == "on"


async def test_bash_is_stopped_at_its_deadline(bench: Workbench) -> None:
    output = await use(bench, "bash", command="echo a; sleep 600", timeout=0.2)
    assert not output.ok
    assert output.text.splitlines() == ["a", "[stopped after 0.2 seconds]"]


async def test_grep_and_glob_find_files(bench: Workbench) -> None:
    root = Path(bench.workspace)
    (root / "src").mkdir()
    (root / "src/a.py").write_text("first\nneedle here\n")
    (root / "b.txt").write_text("needle\n")
    found = (await use(bench, "grep", pattern="need.e", path=".")).text.splitlines()
    assert sorted(found) == [f"{root}/b.txt:1:needle", f"{root}/src/a.py:2:needle here"]
    one = await use(bench, "grep", pattern="NEEDLE", path="src/a.py", ignore_case=True)
    assert one.text == f"{root}/src/a.py:2:needle here"
    assert (await use(bench, "grep", pattern="nothing", path=".")).text == "No matches."
    assert (await use(bench, "glob", pattern="**/*.{py,ts}", path=".")).text == f"{root}/src/a.py"
    with pytest.raises(ToolError):
        await use(bench, "grep", pattern="x", path="missing")


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "x/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("src/**", "src/a/b", True),
        ("src/**", "other/a", False),
        ("[ab].txt", "a.txt", True),
        ("[!ab].txt", "a.txt", False),
        ("{a,b}/*.ts", "b/x.ts", True),
        ("a?c", "abc", True),
        ("*a*a*a*a*a*a*a*a*b", "a" * 200, False),
    ],
)
def test_a_glob_matches_in_linear_time(pattern: str, name: str, matches: bool) -> None:
    assert GlobPattern(pattern).matches(name) is matches


async def test_an_image_is_kept_for_the_model_and_a_false_one_refused(bench: Workbench) -> None:
    Path(bench.workspace, "a.png").write_bytes(b"\x89PNG\r\n\x1a\n123")
    Path(bench.workspace, "b.png").write_text("no image")
    (image,) = (await use(bench, "view_image", file_path="a.png")).images
    assert bench.history.image(image) == b"\x89PNG\r\n\x1a\n123"
    with pytest.raises(ToolError, match="is not a PNG"):
        await use(bench, "view_image", file_path="b.png")


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "https://localhost/", "file:///etc/passwd", "nonsense"])
async def test_webfetch_reaches_no_private_address(bench: Workbench, url: str) -> None:
    with pytest.raises(ToolError):
        await use(bench, "webfetch", url=url)


def test_a_page_becomes_its_text() -> None:
    page = "<!doctype html><html><style>x{}</style><h1>Title</h1><p>One <b>two</b></p><script>bad()</script>"
    assert plain_text(page) == "Title\nOne two"
    assert plain_text('{"a": "<b>"}') == '{"a": "<b>"}'


SKILL = "---\nname: {name}\ndescription: {description}\n---\n\nDo it well.\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SKILL.format(name="tidy", description="Tidies: all of it"), ""),
        (SKILL.format(name="tidy", description='"quoted text"'), ""),
        (SKILL.format(name="tidy", description=">\n  folded\n  text"), ""),
        (SKILL.format(name="Tidy", description="x"), "lower-case"),
        (SKILL.format(name="other", description="x"), "not that of its folder"),
        (SKILL.format(name="tidy", description=""), "0 characters"),
        (SKILL.format(name="tidy", description="x" * 1025), "1025 characters"),
        ("no front matter", "no front matter"),
    ],
)
def test_a_skill_is_read_or_its_problem_named(text: str, problem: str) -> None:
    found = parse_skill(text, "/s/tidy/SKILL.md")
    assert isinstance(found, Skill) is not bool(problem)
    assert problem in str(found)


async def test_a_skill_is_loaded_once_until_it_changes(bench: Workbench, tmp_path: Path) -> None:
    path = tmp_path.resolve() / ".agents/skills/tidy/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(SKILL.format(name="tidy", description="Tidies up"))
    skills, problems = find_skills([str(tmp_path.resolve())])
    assert [skill.name for skill in skills] == ["tidy"] and not problems
    bench = msgspec.structs.replace(bench, skills=skills)
    assert "tidy: Tidies up" in (await use(bench, "skill_search", query="tidies")).text
    assert "Do it well." in (await use(bench, "skill_load", name="tidy")).text
    assert "already" in (await use(bench, "skill_load", name="tidy")).text
    os.utime(path, ns=(1, 1))
    assert "Do it well." in (await use(bench, "skill_load", name="tidy")).text
