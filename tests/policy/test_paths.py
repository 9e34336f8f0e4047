"""Paths are followed to where they lead: links, chains of links, dangling ones; and loops have no answer."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.plan import Plan

from pilothouse.policy.paths import Filesystem, WorkspacePaths


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def test_a_path_leads_where_the_system_says(root: Path) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    (root / "twice").symlink_to("link")
    (root / "away").symlink_to("/etc")
    (root / "dangling").symlink_to("/nowhere/at/all")
    (root / "half").symlink_to("dangling/more")
    ground = Filesystem(str(root / "home"))
    for path in (
        "real",
        "link/x",
        "twice/../y",
        "away/passwd",
        "dangling",
        "half",
        "new/file",
        "./a//b/",
        "..",
        "away/..",
    ):
        assert ground.resolve(str(root), path) == os.path.realpath(root / path), path
    assert ground.resolve(str(root), "half") == "/nowhere/at/all/more"


def test_the_home_folder_is_known_and_nobody_elses(root: Path) -> None:
    ground = Filesystem(str(root))
    assert ground.resolve("/", "~/x") == str(root / "x")
    assert ground.resolve("/", "~") == str(root)
    assert ground.resolve("/", "~root/x") is None


def test_a_loop_has_no_answer(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert Filesystem().resolve(str(root), "a/x") is None


def test_a_name_that_no_system_takes_has_no_answer(root: Path) -> None:
    assert Filesystem().resolve(str(root), "a\0b") is None


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from(["src", "link_in", "link_dir_up", "..", ".", "deep", "dangling", "link_out", "x"]),
        max_size=6,
    )
)
def test_any_path_leads_where_the_system_says(plan: Plan, parts: list[str]) -> None:
    path = "/".join(parts)
    assert plan.env.filesystem.resolve(str(plan.root), path) == os.path.realpath(plan.root / path)


NAMES = ["src", "link_in", "link_dir_up", "..", ".", "deep", "dangling", "link_out", "app.py", "x"]
NAMES += [f"new{number}" for number in range(10)]


@settings(max_examples=100, deadline=None)
@given(
    paths=st.lists(st.lists(st.sampled_from(NAMES), max_size=4).map("/".join), min_size=10, max_size=60),
    folder=st.sampled_from(["", "src", "src/deep", "links", "nowhere"]),
)
def test_many_paths_of_one_decision_lead_where_each_leads_alone(
    plan: Plan, paths: list[str], folder: str
) -> None:
    places = WorkspacePaths(str(plan.root), (), plan.env.filesystem)
    here = str(plan.root / folder)
    for path in paths:
        assert places.resolve(here, path) == os.path.realpath(os.path.join(here, path)), path


def test_a_link_among_many_names_is_followed(plan: Plan) -> None:
    names = " ".join(f"src/new{number}.py" for number in range(20))
    assert plan.rule(f"cat {names}").outcome == "allow"
    (plan.root / "src" / "new19.py").symlink_to("/etc/passwd")
    try:
        assert plan.rule(f"cat {names}").outcome == "ask"
        assert plan.rule(f"python {names}", ["deny path /etc/passwd"], "full-access").outcome == "deny"
    finally:
        (plan.root / "src" / "new19.py").unlink()


def test_patterns_are_expanded_within_a_bound(root: Path) -> None:
    ground = Filesystem()
    for number in range(600):
        (root / f"f{number}").touch()
    assert set(ground.expand(str(root), "f59*") or ()) == {"f59", *(f"f59{digit}" for digit in range(10))}
    assert set(ground.expand(str(root), "f5") or ()) == {"f5"}
    assert ground.expand(str(root), "f*") is None
    assert ground.expand(str(root), "*/*/*") is None
    assert ground.expand(str(root), "none*") == ()
    for pattern in ("f?", "f[12]", "f[^1]", "**/f1", "@(f1)", "é*"):
        assert ground.expand(str(root), pattern) is None, "shells differ about it"


def test_a_pattern_that_means_too_many_files_is_asked_where_a_rule_could_mean_one(plan: Plan) -> None:
    crowd = plan.root / "crowd"
    crowd.mkdir()
    try:
        for number in range(501):
            (crowd / f"f{number}").touch()
        for rule in ("deny path crowd/f7", "deny path f7", "ask read crowd/**"):
            assert plan.rule("cp crowd/* /tmp/x", [rule], "full-access").outcome != "allow"
        for rule in ("deny path src/f7", "deny path ~/.ssh/**", "deny command rm"):
            assert plan.rule("cp crowd/* /tmp/x", [rule], "full-access").outcome == "allow"
    finally:
        shutil.rmtree(crowd)


def test_a_folder_that_poses_as_the_inside_of_a_repository_is_seen(root: Path, plan: Plan) -> None:
    assert not Filesystem().is_git_dir(str(root))
    trap = plan.root / "src" / "trap"
    for name in ("objects", "refs"):
        (trap / name).mkdir(parents=True)
    (trap / "HEAD").write_text("ref: refs/heads/main\n")
    try:
        assert Filesystem().is_git_dir(str(trap))
        assert plan.rule("cd src/trap && git status").outcome == "ask"
        assert plan.rule("git -C src/trap status").outcome == "ask"
        assert plan.rule("cd src && git status").outcome == "allow"
    finally:
        for name in ("objects", "refs"):
            (trap / name).rmdir()
        (trap / "HEAD").unlink()
        trap.rmdir()


PARTS = ("HEAD", "objects", "refs", "commondir", "c/objects", "c/refs", "config")


@pytest.mark.skipif(shutil.which("git") is None, reason="git judges")
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_every_folder_that_git_takes_for_a_repository_is_seen(root: Path, count: int) -> None:
    accepted = 0
    for number, parts in enumerate(itertools.combinations(PARTS, count)):
        trap = root / f"trap{number}"
        make_git_dir(trap, parts)
        said = subprocess.run(
            ["git", "-C", str(trap), "rev-parse", "--git-dir"],
            capture_output=True,
            check=False,
            env={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(root), "HOME": str(root)},
        )
        accepted += said.returncode == 0
        assert said.returncode != 0 or Filesystem().is_git_dir(str(trap)), parts
    assert accepted or count == 2


def make_git_dir(folder: Path, parts: Sequence[str]) -> None:
    for name in parts:
        if name.endswith(("objects", "refs")):
            (folder / name).mkdir(parents=True)
            continue
        folder.mkdir(exist_ok=True)
        text = {"HEAD": "ref: refs/heads/main\n", "commondir": "c\n", "config": ""}[name]
        (folder / name).write_text(text)


def test_a_folder_that_shares_the_inside_of_another_repository_is_asked_about(plan: Plan) -> None:
    """`commondir` is how worktrees do it; the shared folder's config may name programs."""
    trap = plan.root / "src" / "shared"
    make_git_dir(trap, ("HEAD", "commondir", "c/objects", "c/refs"))
    try:
        for command in (
            "cd src/shared && git status",
            "git -C src/shared status",
            "cd src/shared/c && git diff",
            "git -C src/share* log",
        ):
            assert plan.rule(command).outcome == "ask", command
            assert plan.rule(command, mode="trusted").outcome == "ask", command
        assert plan.rule("git status").outcome == "allow"
    finally:
        shutil.rmtree(trap)


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("cat link_in/app.py", "allow"),
        ("cat link_out/passwd", "ask"),
        ("cat dangling", "ask"),
        ("cd link_in && cat app.py", "ask"),
        ("cd link_in && cd .. && ls", "ask"),
        ("cd link_in && cat ../README.md", "ask"),
        ("cd src || cat ../secret.txt", "ask"),
        ("cd nowhere; cat ../secret.txt", "ask"),
        ("cd src && cat ../README.md; cat ../secret.txt", "ask"),
        ("(cd src); cat app.py", "allow"),
        ("cd src | cat ../secret.txt", "ask"),
        ("cd src && cd deep && cat ../../README.md", "allow"),
        ("cd src/deep && cd ../.. && ls", "allow"),
        ("cd src/deep && cd ../../.. && ls", "ask"),
    ],
)
def test_cd_is_followed_through_the_chain(plan: Plan, command: str, outcome: str) -> None:
    assert plan.rule(command).outcome == outcome


def test_a_workspace_behind_a_link_is_the_folder_itself(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "via").symlink_to(plan.root)
    assert plan.rule("cat README.md", cwd=str(tmp_path / "via")).outcome == "allow"
    assert plan.rule(f"cat {tmp_path / 'via' / 'README.md'}").outcome == "allow"
