"""The allowlist: a variable passes because it is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.processes import BASE_NAMES, allowed_environment

SECRETS = {
    "TELEGRAM_TOKEN": "t",
    "TELEGRAM_WEBHOOK_SECRET": "w",
    "DISCORD_TOKEN": "d",
    "AWS_SECRET_ACCESS_KEY": "a",
    "LD_PRELOAD": "x",
    "PYTHONPATH": "p",
    "HOMEX": "h",
}


def test_secrets_do_not_pass_the_base_list() -> None:
    source = {
        "HOME": "/h",
        "PATH": "/bin",
        "LC_ALL": "C",
        "XDG_DATA_HOME": "/d",
        "https_proxy": "p",
        **SECRETS,
    }
    assert allowed_environment(source) == {k: v for k, v in source.items() if k not in SECRETS}


def test_a_star_stands_for_a_beginning() -> None:
    assert allowed_environment({"CLAUDE_A": "1", "CLAUD": "2"}, ["CLAUDE_*"]) == {"CLAUDE_A": "1"}


def test_extra_wins_over_the_source() -> None:
    assert allowed_environment({"PATH": "/a"}, ["PATH"], {"PATH": "/b", "NEW": "1"}) == {
        "PATH": "/b",
        "NEW": "1",
    }


def test_a_bare_star_is_refused() -> None:
    with pytest.raises(ValueError, match="every variable"):
        allowed_environment({}, ["*"])


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_nothing_passes_that_is_not_named(source: dict[str, str]) -> None:
    starts = tuple(name[:-1] for name in BASE_NAMES if name.endswith("*"))
    assert all(name in BASE_NAMES or name.startswith(starts) for name in allowed_environment(source))
