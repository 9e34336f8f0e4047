"""./run on a machine made of links and stubs: a fresh checkout, no network, an installer that writes down its calls."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()

UV = """#!/bin/sh
echo "$*" >>"$LOG"
case $* in
    *"$FAILS_AT"*) echo "${FAILS_WITH-no such package index}"; exit 2 ;;
    *"$HANGS_AT"*) : >"$LOG.hangs"; exec sleep 60 ;;
    venv*)
        for env in "$@"; do :; done
        mkdir -p "$env/bin"
        ln -s "$REAL_PYTHON" "$env/bin/python" ;;
    *--editable*)
        printf '#!/bin/sh\\npwd\\nprintf "<%%s>" "$@"\\necho "${PYTHONDONTWRITEBYTECODE-unset}"\\n' >"${4%/*}/pilothouse"
        chmod +x "${4%/*}/pilothouse" ;;
esac
"""

OLD_PYTHON = """#!/bin/sh
case $1 in --version) echo "Python 3.9.2" ;; *) exit 1 ;; esac
"""

PYTHON_WITHOUT_VENV = """#!/bin/sh
[ "$1" = -I ] || exec "$REAL_PYTHON" "$@"
shift
exec "$REAL_PYTHON" -I -c '
import runpy, sys
sys.modules["ensurepip"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
"""


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@dataclass
class Machine:
    checkout: Path
    bin: Path
    log: Path
    cwd: Path

    def popen(self, *args: str, program: Path | str | None = None, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [program or self.checkout / "run", *args],
            cwd=self.cwd,
            env={
                "PATH": str(self.bin),
                "HOME": str(self.cwd),
                "LOG": str(self.log),
                "REAL_PYTHON": str(PYTHON),
                "FAILS_AT": "(nowhere)",
                "HANGS_AT": "(nowhere)",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, *args: str, program: Path | str | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        process = self.popen(*args, program=program, **env)
        out, err = process.communicate(timeout=100)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def count_installs(self) -> int:
        return self.log.read_text().count("--editable") if self.log.exists() else 0

    def environments(self) -> list[str]:
        return [path.name for path in (self.checkout / ".venv").glob("run-*")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "a checkout", tmp_path / "bin", tmp_path / "uv.log", tmp_path / "some where")
    for folder in (made.checkout, made.bin, made.cwd):
        folder.mkdir()
    shutil.copytree(ROOT / "tools", made.checkout / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "requirements", made.checkout / "requirements")
    for name in ("run", "pyproject.toml"):
        shutil.copy2(ROOT / name, made.checkout / name)
    for name in ("cat", "chmod", "cksum", "ln", "mkdir", "readlink", "sed", "sh", "sleep"):
        (made.bin / name).symlink_to(str(shutil.which(name)))
    write_program(made.bin / "python3", '#!/bin/sh\nexec "$REAL_PYTHON" "$@"\n')
    write_program(made.bin / "uv", UV)
    return made


def test_the_first_start_installs_and_the_second_only_starts(machine: Machine) -> None:
    first = machine.run("status", "two words")
    assert first.stdout == f"{machine.cwd}\n<status><two words>unset\n"
    assert "locked packages" in first.stderr
    assert machine.log.read_text().count("--require-hashes") == 1

    second = machine.run("status", "two words")
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert machine.count_installs() == 1


def test_without_words_it_opens_a_chat(machine: Machine) -> None:
    assert "<chat>" in machine.run().stdout


def test_a_link_on_path_works_from_any_folder(machine: Machine) -> None:
    (machine.cwd / "hop").symlink_to("../a checkout/run")
    (machine.bin / "pilothouse").symlink_to(machine.cwd / "hop")
    assert machine.run("up", program=machine.bin / "pilothouse").stdout == f"{machine.cwd}\n<up>unset\n"


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements/run.txt", "requirements/build.txt"])
def test_a_changed_lock_makes_a_new_environment_and_drops_the_old(machine: Machine, name: str) -> None:
    machine.run()
    before = machine.environments()
    changed = machine.checkout / name
    changed.write_text("# changed\n" + changed.read_text())
    assert machine.run().returncode == 0
    assert machine.count_installs() == 2
    assert len(machine.environments()) == 1
    assert machine.environments() != before


def test_a_changed_setting_of_a_tool_makes_no_new_environment(machine: Machine) -> None:
    machine.run()
    with (machine.checkout / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert machine.run().returncode == 0
    assert machine.count_installs() == 1


def test_an_environment_that_a_process_runs_from_is_kept(machine: Machine) -> None:
    machine.run()
    (in_use,) = machine.environments()
    program = machine.checkout / ".venv" / in_use / "bin/python"
    with subprocess.Popen([program, "-c", "input()"], stdin=subprocess.PIPE) as process:
        (machine.checkout / "pyproject.toml").write_text("# changed\n")
        assert machine.run().returncode == 0
        assert in_use in machine.environments()
        process.kill()


def test_a_moved_checkout_is_installed_anew(machine: Machine) -> None:
    machine.run()
    machine.checkout = machine.checkout.rename(machine.checkout.with_name("moved"))
    assert machine.run().returncode == 0
    assert machine.count_installs() == 2


def test_two_first_starts_at_once_install_once(machine: Machine) -> None:
    processes = [machine.popen("up"), machine.popen("up")]
    assert [process.communicate(timeout=100)[0] for process in processes] == [
        f"{machine.cwd}\n<up>unset\n"
    ] * 2
    assert machine.count_installs() == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_install_is_never_used(machine: Machine, signum: signal.Signals) -> None:
    process = machine.popen(HANGS_AT="--require-hashes")
    hangs = machine.log.with_name("uv.log.hangs")
    while not hangs.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signum)
    process.communicate(timeout=100)
    assert process.returncode != 0
    assert machine.count_installs() == 0
    if signum != signal.SIGKILL:
        assert machine.environments() == []

    assert machine.run("up").stdout == f"{machine.cwd}\n<up>unset\n"
    assert machine.count_installs() == 1
    assert len(machine.environments()) == 1


def test_a_failing_install_says_why_and_keeps_nothing(machine: Machine) -> None:
    write_program(machine.bin / "python3", PYTHON_WITHOUT_VENV)
    failed = machine.run(FAILS_AT="--require-hashes")
    assert failed.returncode == 1
    assert "no such package index" in failed.stderr
    assert machine.environments() == []


def test_an_install_without_a_network_says_so(machine: Machine) -> None:
    write_program(machine.bin / "python3", PYTHON_WITHOUT_VENV)
    pip = "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'"
    uv = "error: Request failed\n  Caused by: error sending request for url\n  Caused by: dns error"
    for said in (pip, uv):
        failed = machine.run(FAILS_AT="--require-hashes", FAILS_WITH=said)
        assert failed.returncode == 1
        assert "the package index is out of reach" in failed.stderr and said.split("\n")[-1] in failed.stderr
    other = machine.run(FAILS_AT="--require-hashes", FAILS_WITH="the hash is wrong")
    assert "out of reach" not in other.stderr


def test_no_python_at_all_is_said(machine: Machine) -> None:
    (machine.bin / "python3").unlink()
    refused = machine.run()
    assert refused.returncode == 1
    assert "needs Python 3.11 or newer; there is no python3 here." in refused.stderr


def test_an_old_python_is_named(machine: Machine) -> None:
    write_program(machine.bin / "python3", OLD_PYTHON)
    refused = machine.run()
    assert refused.returncode == 1
    assert "needs Python 3.11 or newer; here python3 is Python 3.9.2" in refused.stderr
    assert not (machine.checkout / ".venv").exists()


def test_a_newer_python_beside_an_old_one_is_found(machine: Machine) -> None:
    (machine.bin / "python3").rename(machine.bin / "python3.12")
    write_program(machine.bin / "python3", OLD_PYTHON)
    assert machine.run("up").returncode == 0


def test_a_python_without_venv_names_the_package_to_install(machine: Machine) -> None:
    (machine.bin / "uv").unlink()
    write_program(machine.bin / "python3", PYTHON_WITHOUT_VENV)
    write_program(machine.bin / "apt", "#!/bin/sh\n")
    refused = machine.run()
    assert refused.returncode == 1
    assert f"sudo apt install python{sys.version_info.major}.{sys.version_info.minor}-venv" in refused.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_checkout_that_cannot_be_written_uses_the_cache(machine: Machine) -> None:
    machine.checkout.chmod(0o555)
    cache = machine.cwd / "cache"
    assert machine.run("up", PILOTHOUSE_CACHE_DIR=str(cache)).returncode == 0
    assert machine.run("up", PILOTHOUSE_CACHE_DIR=str(cache)).stderr == ""
    assert machine.count_installs() == 1
    assert list(cache.glob("env-*/run-*"))
    machine.checkout.chmod(0o755)
