"""Whoever writes a command must not be able to hold up the gateway with it: hostile texts are ruled in bounded time."""

from __future__ import annotations

import time

import pytest
from tests.policy.plan import Plan

SIZE = 60_000
RULES = ["deny command rm", "deny command git push --force", "deny path ~/.ssh/**", "deny path **/*.pem"]
RULES += ["deny glob *a*b*c*d*e", "ask domain example.org", "allow command make"]


def fill(text: str) -> str:
    return (text * (SIZE // len(text) + 1))[:SIZE]


@pytest.mark.parametrize(
    "command",
    [
        fill('"$('),
        fill("`"),
        fill("<<A "),
        fill("("),
        fill("ls|") + "ls",
        "x " + fill("git "),
        fill("git reset "),
        f"sed '{fill(' ')}x' a",
        "cat " + fill("a/"),
        "echo " + fill("{a,"),
        "echo " + fill("$a"),
        fill("a=b ") + "ls",
        fill("ls\n"),
        "cat " + fill("src/*"),
        fill("if x; then "),
        "bash -c '" + fill("x ") + "'",
        "x " + fill("a=b=c "),
        "for x in " + fill("a b c ") + "; do git $x; done",
        "for x in a b c d e f g h; do for y in a b c d e f g h; do "
        + fill("git $x $y $x$y; ")
        + "done; done",
        fill("X=$X$X; ") + "git $X",
        "".join(f"X{n}=$X{n + 1}$X{n + 1};" for n in range(3000)) + "git $X0",
        "x " + fill("git $a "),
        fill("git $a; "),
        fill("xargs git {} ") + "x",
        "git " + fill("-c alias.p=push "),
        "git config " + fill("alias.p "),
        fill("env -Sx "),
        "x " + fill("${a:-") + "b",
        fill("alias a='b c'; a;"),
        "x " + fill("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} "),
        "x " + fill("{a,b}"),
        "cat " + fill("{a..z}"),
        "cat " + fill("{a..z} "),
        f"printf '%{fill('0')}n' PATH",
        "sed '" + fill("s/[a/b/;") + "' x",
        "sed '" + fill("sXa e") + "' x",
        fill("awk ") + "x",
        fill("sed s/a/b/ ") + "x",
        "awk '" + fill('{"a" | ') + "' x",
        "vim '" + fill("!a ") + "'",
        "ls )" + fill("a") + "(b)",
        fill("/*?*?*?*[a] ") + "x",
    ],
    ids=lambda command: ascii(command[:16]),
)
def test_a_long_hostile_command_is_ruled_within_seconds(plan: Plan, command: str) -> None:
    began = time.process_time()
    ruling = plan.rule(command, RULES)
    assert time.process_time() - began < 10, "it took fractions of a second when this was written"
    assert len(ruling.rule) <= 600
