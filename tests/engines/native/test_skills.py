"""Skills that are accepted and refused as the reference validator does, and which of them a session has."""

from __future__ import annotations

from pathlib import Path

import pytest
from skills_ref import validate
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply

from pilothouse.core.engine import Brief
from pilothouse.core.event import ToolFinished
from pilothouse.core.ids import SessionId
from pilothouse.engines.native.config import NativeConfig
from pilothouse.engines.native.context import gather_instructions
from pilothouse.engines.native.skills import Skill, name_of, parse_skill

LONG = "l" * 65
GOOD = {
    "good": "---\nname: good\ndescription: Does a thing.\n---\nBody",
    "folded": "---\nname: folded\ndescription: >\n  Does a\n  thing.\n---\nBody",
    "quoted": '---\nname: quoted\ndescription: "Does: a thing"\n---\nBody',
    "日本-2": "---\nname: 日本-2\ndescription: x\n---\nBody",
    "grün": "---\nname: gru\u0308n\ndescription: x\n---\nBody",
    "meta": "---\nname: meta\ndescription: x\nlicense: MIT\nmetadata:\n  author: a\n---\nBody",
}
BAD = {
    "none": "no front matter",
    "open": "---\nname: open\ndescription: x\n",
    "noname": "---\ndescription: x\n---\n",
    "nodesc": "---\nname: nodesc\n---\n",
    "Upper": "---\nname: Upper\ndescription: x\n---\n",
    "two--dash": "---\nname: two--dash\ndescription: x\n---\n",
    "-lead": "---\nname: -lead\ndescription: x\n---\n",
    "other": "---\nname: another\ndescription: x\n---\n",
    LONG: f"---\nname: {LONG}\ndescription: x\n---\n",
    "long": f"---\nname: long\ndescription: {'x' * 1025}\n---\n",
    "Äpfel": "---\nname: Äpfel\ndescription: x\n---\n",
    "under_score": "---\nname: under_score\ndescription: x\n---\n",
}
TOLERATED = {
    "more": "---\nname: more\ndescription: x\nversion: 2\n---\nBody",
    "colon": "---\nname: colon\ndescription: Use it so: gently\n---\nBody",
}
"""The validator refuses these. Many people's skills are like them, and nothing is unclear about them."""


def judge(folder: Path, name: str, text: str) -> list[str]:
    """Return what the reference validator says against a skill."""
    (folder / name).mkdir()
    (folder / name / "SKILL.md").write_text(text)
    return validate(folder / name)


@pytest.mark.parametrize("name", GOOD)
def test_a_valid_skill_is_accepted(name: str, tmp_path: Path) -> None:
    assert judge(tmp_path, name, GOOD[name]) == []
    assert isinstance(parse_skill(GOOD[name], f"/x/{name}/SKILL.md"), Skill)


@pytest.mark.parametrize("name", TOLERATED)
def test_what_the_validator_refuses_for_its_form_alone_is_accepted(name: str, tmp_path: Path) -> None:
    assert judge(tmp_path, name, TOLERATED[name])
    assert isinstance(parse_skill(TOLERATED[name], f"/x/{name}/SKILL.md"), Skill)


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_skill_is_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    assert judge(tmp_path, name, BAD[name])
    problem = parse_skill(BAD[name], f"/x/{name}/SKILL.md")
    assert isinstance(problem, str)
    assert problem


def write_skill(folder: Path, name: str) -> str:
    path = folder.resolve() / ".agents/skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: x\n---\nBody")
    return str(path)


def test_a_path_and_a_name_of_one_skill_are_the_same_however_they_are_composed() -> None:
    assert name_of("/x/gru\u0308n/SKILL.md") == name_of("gru\u0308n") == "gr\u00fcn"


@pytest.mark.anyio
async def test_a_rule_about_a_skill_holds_for_its_path_too(make_rig: MakeRig, tmp_path: Path) -> None:
    paths = {name: write_skill(tmp_path / "workspace", name) for name in ("deploy", "good")}
    calls = [Call("skill_load", {"name": word}) for name, path in paths.items() for word in (name, path)]
    replies = [*(Reply(calls=[call]) for call in calls), Reply("Done.")]
    rig = make_rig(*replies, rules=["deny skill deploy", "allow skill *"])
    events = await rig.turn(trusted=True)
    ended = [(event.ok, event.denied) for event in events if isinstance(event, ToolFinished)]
    assert ended == [(False, "matches the rule `deny skill deploy`")] * 2 + [(True, "")] * 2


def test_skills_of_a_trusted_folder_count_and_those_above_it_do_not(tmp_path: Path) -> None:
    home, app = tmp_path / "home", tmp_path / "repo" / "app"
    for name, folder in (("own", home), ("above", app.parent), ("here", app)):
        write_skill(folder, name)
    (app.parent / ".git").mkdir()

    def names(*, trusted: bool) -> list[str]:
        brief = Brief(SessionId("one"), str(app), trusted=trusted)
        told = gather_instructions(NativeConfig(), brief, "", {"HOME": str(home)})
        return [skill.name for skill in told.skills]

    assert names(trusted=True) == ["here", "own"]
    assert names(trusted=False) == ["own"]


@pytest.mark.anyio
async def test_a_skill_that_is_cut_says_so(make_rig: MakeRig, tmp_path: Path) -> None:
    path = Path(write_skill(tmp_path / "workspace", "long"))
    path.write_text(path.read_text() + "x" * 300_000)
    write_skill(tmp_path / "workspace", "short")
    calls = [Call("skill_load", {"name": name}) for name in ("long", "short")]
    rig = make_rig(Reply(calls=calls), Reply("Done."), rules=["allow skill *"])
    await rig.turn(trusted=True)
    told = rig.model.requests[-1].results
    assert ["only the beginning stands here" in text for text in told] == [True, False]
