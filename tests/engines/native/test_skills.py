"""Skills that are accepted and refused as the reference validator does. The verdicts are those of skills-ref 0.1.1."""

from __future__ import annotations

import pytest

from pilothouse.engines.native.skills import Skill, parse_skill

LONG = "l" * 65
GOOD = {
    "good": "---\nname: good\ndescription: Does a thing.\n---\nBody",
    "folded": "---\nname: folded\ndescription: >\n  Does a\n  thing.\n---\nBody",
    "quoted": '---\nname: quoted\ndescription: "Does: a thing"\n---\nBody',
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
    "under_score": "---\nname: under_score\ndescription: x\n---\n",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_valid_skill_is_accepted(name: str) -> None:
    assert isinstance(parse_skill(GOOD[name], f"/x/{name}/SKILL.md"), Skill)


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_skill_is_refused_with_a_reason(name: str) -> None:
    problem = parse_skill(BAD[name], f"/x/{name}/SKILL.md")
    assert isinstance(problem, str)
    assert problem
