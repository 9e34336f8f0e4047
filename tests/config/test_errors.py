"""Every mistake is named: file, key, value, what is allowed, and the nearest that is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.config.homes import Home

from pilothouse.config import InvalidConfig, Models, find_paths, load
from pilothouse.core.errors import ConfigError

BUSY = "allowed: collect, queue, steer, interrupt"

MISTAKES = {
    "a broken line": ("[gateway]\nbusy 1\n", "FILE:2:6: this is not valid TOML: Expected '='"),
    "an open text": ("a = 'x", "FILE:1:7: this is not valid TOML"),
    "a wrong choice": (
        "[gateway]\nbusy = 'colect'\n",
        f'FILE: gateway.busy: "colect" is not allowed; {BUSY}; did you mean collect?',
    ),
    "a wrong type": (
        "[gateway]\nshow_cost = 1\n",
        "FILE: gateway.show_cost: 1 is not allowed; allowed: true or false",
    ),
    "a text for a number": (
        "[gateway]\ngrace_s = '5'\n",
        'FILE: gateway.grace_s: "5" is not allowed; allowed: a number of seconds above 0',
    ),
    "a number out of range": (
        "[gateway]\nmax_attempts = 0\n",
        "FILE: gateway.max_attempts: 0 is not allowed; allowed: a whole number of at least 1",
    ),
    "a person without a channel": (
        "[people]\nowners = ['bob']\n",
        "FILE: people.owners: ['bob'] is not allowed; allowed: a list of texts of the form channel:id, such as",
    ),
    "a cap of nothing": (
        "[budget]\nall_usd = 0\n",
        "FILE: budget.all_usd: 0 is not allowed; allowed: a number of dollars above 0",
    ),
    "an unknown time zone": (
        "[budget]\ntime_zone = 'Mars/Base'\n",
        'FILE: budget.time_zone: "Mars/Base" is not a known time zone; use a name like "UTC" or "Europe/Berlin"',
    ),
    "a time zone that leads elsewhere": (
        "[budget]\ntime_zone = '../../etc/passwd'\n",
        "FILE: budget.time_zone:",
    ),
    "a time zone that is no text": (
        "[budget]\ntime_zone = 5\n",
        "FILE: budget.time_zone: 5 is not allowed; allowed: a text",
    ),
    "a value for a section": ("gateway = 3\n", "FILE: gateway: 3 is not allowed; it must be a table"),
    "a value for the store": (
        "store = 'sqlite'\n",
        'FILE: store: "sqlite" is not allowed; it must be a table',
    ),
    "a value for all engines": (
        "engines = ['script']\n",
        "FILE: engines: ['script'] is not allowed; it must be a table",
    ),
    "an unknown engine": (
        "[gateway]\ndefault_engine = 'scrip'\n",
        'FILE: gateway.default_engine: "scrip" is not allowed; '
        "allowed: auto, claude-code, script, torn; did you mean script?",
    ),
    "a disabled engine": (
        "[gateway]\ndefault_engine = 'script'\n[engines.script]\nenabled = false\n",
        'FILE: gateway.default_engine: "script" is not allowed; allowed: auto, claude-code, torn',
    ),
    "an unknown store": (
        "[store]\nkind = 'sqlit'\n",
        'FILE: store.kind: "sqlit" is not allowed; allowed: sqlite; did',
    ),
    "an adapter's choice": (
        "[channels.telegram]\nmode = 'push'\n",
        'FILE: channels.telegram.mode: "push" is not allowed; allowed: polling, webhook',
    ),
    "a nested adapter's key": (
        "[channels.telegram.limits]\nper_minute = 'x'\n",
        'FILE: channels.telegram.limits.per_minute: "x" is not allowed; allowed: a whole number',
    ),
    "an adapter's table": (
        "[channels.telegram]\nproxy = 3\n",
        "FILE: channels.telegram.proxy: 3 is not allowed; allowed: a table",
    ),
    "an adapter's path": (
        "[channels.telegram]\nfolder = 3\n",
        "FILE: channels.telegram.folder: 3 is not allowed; allowed: a path",
    ),
    "an adapter's switch": (
        "[channels.telegram]\nenabled = 'yes'\n",
        'FILE: channels.telegram.enabled: "yes" is not allowed; allowed: false, true',
    ),
    "a workspace without a path": (
        "[workspaces.app]\n",
        "FILE: workspaces.app.path: is missing; it must be a text",
    ),
    "a workspace's engine": (
        "[workspaces.app]\npath = '/'\nengine = 'clade-code'\n",
        'FILE: workspaces.app.engine: "clade-code" is not allowed; allowed: claude-code, script, torn; did you mean',
    ),
    "a reference to nothing": (
        "[engines.script]\ncommand = 'x ${NOPE}'\n",
        'FILE: engines.script.command: "${NOPE}" is not set: put NOPE=… into',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_file_key_value_and_what_is_allowed(home: Home, name: str) -> None:
    text, complaint = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        home.load(text)
    assert complaint.replace("FILE", str(home.file)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_problem_is_told_at_once(home: Home) -> None:
    with pytest.raises(InvalidConfig) as caught:
        home.load("[gateway]\nbusy = 1\ngrace_s = 0\n[log]\nlevel = 'loud'\n")
    assert [problem.key for problem in caught.value.problems] == [
        "gateway.busy",
        "gateway.grace_s",
        "log.level",
    ]


def test_what_means_nothing_is_told_beside_what_is_no_value(home: Home) -> None:
    with pytest.raises(InvalidConfig) as caught:
        home.load(
            "[gateway]\nbusy = 1\ndefault_engine = 'nope'\n"
            "[policy]\napproval_mode = 'wide'\nrules = ['perhaps', 'deny tool Bash']\n"
            "[budget]\nall_usd = 0\ntime_zone = 'Mars/Base'\n"
            "[limits]\nmessages_per_minute = 'many'\n"
            "[workspaces.app]\nengine = 'nope'\nrules = ['perhaps']\n"
        )
    told = [problem.key for problem in caught.value.problems]
    assert len(told) == len(set(told))
    assert set(told) == {
        "gateway.busy",
        "gateway.default_engine",
        "policy.approval_mode",
        "policy.rules",
        "budget.all_usd",
        "budget.time_zone",
        "limits.messages_per_minute",
        "workspaces.app.path",
        "workspaces.app.engine",
        "workspaces.app.rules",
    }


def test_a_bad_variable_is_named_instead_of_the_file(home: Home) -> None:
    with pytest.raises(
        ConfigError, match=r'^PILOTHOUSE__GATEWAY__BUSY: gateway\.busy: "nope" is not allowed'
    ):
        home.load(PILOTHOUSE__GATEWAY__BUSY="nope")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("[gatway]\nx = 1\n", "gatway: is not known and was ignored; did you mean gateway?"),
        ("[gateway]\nbussy = 'queue'\n", "gateway.bussy: is not known and was ignored; did you mean busy?"),
        ("[engines.scirpt]\n", "engines.scirpt: is not known and was ignored; did you mean script?"),
        (
            "[engines.script]\nmodle = 'x'\n",
            "engines.script.modle: is not known and was ignored; did you mean model?",
        ),
        ("[store]\npth = 'x'\n", "store.pth: is not known and was ignored; did you mean path?"),
    ],
)
def test_an_unknown_key_warns_and_changes_nothing(home: Home, text: str, warning: str) -> None:
    assert [str(w) for w in home.load(text).warnings] == [f"{home.file}: {warning}"]


def test_an_unknown_variable_warns_too(home: Home) -> None:
    (warning,) = home.load(PILOTHOUSE__GATEWAY__BUSSY="queue").warnings
    assert (
        str(warning)
        == "PILOTHOUSE__GATEWAY__BUSSY: gateway.bussy: is not known and was ignored; did you mean busy?"
    )


def test_the_section_of_a_plugin_that_did_not_load_is_left_alone(home: Home) -> None:
    loaded = home.load("[engines.torn]\nx = 1\n")
    assert loaded.warnings == ()
    assert loaded.config.engines["torn"].settings == {"x": 1}


def test_files_that_are_no_files_are_named(home: Home) -> None:
    home.file.mkdir()
    with pytest.raises(ConfigError, match="cannot be read: it is not a regular file"):
        home.again()


def test_a_file_that_is_not_text_is_named_with_its_line(home: Home) -> None:
    home.file.write_bytes(b"[gateway]\nbusy = '\xff'\n")
    with pytest.raises(ConfigError, match=r"config.toml:2: is not UTF-8 text"):
        home.again()


def test_a_broken_env_file_is_named_without_its_content(home: Home) -> None:
    with pytest.raises(ConfigError) as caught:
        home.load(secrets="A=1\nhunter22\n")
    assert str(caught.value) == f"{home.secrets}:2: line 2 is not of the form NAME=value"


def test_a_secret_never_stands_in_a_complaint(home: Home) -> None:
    with pytest.raises(ConfigError) as caught:
        home.load(
            "[gateway]\nbusy = '${KEY}'\n[channels.telegram]\ntoken = ['hunter22']\n", secrets="KEY=hunter22"
        )
    assert "hunter22" not in str(caught.value)
    assert '"${KEY}" is not allowed' in str(caught.value)


def test_without_types_sections_stay_plain_and_names_are_not_checked(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[gateway]\ndefault_engine = 'x'\n[channels.y]\nz = 1\n")
    loaded = load(find_paths({"PILOTHOUSE_HOME": str(tmp_path)}), {}, Models())
    assert (loaded.warnings, loaded.config.channels["y"].settings) == ((), {"z": 1})
