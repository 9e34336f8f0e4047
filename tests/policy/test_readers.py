"""What passes because it only reads: it sets no variable, writes no file and runs nothing, whichever way it is written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.policy.plan import Plan


@pytest.mark.parametrize(
    "command",
    [
        "printf '%n' PATH; ls",
        "printf %n PATH && ls",
        "printf -- '%n' PATH; ls",
        "printf '%5n' PATH; ls",
        "printf 'a%%%n' PATH; ls",
        "printf '%s%n' a PATH; ls",
        "printf '%ln' PATH; ls",
        "printf '%1$n' PATH; ls",
        "printf '\\045n' PATH; ls",
        "printf '%*s' 'PATH=5' x; ls",
        "printf %d 'PATH=5'; ls",
        "printf x* PATH; ls",
        "printf -v PATH x; ls",
        "printf '%(%s)T' -1",
        "printf '%n' CDPATH; cd src && ls",
        ": {PATH}>/dev/null; ls",
        "echo x {PATH}>/dev/null && ls",
        "ls {PATH}<README.md; ls",
        "ls {PATH}>&1; ls",
        ": {PATH}<<<x; ls",
        "read PATH < README.md; ls",
        "mapfile PATH < README.md; ls",
        "readarray -t PATH < README.md; ls",
        "export PATH=src; ls",
        "declare PATH=src; ls",
        "typeset PATH=src; ls",
        "local PATH=src; ls",
        "readonly PATH=src; ls",
        "unset PATH; ls",
        "getopts a PATH; ls",
        "let PATH=1; ls",
        "((PATH=1)); ls",
        ": $((PATH=1)); ls",
        ": ${PATH:=src}; ls",
        "for PATH in src; do ls; done",
        "select PATH in src; do ls; done",
        "time ls",
        "PATH=src ls",
        "PATH=src; ls",
        "coproc PATH { ls; }; ls",
        "wait -p PATH; ls",
        "test -v PATH; ls",
        "set -- a; ls",
        "hash -p ./ls ls; ls",
        "alias ls=./ls; ls",
        "type -x ls",
        "exec {PATH}>/dev/null; ls",
    ],
)
def test_no_command_that_sets_a_variable_passes(plan: Plan, command: str) -> None:
    assert plan.rule(command).outcome == "ask"
    assert plan.rule(command, mode="trusted").outcome == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "xxd -ac README.md src/app.py",
        "xxd -bl src/app.py README.md",
        "xxd -plain -r README.md src/app.py",
        "tree -Po '*.py' out.txt",
        "tree -L2o out.txt",
        "tree -Io x out.txt",
        "uniq README.md out.txt",
        "sort -uo out.txt README.md",
        "sort -ko out.txt README.md -o out.txt",
    ],
)
def test_no_letter_hides_behind_another_that_a_program_does_not_join(plan: Plan, command: str) -> None:
    assert plan.rule(command).outcome == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git diff README.md link_out/hostname",
        "git -C . diff README.md link_out/hostname",
        "git diff links/told README.md",
    ],
)
def test_git_compares_no_file_to_which_a_link_leads_out(plan: Plan, command: str) -> None:
    assert plan.rule(command).outcome == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "printf 'a\\n'",
        "printf '%s\\n' a b",
        'printf "%-10s|%5.2f%%\\n" 3 4',
        "printf '%03d' 7",
        "printf '%b' 'a\\tb'",
        "printf '\\033[1m%s\\033[0m' bold",
        "xxd -c 16 README.md",
        "xxd -l 64 -p README.md",
        "tree -L 2 -a src",
        "tree -L2 src",
        "tree -I node_modules",
        "echo @{u} > /dev/null",
        "git log HEAD@{1} 2>/dev/null",
    ],
)
def test_what_is_written_every_day_still_passes(plan: Plan, command: str) -> None:
    assert plan.rule(command).outcome == "allow"


FORMATS = [
    "%n",
    "%s",
    "%d",
    "%%n",
    "%5n",
    "%-n",
    "%.3n",
    "%hn",
    "%lln",
    "\\045n",
    "\\x25n",
    "%b%n",
    "%c",
    "%q",
]


def test_a_real_shell_has_the_same_variables_after_every_printf_that_passes(
    plan: Plan, tmp_path: Path
) -> None:
    allowed = 0
    for first in FORMATS:
        for second in FORMATS:
            command = f"printf 'x{first}{second}y' VICTIM VICTIM VICTIM"
            if plan.rule(command).outcome == "allow":
                allowed += 1
                script = f"{command} >/dev/null 2>&1; echo ${{VICTIM-unset}}"
                said = subprocess.run(
                    ["/bin/bash", "-c", script], cwd=tmp_path, env=_bare(), capture_output=True, check=False
                ).stdout
                assert said == b"unset\n", command
    assert allowed >= 16


def _bare() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    "command",
    [
        "git diff",
        "git diff --cached",
        "git diff --stat -p",
        "git diff -U5",
        "git diff --check",
        "git show",
        "git show HEAD~2",
        "git show --stat 1a2b3c4",
        "git log -p",
        "git log -u -1",
        "git log --patch",
        "git log -L1,5:x",
        "git log -S x",
        "git log --word-diff",
        "git whatchanged -p",
        "git diff-tree -p HEAD",
        "git cat-file -p 1a2b3c4",
        "git cat-file blob 1a2b3c4",
        "git status -v",
        "git grep x",
        "cd tests && git diff",
        "git -C tests diff",
        "git -C tests grep x",
        "git diff | head -5",
    ],
)
def test_git_tells_nothing_of_a_file_that_a_rule_forbids_to_read(plan: Plan, command: str) -> None:
    for rule in ("deny read src/app.py", "ask path src/app.py", "deny path src", "deny path .env"):
        assert plan.rule(command, [rule]).outcome == "ask", rule
    assert plan.rule(command, ["deny read /etc/shadow"]).outcome == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git log --oneline -5",
        "git log --stat",
        "git diff --stat",
        "git diff --name-only HEAD~1",
        "git ls-files",
        "git cat-file -t HEAD",
        "git blame README.md",
        "git branch -a",
    ],
)
def test_git_may_name_a_file_that_a_rule_forbids_to_read(plan: Plan, command: str) -> None:
    assert plan.rule(command, ["deny read src/app.py"]).outcome == "allow"
