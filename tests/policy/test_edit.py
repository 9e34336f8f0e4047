"""What `trusted` lets `sed` and `awk` do: they edit what they are given, and neither run, read nor write anything else."""

from __future__ import annotations

import random
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.policy.plan import Plan

SED_PIECES = [
    "a",
    "b",
    "[",
    "]",
    "[^",
    "[/]",
    "[,]",
    "[[:alpha:]]",
    "[a-z]",
    "\\[",
    "\\]",
    "\\/",
    "\\,",
    "\\n",
    "\\1",
    "\\(",
    "\\)",
    "/",
    ",",
    "|",
    "#",
    ";",
    "e",
    "w",
    "&",
    "^",
    "*",
    ".",
    "\\",
    "\\c",
    "\\x2f",
    "/e",
    "/e;",
    ";e",
    "]/e",
    "],e",
    "touch",
    "#",
]
SED_FLAGS = ["", "", "", "g", "p", "I", "e", "w", " ", "ge", "}"]
AWK_PIECES = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    "|",
    "||",
    ">",
    ">=",
    "<",
    "&",
    "&&",
    "!",
    "~",
    "/a/",
    "/[/]/",
    "/",
    "[/",
    '"a"',
    '"touch"',
    'pwned"',
    "print",
    "$1",
    "NR",
    "getline",
    "system",
    "system(",
    "ARGV",
    "ARGC",
    "ENVIRON",
    "x",
    "y",
    "=",
    "==",
    "1",
    "+",
    "-",
    "BEGIN",
    "END",
    "if",
    "while",
    "split(",
    "sub(",
    "length",
    "@",
    "#",
    "\\",
    '"',
    '"pwned"',
    '>"pwned"',
    '|"touch',
]

Chance = random.Random


def some_sed(chance: Chance) -> str:
    """Addresses and substitutions, their delimiters in each other's patterns."""
    return chance.choice(";;\n").join(some_command(chance) for _ in range(chance.randint(1, 3)))


def some_command(chance: Chance) -> str:
    end = chance.choice("//,|#")
    pattern, text = ("".join(chance.choices(SED_PIECES, k=chance.randint(0, 3))) for _ in range(2))
    if chance.random() < 0.3:
        return f"/{pattern}/{chance.choice('pdq=e')}"
    return f"s{end}{pattern}{end}{text}{end}{chance.choice(SED_FLAGS)}"


def some_awk(chance: Chance) -> str:
    start = chance.choice(["", "{", "{print "])
    return start + " ".join(chance.choices(AWK_PIECES, k=chance.randint(1, 9)))


def outside_of(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((path.name, path.read_bytes()) for path in folder.iterdir() if path.is_file())


@pytest.mark.parametrize(("program", "some"), [("sed", some_sed), ("awk", some_awk)])
def test_the_real_program_leaves_every_file_as_it_was(
    plan: Plan, tmp_path: Path, program: str, some: Callable[[Chance], str]
) -> None:
    chance = Chance(7)  # the same texts in each run
    texts = dict.fromkeys(some(chance) for _ in range(4000))
    commands = [f"{program} {shlex.quote(text)} README.md" for text in texts]
    passing = [command for command in commands if plan.rule(command, mode="trusted").outcome == "allow"]
    assert len(passing) > 60
    (tmp_path / "README.md").write_text("touch pwned\na/b,c|d\n[x] touch\tpwned\n")
    before = outside_of(tmp_path)
    lines = [f"timeout 5 {command} </dev/null >/dev/null 2>&1" for command in passing[:400]]
    subprocess.run(["/bin/bash", "-c", "\n".join(lines)], cwd=tmp_path, timeout=300, check=False)
    assert outside_of(tmp_path) == before


@pytest.mark.parametrize(
    "script",
    [
        "s/[/x/;s,]/touch pwned/e;#,b,",
        "/[/p;s,]/e touch pwned\n#,b,",
        "s/[^/]*/x/e",
        "s/[[:a/]x/touch pwned/e;s,],b,",
        "s,[,x,;s/],e touch pwned;#/b/",
        "s/a/b/e",
        "s/a/b/ge",
        "s/a/b/w out",
        "1e touch pwned",
        "e",
        "w out",
        "r /etc/passwd",
        "R /etc/passwd",
        "W out",
        "F",
        "s/a/b/;e",
        "p\ne touch pwned",
        "1{e touch pwned\n}",
        "s/a/\\\ne/",
        "\\,[,e touch pwned,p",
        "s/\\x2f/touch pwned/e",
        "#n\ne",
        "y/a/b/;e",
        "a\\\ntext",
    ],
)
def test_a_script_that_may_do_more_than_edit_is_asked_about(plan: Plan, script: str) -> None:
    for options in ("", "-n ", "-E ", "-i ", "-e "):
        command = f"sed {options}{shlex.quote(script)} README.md"
        assert plan.rule(command, mode="trusted").outcome == "ask", command


@pytest.mark.parametrize(
    "command",
    [
        "sed -i.json s/a/b/ .mcp",
        "sed -i.toml s/a/b/ .pilothouse",
        "sed s,a*,b, README.md",
        "sed -f x.sed README.md",
        "sed -s --file=x.sed README.md",
        "sed -n 1p -e e README.md",
    ],
)
def test_what_sed_writes_or_takes_for_its_script_is_looked_at(plan: Plan, command: str) -> None:
    assert plan.rule(command, mode="trusted").outcome == "ask"


@pytest.mark.parametrize(
    "program",
    [
        'BEGIN{ARGV[1]="/etc/passwd";ARGC=2}1',
        'BEGIN{ARGV[ARGC++]="../secret.txt"}1',
        'BEGIN{while((getline x < "/etc/passwd")>0)print x}',
        "BEGIN{getline;print}",
        'BEGIN{"touch pwned"|getline}',
        'BEGIN{system("touch pwned")}',
        'BEGIN{system ("touch pwned")}',
        '{print|"sh"}',
        '{print > "out"}',
        '{print >> "out"}',
        '{printf("x") > "out"}',
        "BEGIN{print ENVIRON[1]}",
        'BEGIN{SYMTAB["ARGV"][1]="/etc/passwd"}',
        'BEGIN{f="system";@f("touch pwned")}',
        '@include "/etc/passwd"',
        '@load "filefuncs"',
        'function f(){system("touch pwned")}',
        "{a /b/ c; x=/[/;system(1);/]/}",
        '1 # \n/x/{system("id")}',
    ],
)
def test_an_awk_program_that_may_do_more_than_compute_is_asked_about(plan: Plan, program: str) -> None:
    for options in ("", "-F: ", "-v x=1 "):
        command = f"awk {options}{shlex.quote(program)} README.md"
        assert plan.rule(command, mode="trusted").outcome == "ask", command


@pytest.mark.parametrize(
    "options",
    ["-f x.awk", "-v ARGC=2", "-vENVIRON=1", "-i inplace", "-l filefuncs", "-E x", "-pout", "-dout", "-oout"],
)
def test_an_awk_option_that_names_more_than_values_is_asked_about(plan: Plan, options: str) -> None:
    assert plan.rule(f"awk {options} 1 README.md", mode="trusted").outcome == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "sed -i 's/old/new/g' src/app.py",
        "sed -i.bak 's/old/new/' src/app.py",
        "sed 's|/usr/lib|/opt|g' README.md",
        "sed -E 's/^([a-z]+)-[0-9]+$/\\1/' README.md",
        "sed -e 's/a/b/' -e '/^#/d' README.md",
        "sed '/^[[:space:]]*$/d' README.md",
        "sed -n '/start/,/end/p' README.md",
        "sed 's/\\[x\\]/[y]/; 1,3d' README.md",
        "sed '$d' README.md",
        "sed 5q README.md",
        "sed 's/some/else/' README.md",
        "awk '{print $1}' README.md",
        "awk -F: '{print $1, $NF}' README.md",
        "awk -F'|' -v n=3 'NR>=n && NR<=5 {print $2}' README.md",
        "awk '/a|b/ {n++} END {print n}' README.md",
        "awk '{sum += $2} END {printf \"%d\\n\", sum}' README.md",
        "awk '!seen[$0]++' README.md",
        "awk 'length($0) < 80 || $1 ~ /^[^#]/' README.md",
        "awk '{gsub(/[[:space:]]+/, \" \"); print toupper($0)}' README.md",
        "awk 'BEGIN{for (i = 0; i < 3; i++) print i}'",
    ],
)
def test_everyday_edits_still_pass(plan: Plan, command: str) -> None:
    assert plan.rule(command, mode="trusted").outcome == "allow"
