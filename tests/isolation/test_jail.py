"""Plain programs in a real jail: the canaries, files, processes, bad workspaces."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import msgspec
import pytest
from tests.isolation.canary import NAMES, Stage, jails, need_jail, need_limits

from pilothouse.bootstrap.agent_processes import run_script
from pilothouse.core.engine import ProcessStart
from pilothouse.core.isolation import Isolation, Needs, server_endpoints, server_programs
from pilothouse.isolation.canaries import Proof, describe_proof, read_proofs
from pilothouse.isolation.jail import Jails, sweep_scratch
from pilothouse.isolation.support import Support, try_jail
from pilothouse.processes import Launcher, SpawnFailed
from pilothouse.runtime.ports import ScriptEnd

FREE = {"gateway", "see_home", "read_store", "read_other", "symlink_out", "git_hooks", "git_config", "forks"}


def start(stage: Stage, script: str, **changed: object) -> ProcessStart:
    environment = {"PATH": os.environ["PATH"], "HOME": str(stage.home), "LANG": "C.UTF-8"}
    place = str(stage.workspace)
    plain = ProcessStart("test", ["bash", "-c", script], place, environment, place)
    return msgspec.structs.replace(plain, **changed)


async def output(launcher: Launcher, start: ProcessStart) -> str:
    async with launcher.open(start) as process:
        process.close_input()
        lines = [line.data.decode() async for line in process.lines()]
        await process.wait()
        return "\n".join([*lines, process.stderr_tail()])


async def test_a_plain_program_is_held_and_without_a_jail_the_same_tries_succeed(
    stage: Stage, tmp_path: Path
) -> None:
    need_limits()
    script = stage.script()
    held = stage.verdicts(await output(Launcher(jails(stage, tmp_path).open), start(stage, script)))
    assert held == dict.fromkeys(NAMES, "held")
    free = stage.verdicts(await output(Launcher(), start(stage, script)))
    assert {name for name, result in free.items() if result == "BROKEN"} >= FREE | {"write_ssh"}
    assert list((tmp_path / "jails").iterdir()) == []


async def test_a_commit_is_possible_also_in_a_worktree(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    git = "git -c user.name=a -c user.email=a@example.org"
    made = jails(stage, tmp_path)
    told = await output(
        Launcher(made.open), start(stage, f"{git} commit -q --allow-empty -m one; git log --format=%s")
    )
    assert told.split() == ["one"]
    words = ["git", "worktree", "add", "-q", str(tmp_path / "tree")]
    await anyio.run_process(words, cwd=stage.workspace)
    there = {"cwd": str(tmp_path / "tree"), "workspace": str(tmp_path / "tree")}
    script = (
        f"{git} commit -q --allow-empty -m two; git log --format=%s; echo x > {stage.workspace}/.git/hooks/x"
    )
    told = await output(Launcher(made.open), start(stage, script, **there))
    assert told.split()[:2] == ["two", "one"]
    assert "Read-only" in told


@pytest.mark.parametrize("link", ["", "hooks"])
async def test_git_outside_takes_no_settings_from_a_folder_that_a_program_inside_made(
    link: str, stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    own = stage.workspace / ".git"
    if link == "hooks":
        (own / link).rename(stage.workspace / "hooks")
    if link:
        (own / link).symlink_to(stage.workspace / "hooks")
    script = (
        "mkdir -p build/hooks; cp -r .git/config .git/objects .git/refs build/; git config -f build/config alias.x '!echo bad'; "
        "rm -f .git/commondir .git/hooks; echo ../build > .git/commondir; mkdir .git/hooks; "
        "mkdir -p .git/modules/m && echo x > .git/modules/m/config; cat .git/commondir"
    )
    await output(Launcher(jails(stage, tmp_path).open), start(stage, script))
    common = await anyio.run_process(
        ["git", "rev-parse", "--git-common-dir"], cwd=stage.workspace, check=False
    )
    assert b"build" not in common.stdout
    told = await anyio.run_process(["git", "x"], cwd=stage.workspace, check=False)
    assert b"bad" not in told.stdout
    if link == "hooks":
        assert (own / link).is_symlink()


async def test_a_repository_cannot_name_a_folder_that_is_shown(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    for bait in ("file", "link"):
        work = tmp_path / bait
        work.mkdir()
        if bait == "file":
            (work / ".git").write_text(f"gitdir: {stage.other}\n")
        else:
            (work / ".git").symlink_to(stage.other)
        told = await output(
            Launcher(jails(stage, tmp_path).open),
            start(stage, f"cat {stage.other}/notes.txt .git/notes.txt", cwd=str(work), workspace=str(work)),
        )
        assert "of another conversation" not in told


async def test_what_a_program_needs_is_there_and_a_copy_changes_nothing(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    (stage.home / "state.json").write_text("old\n")
    (stage.home / "settings").write_text("fixed\n")
    needs = Needs(
        read=(str(stage.home / "settings"), str(stage.home / "missing")),
        copies=(str(stage.home / "state.json"), "/etc/passwd"),
        mounts={str(stage.home / "logs"): str(tmp_path / "kept")},
    )
    script = "cd; cat state.json settings; echo new > state.json; echo x > settings; echo kept > logs/one; ls"
    told = await output(Launcher(jails(stage, tmp_path).open), start(stage, script, needs=needs))
    assert told.split()[:2] == ["old", "fixed"]
    assert "Read-only" in told
    assert "missing" not in told
    assert (stage.home / "state.json").read_text() == "old\n"
    assert (tmp_path / "kept" / "one").read_text() == "kept\n"


async def test_a_linked_workspace_works_and_our_data_inside_one_stays_hidden(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    link = tmp_path / "linked"
    link.symlink_to(stage.workspace)
    script = f"pwd -P; echo x > here.txt; ls {stage.store.parent} {stage.other}"
    for allowed in ((), (str(tmp_path),)):
        made = jails(stage, tmp_path, allow_read=allowed)
        told = await output(Launcher(made.open), start(stage, script, cwd=str(link), workspace=str(link)))
        assert told.splitlines()[0] == str(stage.workspace)
        assert (stage.workspace / "here.txt").exists()
    assert "notes.txt" in told
    assert stage.store.name not in told


async def test_killing_the_leader_leaves_no_process(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    script = (
        f"(setsid sleep {stage.nap} &) ; (setsid setsid sleep {stage.nap} &); echo ready; sleep {stage.nap}"
    )
    async with Launcher(jails(stage, tmp_path).open).open(start(stage, script)) as process:
        async for line in process.lines():
            assert line.data == b"ready"
            break
        os.kill(process.pid, 9)
        await process.wait()
    assert stage.verdicts("")["setsid"] == "held"


async def test_where_no_jail_can_be_made_nothing_starts_unless_the_operator_said_so(
    stage: Stage, tmp_path: Path
) -> None:
    logged: list[str] = []
    there = jails(stage, tmp_path)

    def log(event: str, **fields: object) -> None:
        logged.append(event)

    def without(when: str) -> Jails:
        isolation = Isolation("jail", when_missing=when)  # pyrefly: ignore[bad-argument-type]
        missing = try_jail(None)
        return Jails(lambda _: isolation, there.places, log, lambda: missing)

    refused = without("refuse")
    with pytest.raises(SpawnFailed, match="apt install bubblewrap"):
        await output(Launcher(refused.open), start(stage, "echo ran"))
    assert refused.isolation(str(stage.workspace)).confines
    opened = without("open")
    assert (await output(Launcher(opened.open), start(stage, "echo ran"))).strip() == "ran"
    assert not opened.isolation(str(stage.workspace)).confines
    assert "bubblewrap" in opened.problem(str(stage.workspace))
    assert logged == ["isolation.missing"]
    assert opened.describe(str(stage.workspace), "claude").startswith("NOT ISOLATED: bubblewrap")


async def test_the_script_of_a_schedule_runs_in_the_jail_of_its_folder(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    script = f"cat {stage.store} && echo seen; echo x > made.txt; echo last"
    environment, place = start(stage, "").environment, str(stage.workspace)

    async def run(**jail: Any) -> ScriptEnd:
        return await run_script(environment, "marker", script, place, 60.0, 1_000_000, **jail)

    held = await run(jail=jails(stage, tmp_path).open)
    assert (held.last_line, held.exit_code, held.problem) == (b"last", 0, "")
    assert "the store" not in held.stderr
    assert "No such file" in held.stderr
    assert (stage.workspace / "made.txt").exists()


def test_the_word_jailed_is_for_engines_whose_canaries_held(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    made, place = jails(stage, tmp_path, network="model"), str(stage.workspace)
    assert "not known yet" in made.describe(place, "claude")
    made.look(place)
    made.version_of = lambda engine: read_proofs()[engine].version
    for engine in ("claude", "codex", "copilot", "opencode"):
        assert made.describe(place, engine) == "jailed, network: model"
    made.version_of = lambda engine: "2.1.999"
    assert made.describe(place, "claude") == "jailed (proved with 2.1.325, this is 2.1.999), network: model"
    for version, said in (("2.2.0", "2.2.0"), ("3.1.2.1", "3.1.2.1"), ("", "not known")):
        made.version_of = lambda engine, version=version: version
        told = made.describe(place, "claude")
        assert told == f"in a jail, proved with version 2.1.325, this one is {said}, network: model"
    assert "jailed" not in made.describe(place, "some-agent")
    assert jails(stage, tmp_path, kind="none").describe(place, "claude") == ""
    assert not Proof("1", {"open": {"read_store": "held", "setsid": "BROKEN"}}).holds("open")
    assert not Proof("1", {}).holds("open")
    behind = Proof("1.2.3", {"model": {"read_store": "held"}})
    assert (behind.holds("open"), behind.holds("model"), behind.holds("none")) == (False, True, True)
    assert behind.fits("1.2.99 (Some Agent)")
    assert not any(map(behind.fits, ("1.3.3", "11.2.3", "1", "")))
    assert not Proof("", {}).fits("")


async def test_a_workspace_on_another_mount_is_writable_and_the_rest_of_the_mount_is_absent(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    mounted = Path("/dev/shm")
    if not mounted.is_mount():
        pytest.skip(f"NOT TESTED: {mounted} is no mount here")
    with TemporaryDirectory(dir=mounted) as made:
        (work := Path(made, "work")).mkdir()
        Path(made, "secret.txt").write_text("beside the workspace")
        script = f"echo x > made.txt; cat {made}/secret.txt; echo done"
        begun = start(stage, script, cwd=str(work), workspace=str(work))
        told = await output(Launcher(jails(stage, tmp_path).open), begun)
        assert "done" in told
        assert "beside the workspace" not in told
        assert (work / "made.txt").exists()


async def test_a_jail_in_a_jail_works_or_says_why_not(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    code = "from pilothouse.isolation.support import find_support; print('problem:', find_support().problem)"
    begun = start(stage, "", argv=[sys.executable, "-c", code])
    environment = {**begun.environment, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    begun = msgspec.structs.replace(begun, environment=environment)
    told = await output(Launcher(jails(stage, tmp_path).open), begun)
    refused = "problem: The kernel lets bubblewrap make no namespace: "
    works = told.strip() == "problem:"
    assert told.startswith(refused) or (works and os.geteuid() != 0), told


def test_the_docs_name_the_engines_of_the_table_with_their_versions() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "isolation.md").read_text()
    named = dict(re.findall(r"^\| [^|]*\(`([\w-]+)`\) \| ([\w. ]+) \|$", page, re.MULTILINE))
    proofs = read_proofs()
    assert named == {name: proof.version or "every version" for name, proof in proofs.items()}
    assert all(proof.holds("open") and proof.holds("model") for proof in proofs.values())


def test_engines_and_doctor_say_whether_this_version_was_proved() -> None:
    assert describe_proof("claude", "2.1.325") == describe_proof("native", "some model") == "proved in a jail"
    assert describe_proof("claude", "2.1.400") == "proved in a jail with 2.1.325"
    assert describe_proof("claude", "3.0.0") == "proved in a jail with 2.1.325, this is 3.0.0"
    assert describe_proof("claude", "").endswith("this is an unknown version")
    assert describe_proof("some-agent", "1.0") == "not proved in a jail"


async def test_bad_workspaces_get_a_clear_refusal(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    launcher = Launcher(jails(stage, tmp_path).open)
    for folder, words in (
        ("/", "cannot be jailed"),
        (str(stage.home), "holds the home folder"),
        (str(stage.store.parent), "own folders"),
        (str(tmp_path / "vanished"), "does not exist"),
    ):
        with pytest.raises(SpawnFailed, match=words):
            await output(launcher, start(stage, "true", workspace=folder))


def test_a_program_that_makes_no_namespace_is_explained(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    found = try_jail(str(fake))
    assert isinstance(found, Support)
    assert "user namespaces" in found.problem
    assert "No permissions to create" in found.problem


def test_private_homes_of_a_killed_gateway_are_removed(tmp_path: Path) -> None:
    for name in ("999999999-aa", f"{os.getpid()}-bb"):
        (tmp_path / name / "x").mkdir(parents=True)
    sweep_scratch(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [f"{os.getpid()}-bb"]


async def test_the_programs_of_mcp_servers_are_there_with_the_files_that_they_name(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    program, script = tmp_path / "tools" / "server", tmp_path / "tools" / "server.txt"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat "$1"\n')
    program.chmod(0o755)
    script.write_text("served\n")
    servers = {"one": {"command": str(program), "args": [str(script), "-v"]}, "two": {"url": "http://x.org/"}}
    assert server_endpoints(servers) == ("http://x.org/",)
    needs = Needs(programs=server_programs(servers))
    launcher = Launcher(jails(stage, tmp_path).open)
    assert (await output(launcher, start(stage, f"{program} {script}", needs=needs))).strip() == "served"
    assert "served" not in await output(launcher, start(stage, f"{program} {script}"))


async def test_a_program_that_is_a_link_in_a_folder_which_is_shown_starts(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    real, link = stage.home / "share" / "tool", tmp_path / "bin" / "tool"
    for folder in (real.parent, link.parent):
        folder.mkdir()
    real.write_text("#!/bin/sh\necho started\n")
    real.chmod(0o755)
    link.symlink_to(real)
    made = jails(stage, tmp_path, allow_read=(str(link.parent),))
    assert (await output(Launcher(made.open), start(stage, "", argv=[str(link)]))).strip() == "started"


async def test_commits_have_the_users_author_and_no_other_git_setting_is_inside(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    settings = '[user]\n\tname = "Ada \\"A\\" L"\n\temail = ada@example.org\n[credential]\n\thelper = store\n'
    (stage.home / ".gitconfig").write_text(settings)
    script = "git commit -q --allow-empty -m x && git log -1 --format='%an <%ae>'; git config credential.helper || echo none"
    said = await output(Launcher(jails(stage, tmp_path).open), start(stage, script))
    assert said.split("\n")[:2] == ['Ada "A" L <ada@example.org>', "none"]
