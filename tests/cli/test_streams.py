"""Odd streams are ordinary: closed, full, piped. None of them is a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def sh(line: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "PILOTHOUSE_HOME": str(home), "HOME": str(home), **more}
    command = line.replace("pilothouse", f"{sys.executable} -m pilothouse")
    return subprocess.run(
        ["sh", "-c", command], env=environ, cwd=home, capture_output=True, text=True, timeout=50, check=False
    )


def script(home: Path) -> None:
    (home / "script.toml").write_text('[[turn]]\nsteps = [ { say = "heard: {prompt}" } ]\n')
    (home / "config.toml").write_text(
        f'[engines.script]\nscript = "{home}/script.toml"\n[gateway]\ndefault_engine = "script"\n'
    )


def test_what_is_piped_in_goes_along_with_what_was_said(tmp_path: Path) -> None:
    script(tmp_path)
    done = sh("printf 'the diff' | pilothouse chat 'review this'", tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["heard:", "review", "this", "the", "diff"])


def test_closed_standard_streams_are_no_surprise(tmp_path: Path) -> None:
    script(tmp_path)
    for line in ("pilothouse chat hi <&-", "pilothouse chat hi <&- >&-", "pilothouse turns <&- >&- 2>&-"):
        done = sh(line, tmp_path)
        assert "Traceback" not in done.stderr
        assert "foresee" not in done.stderr
        assert done.returncode == 0, line


def test_a_full_standard_output_is_an_error_in_words(tmp_path: Path) -> None:
    script(tmp_path)
    sh("pilothouse chat hi", tmp_path)
    done = sh("pilothouse turns > /dev/full", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "cannot be written" in done.stderr
