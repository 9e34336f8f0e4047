"""A script with a mistake is refused as a whole, with words that lead to the mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.script.rig import Rig

from pilothouse.core.errors import EngineError
from pilothouse.engines.script.engine import DEMO
from pilothouse.engines.script.steps import check_script


def one(step: str) -> str:
    return f'[[turn]]\nsteps = [{{ say = "fine" }}]\n[[turn]]\nsteps = [{{ say = "fine" }}, {step}]'


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (one('{ strem = "x" }'), 'turn 2, step 2: unknown step "strem"; did you mean "stream"?'),
        (one('{ xyzzy = "x" }'), 'turn 2, step 2: unknown step "xyzzy"; known are say, stream'),
        (one("{}"), "turn 2, step 2: it is empty; a step is one of say"),
        (one('"say"'), "turn 2, step 2: a step is a table"),
        (one('{ stream = "x", chnk = 3 }'), 'turn 2, step 2: unknown key "chnk"; did you mean "chunk"?'),
        (one('{ stream = "x", chunk = 0 }'), '"chunk" is 0, but must be a whole number above zero'),
        (one('{ stream = "x", chunk = true }'), '"chunk" is True, but must be a whole number above zero'),
        (one("{ say = 3 }"), '"say" is 3, but must be a text'),
        (one('{ say = "a", stream = "b" }'), 'unknown key "stream"; known are say'),
        (one('{ tool = "comand" }'), 'did you mean "command"?'),
        (one('{ fail = "rate-limit" }'), 'did you mean "rate_limit"?'),
        (one('{ fail = "auth", retry_in_s = -1 }'), '"retry_in_s" is -1'),
        (one("{ sleep = inf }"), '"sleep" is inf, but must be a number of seconds from 0 to 86400'),
        (one('{ plan = ["a", 1] }'), "must be a list of texts"),
        (one('{ ask = "x", kind = "aproval" }'), 'did you mean "approval"?'),
        (one('{ ask = "x", call = { kind = "comand" } }'), 'did you mean "command"?'),
        (one('{ ask = "x", call = { paths = ["a"] } }'), 'call: "kind" is missing'),
        (
            one('{ ask = "x", on_allow = [{ say = "a" }, { sey = "b" }] }'),
            'turn 2, step 2, on_allow, step 2: unknown step "sey"; did you mean "say"?',
        ),
        (one('{ image = "nowhere.png" }'), "image: there is no file 'nowhere.png'"),
        (one("{ usage = { cost = 1 } }"), 'unknown key "cost"; did you mean "cost_usd"?'),
        (one('{ usage = "x" }'), "\"usage\" is 'x', but must be a table"),
        (one("{ crash = 256 }"), "must be an exit code from 0 to 255"),
        (one("{ hang = false }"), "must be true"),
        (one('{ flood = 1, into = "tools" }'), 'did you mean "tool"?'),
        ("[[turn]]\nstep = []", 'turn 1: unknown key "step"; did you mean "steps"?'),
        ("[[turn]]\n", 'turn 1: "steps" is missing'),
        ("[[turn]]\nsteps = 3", 'turn 1: "steps" is 3, but must be a list of steps'),
        ("[[turns]]\nsteps = []", 'unknown key "turns"; did you mean "turn"?'),
        ("", "a script needs at least one turn"),
        ("turn = 3", "a script needs at least one turn"),
        ("[[turn]\n", "it is not valid TOML"),
        ("\ud800", "it is not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, script: str, expected: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(script.encode("utf-8", "surrogatepass"))
    problems = check_script(path)
    assert any(expected in problem for problem in problems), problems
    assert all(problem.startswith(f"{path}: ") for problem in problems)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[[turn]]\nsteps = [{ say = 1 }, { say = 2 }]")
    assert len(check_script(path)) == 2


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert "there is no such file" in check_script(tmp_path / "none.toml")[0]
    assert "it cannot be read" in check_script(tmp_path)[0]


def test_the_demo_has_no_mistake() -> None:
    assert check_script(DEMO) == []


@pytest.mark.anyio
async def test_opening_a_session_on_a_bad_script_raises(rig: Rig) -> None:
    async with rig.engine([{"sey": "x"}]) as engine:
        with pytest.raises(EngineError, match=r'script\.toml: turn 1, step 1: unknown step "sey"') as caught:
            async with engine.open(rig.brief()):
                pass
        assert caught.value.failure.kind == "bad_request"
        rig.write([{"say": "mended"}])
        async with engine.open(rig.brief()):
            pass
