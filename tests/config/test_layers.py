"""Defaults < file < environment < flags; secrets; sections of adapters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.homes import EngineSection, Home

from pilothouse.bootstrap.agent_processes import engine_environment
from pilothouse.config import Secret, find_paths
from pilothouse.config.sources import flatten, merge, parse_literal, unflatten

NAMES = st.sampled_from("abc")
TREES = st.recursive(
    st.integers(),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    max_leaves=8,
).filter(lambda tree: isinstance(tree, dict))


@given(lower=TREES, higher=TREES)
def test_a_higher_layer_wins_wherever_it_says_something(
    lower: dict[str, object], higher: dict[str, object]
) -> None:
    leaves = flatten(higher, "higher", 1)
    merged = merge(flatten(lower, "lower"), leaves)
    assert {key: leaf for key, leaf in merged.items() if leaf.source == "higher"} == leaves
    for key, leaf in merged.items():
        assert leaf.source == "higher" or leaf == flatten(lower, "lower")[key]
    assert flatten(unflatten(merged), "x").keys() == merged.keys()


@given(
    file=st.sampled_from([None, "queue", "steer"]),
    variable=st.sampled_from([None, "interrupt", "steer"]),
    flag=st.sampled_from([None, "queue", "collect"]),
)
def test_flags_beat_the_environment_which_beats_the_file(
    tmp_path_factory: pytest.TempPathFactory, file: str | None, variable: str | None, flag: str | None
) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    text = f"[gateway]\nbusy = '{file}'\n" if file else ""
    environ = {"PILOTHOUSE__GATEWAY__BUSY": variable} if variable else {}
    loaded = home.load(text, {"gateway.busy": flag} if flag else None, **environ)
    assert loaded.config.gateway.busy == (flag or variable or file or "collect")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("true", True),
        ('"x"', "x"),
        ("['a:1']", ["a:1"]),
        ("queue", "queue"),
        ("1\ny = 2", "1\ny = 2"),
        ("", ""),
    ],
)
def test_a_variable_is_a_toml_literal_where_it_can_be(text: str, value: object) -> None:
    assert parse_literal(text) == value


def test_a_variable_finds_names_that_it_cannot_spell(home: Home) -> None:
    loaded = home.load("[workspaces.MyApp]\npath = '/'\n", PILOTHOUSE__ENGINES__CLAUDE_CODE__MODEL="opus", PILOTHOUSE__WORKSPACES__MYAPP__MODEL="4")  # fmt: skip
    assert loaded.config.engines["claude-code"].settings == EngineSection(model_name="opus")
    assert loaded.config.workspaces["MyApp"].model == "4"


def test_a_variable_that_looks_like_a_number_may_be_a_text(home: Home) -> None:
    assert home.load(PILOTHOUSE__CHANNELS__TELEGRAM__TOKEN="12345").config.channels[
        "telegram"
    ].settings.token == Secret("12345")


def test_a_section_under_an_alias_is_the_engines_and_its_own_name_wins(home: Home) -> None:
    text = '[engines.cc]\nmodel = "a"\ncommand = "b"\n[engines.claude-code]\nmodel = "c"\n[engines.script]\n'
    loaded = home.load(text, PILOTHOUSE__ENGINES__CC__COMMAND="d")
    settings = loaded.config.engines["claude-code"].settings
    assert (settings.model_name, settings.command) == ("c", "d")
    assert "cc" not in loaded.config.engines
    assert loaded.warnings == ()


def test_an_alias_gives_way_to_the_engine(home: Home) -> None:
    assert home.load("[gateway]\ndefault_engine = 'cc'\n").config.gateway.default_engine == "claude-code"


def test_a_channel_is_on_where_its_section_stands_and_the_terminal_always(home: Home) -> None:
    assert list(home.load().config.channels) == ["terminal"]
    assert home.load("[channels.telegram]\n").config.channels["telegram"].enabled
    text = "[channels.telegram]\nenabled = false\nmode = 'nonsense'\n[channels.terminal]\nenabled = false\n"
    channels = home.load(text).config.channels
    assert (channels["telegram"].enabled, channels["terminal"].enabled) == (False, True)


def test_a_store_without_a_path_gets_one_in_the_data_folder(home: Home) -> None:
    assert home.load().config.store.settings.path == str(home.folder / "pilothouse.db")
    assert home.load("[store]\npath = '/x'\n").config.store.settings.path == "/x"


@pytest.mark.parametrize("name", ["TELEGRAM_TOKEN", "BOT_TOKEN", "PILOTHOUSE__CHANNELS__TELEGRAM__TOKEN"])
def test_a_secret_field_is_picked_from_the_env_file(home: Home, name: str) -> None:
    loaded = home.load("[channels.telegram]\n", secrets=f"{name}=hunter22\n")
    assert loaded.config.channels["telegram"].settings.token.reveal() == "hunter22"
    assert loaded.warnings == ()
    assert "hunter22" in loaded.secrets
    assert "hunter22" not in repr(loaded) + repr(loaded.config)


@pytest.mark.parametrize("name", ["TELEGRAM_TOKEN", "BOT_TOKEN"])
def test_a_secret_field_is_picked_from_the_environment_before_the_env_file(home: Home, name: str) -> None:
    for written in ("", f"{name}=from-file\n", "PILOTHOUSE__CHANNELS__TELEGRAM__TOKEN=from-file\n"):
        loaded = home.load("[channels.telegram]\n", None, written, **{name: "hunter22"})
        assert loaded.config.channels["telegram"].settings.token.reveal() == "hunter22"
        assert loaded.leaves["channels", "telegram", "token"].source == name
        assert "hunter22" in loaded.secrets
        assert loaded.warnings == ()


def test_a_secret_of_a_table_is_picked_from_the_environment_too(home: Home) -> None:
    loaded = home.load("[channels.telegram.hook]\n", TELEGRAM_HOOK_SECRET="hunter22")
    assert loaded.config.channels["telegram"].settings.hook.secret.reveal() == "hunter22"


def test_an_empty_variable_leaves_the_secret_of_the_env_file_in_force(home: Home) -> None:
    loaded = home.load("[channels.telegram]\n", secrets="TELEGRAM_TOKEN=hunter22\n", TELEGRAM_TOKEN="")
    assert loaded.config.channels["telegram"].settings.token.reveal() == "hunter22"


def test_a_secret_that_somebody_set_is_not_looked_for_elsewhere(home: Home) -> None:
    loaded = home.load('[channels.telegram]\ntoken = "${OTHER}"\n', OTHER="hunter22", TELEGRAM_TOKEN="stray")
    assert loaded.config.channels["telegram"].settings.token.reveal() == "hunter22"


def test_in_a_reference_the_environment_counts_before_the_env_file(home: Home) -> None:
    text = "[engines.script]\ncommand = '${A}-${B}'\n"
    loaded = home.load(text, secrets="A=from-file\nB=only-file\n", A="from-environment")
    assert loaded.config.engines["script"].settings.command == "from-environment-only-file"


@pytest.mark.parametrize(
    ("text", "environ", "place"),
    [
        ("", {"TELEGRAM_TOKEN": "a"}, "TELEGRAM_TOKEN in the environment"),
        ("", {}, "{env} (TELEGRAM_TOKEN)"),
        ('token = "a"', {"TELEGRAM_TOKEN": "a"}, "{file}"),
        ('token = "${TELEGRAM_TOKEN}"', {"TELEGRAM_TOKEN": "a"}, "TELEGRAM_TOKEN in the environment"),
        ('token = "${TELEGRAM_TOKEN}"', {}, "{env} (TELEGRAM_TOKEN)"),
        ("", {"PILOTHOUSE__CHANNELS__TELEGRAM__TOKEN": "a"}, "PILOTHOUSE__CHANNELS__TELEGRAM__TOKEN in the"),
    ],
)
def test_a_secret_knows_the_place_that_counts(
    home: Home, text: str, environ: dict[str, Any], place: str
) -> None:
    loaded = home.load(f"[channels.telegram]\n{text}\n", secrets="TELEGRAM_TOKEN=b\n", **environ)
    found = loaded.config.channels["telegram"].settings.token.source
    assert found.startswith(place.format(env=loaded.paths.env_file, file=loaded.paths.config_file))


def test_a_variable_that_a_channel_has_its_token_from_is_kept_from_engines(home: Home) -> None:
    environ = {"TELEGRAM_TOKEN": "a", "TELEGRAM_HOOK_SECRET": "b", "DISCORD_TOKEN": "c", "OTHER_TOKEN": "d"}
    loaded = home.load("[channels.telegram.hook]\n", **environ)
    assert engine_environment(environ | {"PILOTHOUSE__X": "e"}, loaded) == {"OTHER_TOKEN": "d"}


def test_so_is_one_that_the_file_names_for_it(home: Home) -> None:
    environ = {"MY_BOT": "1", "MY_TOKEN": "a", "OTHER_TOKEN": "d", "PLACE": "/"}
    text = '[channels.telegram]\ntoken = "${MY_BOT}:${MY_TOKEN}"\nfolder = "${PLACE}"\n'
    assert engine_environment(environ, home.load(text, **environ)) == {
        "OTHER_TOKEN": "d",
        "PLACE": "/",
    }


def test_a_token_in_the_environment_switches_no_channel_on(home: Home) -> None:
    assert list(home.load(TELEGRAM_TOKEN="hunter22").config.channels) == ["terminal"]


def test_a_reference_is_replaced_and_a_doubled_one_is_not(home: Home) -> None:
    loaded = home.load("[engines.script]\ncommand = '${A}-$${B}-$C'\n", secrets="A=hunter22\n")
    assert loaded.config.engines["script"].settings.command == "hunter22-${B}-$C"


def test_the_env_file_is_for_secrets_alone(home: Home) -> None:
    loaded = home.load(secrets="PILOTHOUSE__GATEWAY__BUSY=queue\n")
    assert loaded.config.gateway.busy == "collect"
    assert ".env is only for secrets" in str(loaded.warnings[0])


def test_env_lines_may_be_quoted_exported_and_commented(home: Home) -> None:
    lines = ["# c", "export A=1 # x", "B='two # x'", 'C="a\\"b\\nc"', "", " D = d#d "]
    text = "".join(f"[workspaces.{n}]\npath = '${{{n}}}'\n" for n in "ABCD")
    found = home.load(text, secrets="\n".join(lines)).config.workspaces
    assert {name: section.path for name, section in found.items()} == {
        "A": "1",
        "B": "two # x",
        "C": 'a"b\nc',
        "D": "d#d",
    }


def test_the_home_is_expanded_in_paths(home: Home) -> None:
    loaded = home.load("[gateway]\ndefault_workspace = '~/x'\n")
    assert loaded.config.gateway.default_workspace == str(Path.home() / "x")


def test_one_variable_moves_every_folder_and_another_the_file_alone() -> None:
    paths = find_paths({"PILOTHOUSE_HOME": "/h", "PILOTHOUSE_CONFIG": "/etc/p.toml"})
    assert (paths.config_file, paths.env_file) == (Path("/etc/p.toml"), Path("/etc/.env"))
    assert (paths.store_file, paths.log_file) == (Path("/h/pilothouse.db"), Path("/h/logs/pilothouse.log"))


def test_a_secret_hides_in_every_form() -> None:
    secret = Secret("hunter22")
    assert "hunter22" not in f"{secret} {secret!r} {[secret]}"
    assert secret == Secret("hunter22") != Secret("other")
    assert not Secret("")


def test_an_adapter_may_ask_for_a_path(home: Home) -> None:
    loaded = home.load("[channels.telegram]\nfolder = '~/x'\n")
    assert loaded.config.channels["telegram"].settings.folder == Path.home() / "x"


def test_the_env_file_never_reaches_our_own_environment(home: Home) -> None:
    before = dict(os.environ)
    home.load("[channels.telegram]\n", secrets="TELEGRAM_TOKEN=hunter22\n")
    assert dict(os.environ) == before
