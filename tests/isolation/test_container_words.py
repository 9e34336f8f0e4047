"""The command that starts a container, and what is said where none can be made. Nothing is started here but small scripts."""

from __future__ import annotations

import os
import select
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from tests.isolation.test_profile import paths, profiles, shown

from pilothouse.core.engine import ProcessStart
from pilothouse.core.isolation import Container, Isolation
from pilothouse.isolation.contained import image_argv
from pilothouse.isolation.container import CLIENT, Box, Runtime, container_words, flat
from pilothouse.isolation.container_files import extra_links, prepare, transcripts
from pilothouse.isolation.limits import MB, Bounds
from pilothouse.isolation.network import wiring
from pilothouse.isolation.profile import Mount, Profile, is_within, mounts
from pilothouse.isolation.runtime import FAILED, MISSING, NEEDS_IMAGE, explain, root_words, try_runtime
from pilothouse.isolation.system import system_mounts

PODMAN = Runtime("/usr/bin/podman", ("--runtime", "runc"), has_init=True)
DOCKER = Runtime("/usr/bin/docker", is_docker=True, has_init=True)
BOUNDS = Bounds(100, 200, 300 * MB)
BOX = Box("pilothouse-1-aa", PODMAN, ("--rootfs", "/s/root"), "/s/covers", BOUNDS, 1234, 1235)
PROFILE = Profile("/opt", "/home/user", "/usr", read=("/etc",), shares_network=False)


def words_of(box: Box = BOX, profile: Profile = PROFILE, **environment: str) -> str:
    return " ".join(container_words(box, profile, environment, ["program", "-x"]))


def test_a_container_is_shut_and_keeps_no_log() -> None:
    told = words_of()
    assert told.startswith("/usr/bin/podman --runtime runc run --rm --interactive --name pilothouse-1-aa ")
    for words in (
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--read-only",
        "--log-driver none",
        "--network none",
        "--pull never",
        "--init",
        "--pids-limit 100",
        f"--memory {300 * MB} --memory-swap {300 * MB}",
        "--ulimit core=0:0",
        "--ulimit nofile=200:200",
    ):
        assert f" {words} " in told
    assert told.endswith("--workdir /opt --entrypoint  --rootfs /s/root program -x")
    assert "--network host" in words_of(profile=msgspec.structs.replace(PROFILE, shares_network=True))
    assert "--privileged" not in told
    assert "--cap-add" not in told


def test_the_user_inside_is_never_root_where_that_can_be_had() -> None:
    assert "--userns keep-id" in words_of()
    root = words_of(msgspec.structs.replace(BOX, user=0, group=0))
    assert "--uidmap 1000:0:1 " in root
    assert "--user 1000:1000" in root
    docker = words_of(msgspec.structs.replace(BOX, runtime=DOCKER, root=("image:1",)))
    assert "--user 1234:1235" in docker
    assert "userns" not in docker
    assert "nproc" not in docker
    assert docker.endswith("image:1 program -x")


def test_secrets_are_named_and_never_written_into_the_command() -> None:
    told = words_of(ANTHROPIC_API_KEY="sk-secret", HOME="/home/user", PATH="/bin")
    assert "--env ANTHROPIC_API_KEY " in told
    assert "sk-secret" not in told
    assert "--env HOME=/home/user " in told
    assert "--env PILOTHOUSE_PROCESS " in told
    assert {"HOME", "PATH", "XDG_RUNTIME_DIR"} <= set(CLIENT)


def test_only_options_that_podman_and_docker_document_are_used() -> None:
    documented = {
        "--rm",
        "--interactive",
        "--name",
        "--hostname",
        "--log-driver",
        "--read-only",
        "--cap-drop",
    }
    documented |= {"--security-opt", "--pull", "--network", "--init", "--user", "--pids-limit", "--memory"}
    documented |= {"--memory-swap", "--ulimit", "--mount", "--env", "--workdir", "--entrypoint"}
    of_podman = documented | {"--runtime", "--userns", "--uidmap", "--rootfs"}
    for box, known in (
        (BOX, of_podman),
        (msgspec.structs.replace(BOX, user=0), of_podman),
        (msgspec.structs.replace(BOX, runtime=DOCKER, root=("image",)), documented),
    ):
        words = container_words(box, PROFILE, {"A": "b"}, ["program"])
        assert {word for word in words if word.startswith("--")} <= known


@given(profiles, paths)
def test_a_container_shows_at_each_path_what_a_jail_shows_there(profile: Profile, path: str) -> None:
    """Runtimes mount by depth; a jail in the given order."""
    by_depth = [mount for mount in flat(mounts(profile)) if is_within(path, mount.target)]
    assert (by_depth[-1] if by_depth else None) == shown(profile, path)
    assert len({mount.target for mount in flat(mounts(profile))}) == len(flat(mounts(profile)))


def test_every_point_of_a_mount_is_made_in_folders_of_ours(tmp_path: Path) -> None:
    work, home, covers, root = (tmp_path / name for name in ("work", "home", "covers", "root"))
    (work / "inner").mkdir(parents=True)
    home.mkdir()
    file = tmp_path / "settings.json"
    file.write_text("{}")
    found = flat(
        (
            Mount("link", "/bin", "usr/bin"),
            Mount("write", "/home/user", str(home)),
            Mount("read", "/home/user/.tool/settings.json", str(file)),
            Mount("empty", "/srv/data"),
            Mount("read", "/srv/data/kept", str(work)),
            Mount("write", "/srv/work", str(work)),
            Mount("read", "/srv/work/inner", str(home)),
        )
    )
    prepare(found, root, covers, tmp_path)
    assert (root / "bin").readlink() == Path("usr/bin")
    assert (home / ".tool" / "settings.json").is_file()
    assert (covers / "srv%data" / "kept").is_dir()
    assert (root / "srv" / "work").is_dir()
    before = sorted(root.rglob("*"))
    prepare(found, None, covers, tmp_path)
    assert sorted(root.rglob("*")) == before


def test_folders_with_one_name_get_numbers_and_transcripts_leave_a_folder_of_the_workspace_alone(
    tmp_path: Path,
) -> None:
    isolation = Isolation(allow_read=("/a/docs", "/b/docs/", "/a/docs"), allow_write=("/c/docs",))
    assert extra_links(isolation) == {"docs": "/a/docs", "docs-2": "/b/docs/", "docs-3": "/c/docs"}
    assert transcripts(str(tmp_path)) == []
    (tmp_path / ".pilothouse" / "conversations").mkdir(parents=True)
    (found,) = transcripts(str(tmp_path))
    assert (found.kind, found.target) == ("read", str(tmp_path / "conversations"))
    (tmp_path / "conversations" / "own.py").touch()
    assert transcripts(str(tmp_path)) == []
    (tmp_path / "conversations" / "own.py").unlink()
    (tmp_path / "conversations").rmdir()
    (tmp_path / "conversations").symlink_to("/etc")
    assert transcripts(str(tmp_path)) == []


def test_an_image_brings_the_programs_of_the_system(tmp_path: Path) -> None:
    own = tmp_path / "claude"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert image_argv(["bash", "-c", "x"], "/usr/bin:/bin") == ["bash", "-c", "x"]
    assert image_argv(["/usr/bin/env", "x"], "")[0] == "env"
    assert image_argv([str(own), "x"], "")[0] == str(own)
    start = ProcessStart("test", ["/usr/bin/env", "x"], "/", {}, "/")
    words = wiring(Isolation("container", network="none"), start, "/run/x", [], 0).argv
    assert image_argv(words, "")[-2:] == ["env", "x"]
    assert image_argv(words, "")[1:3] == ["-I", "-S"]
    assert root_words(Container(image="a:1"), tmp_path) == ("a:1",)
    assert root_words(Container(rootfs="/srv/debian"), tmp_path) == ("--rootfs", "/srv/debian:O")
    assert root_words(Container(), tmp_path) == ("--rootfs", str(tmp_path))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Error: keep-id requires additional UIDs or GIDs defined in /etc/subuid", "usermod --add-subuids"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "systemctl start docker"),
        ("Error: no/such:1: image not known", "podman pull no/such:1"),
        ("docker: Error response from daemon: No such image: no/such:1.", "podman pull no/such:1"),
        (
            "warning\nError: crun: cgroups in hybrid mode not supported.\n",
            "here: crun: cgroups in hybrid mode",
        ),
        ("", "no reason given"),
    ],
)
def test_the_words_of_a_runtime_become_a_way_out(said: str, words: str) -> None:
    assert words in explain(said, "podman", Container(image="no/such:1"))


def fake(folder: Path, name: str, script: str) -> Container:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Container(runtime=str(program))


def test_a_runtime_that_is_missing_or_hangs_or_refuses_is_explained(tmp_path: Path) -> None:
    assert try_runtime(Container(), path=str(tmp_path)).problem == MISSING
    assert "'nerdctl-x' is not there" in try_runtime(Container(runtime="nerdctl-x")).problem
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    hanging = fake(tmp_path, "hanging", f"exec 3> {tmp_path}/held; sleep 600")
    assert "no container within 0.5 s" in try_runtime(hanging, within_s=0.5).problem
    assert select.select([held], [], [], 20.0)[0]  # its end: nothing of it lives and holds the other side
    os.close(held)
    docker = fake(tmp_path, "docker", "echo Docker version 28")
    assert try_runtime(docker).problem == NEEDS_IMAGE
    refusing = fake(
        tmp_path, "podman", '[ "$1" = --version ] && exit; echo "Error: not today." >&2; exit 125'
    )
    assert try_runtime(refusing).problem == FAILED.format(program=refusing.runtime, said="not today")


def test_another_lower_runtime_is_tried_where_the_first_one_fails(tmp_path: Path) -> None:
    picky = fake(
        tmp_path,
        "podman",
        f'echo "$@" >> {tmp_path}/told\n[ "$1" = --version ] && exit; [ "$1" = --runtime ] && exit; exit 125',
    )
    for name in ("crun", "runc"):
        fake(tmp_path, name, "exit")
    found = try_runtime(picky, path=f"{tmp_path}{os.pathsep}{os.defpath}")
    assert (found.problem, found.options) == ("", ("--runtime", "crun"))
    told = (tmp_path / "told").read_text()
    assert system_mounts()[0].target in told
    assert "rm --force" in told
