"""Rules and modes in the configuration: which layer wins, and that a repository can only take away."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from tests.config.homes import Home

from pilothouse.bootstrap.binding import read_pick
from pilothouse.bootstrap.policy import ConfiguredRules, own_files
from pilothouse.config import WORKSPACE_FILE_NAME, ConfigHolder, find_paths, mode_in, narrowing_of
from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import AskId
from pilothouse.core.policy import MODES, Site
from pilothouse.policy.decide import PolicyEnv, decide, tool_class
from pilothouse.policy.paths import Filesystem


@pytest.mark.parametrize(
    ("flag", "variable", "special", "general"),
    list(product([None, "full-access"], [None, "trusted"], [None, "minimal"], [None, "trusted"])),
)
def test_flag_beats_environment_beats_workspace_beats_default(
    home: Home,
    tmp_path: Path,
    flag: str | None,
    variable: str | None,
    special: str | None,
    general: str | None,
) -> None:
    lines = [f"[policy]\napproval_mode = '{general}'"] if general else []
    lines += [
        f"[workspaces.shop]\npath = '{tmp_path}'",
        *([f"approval_mode = '{special}'"] if special else []),
    ]
    loaded = home.load(
        "\n".join(lines) + "\n",
        {"policy.approval_mode": flag} if flag else None,
        **({"PILOTHOUSE_APPROVAL_MODE": variable} if variable else {}),
    )
    assert mode_in(loaded, tmp_path) == (flag or variable or special or general)
    assert mode_in(loaded, tmp_path.parent) == (flag or variable or general)


def test_the_long_variable_says_the_same_as_the_short_one(home: Home, tmp_path: Path) -> None:
    loaded = home.load(PILOTHOUSE__POLICY__APPROVAL_MODE="trusted", PILOTHOUSE_APPROVAL_MODE="minimal")
    assert mode_in(loaded, tmp_path) == "trusted"


@pytest.mark.parametrize("where", ["PILOTHOUSE_APPROVAL_MODE", "PILOTHOUSE__POLICY__APPROVAL_MODE"])
def test_an_unknown_mode_in_the_environment_names_the_variable(home: Home, where: str) -> None:
    with pytest.raises(ConfigError, match=f'{where}.*"loose" is not allowed.*full-access'):
        home.load("", None, "", **{where: "loose"})


def test_a_rule_that_cannot_be_read_is_an_error_that_names_its_place(home: Home) -> None:
    with pytest.raises(ConfigError) as caught:
        home.load("[policy]\nrules = ['deny']\n[workspaces.x]\npath = '/x'\nrules = ['allow foo bar']\n")
    assert "policy.rules" in str(caught.value)
    assert "workspaces.x.rules" in str(caught.value)


def test_rules_come_from_the_house_the_workspace_and_its_file_in_that_order(
    home: Home, tmp_path: Path
) -> None:
    loaded = home.load(
        f"[policy]\nrules = ['deny command rm']\n[workspaces.x]\npath = '{tmp_path}'\nrules = ['allow command make']\n"
    )
    (tmp_path / WORKSPACE_FILE_NAME).write_text("rules = ['ask tool Write']\napproval_mode = 'trusted'\n")
    told = ConfiguredRules(ConfigHolder(loaded, lambda: loaded))
    here = told(str(tmp_path))
    assert list(map(str, here.rules)) == ["deny command rm", "allow command make", "ask tool Write"]
    assert here.at_most == "trusted"
    elsewhere = told(str(tmp_path.parent))
    assert list(map(str, elsewhere.rules)) == ["deny command rm"]
    assert elsewhere.at_most == "full-access"


def test_a_repository_can_only_take_away(tmp_path: Path) -> None:
    file = tmp_path / WORKSPACE_FILE_NAME
    file.write_text("rules = ['allow tool *', 'deny command rm']\napproval_mode = 'full-access'\n")
    found = narrowing_of(tmp_path)
    assert list(map(str, found.rules)) == ["deny command rm"]
    assert found.at_most == "full-access", "which is what holds where nobody narrows"


@pytest.mark.parametrize(
    "text", ["rules = ['deny comand rm']", "approval_mode = 'loose'", "nonsense", "rules = 7"]
)
def test_a_repository_file_that_cannot_be_read_takes_away_the_most(tmp_path: Path, text: str) -> None:
    (tmp_path / WORKSPACE_FILE_NAME).write_text(text)
    assert narrowing_of(tmp_path).at_most == "minimal"


def test_a_repository_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    file = tmp_path / WORKSPACE_FILE_NAME
    assert narrowing_of(tmp_path).rules == ()
    file.write_text("rules = ['deny command rm']\n")
    assert len(narrowing_of(tmp_path).rules) == 1
    file.write_text("rules = ['deny command rm', 'ask tool Write']\n")
    assert len(narrowing_of(tmp_path).rules) == 2
    file.unlink()
    assert narrowing_of(tmp_path).rules == ()


@pytest.mark.parametrize(
    ("lines", "picked"),
    [
        (["\n"], "minimal"),
        (["2\n"], "trusted"),
        (["full-access\n"], "full-access"),
        (["7\n", "x\n", "3\n"], "full-access"),
        (["7\n", "x\n", "y\n"], None),
        ([""], None),
    ],
)
def test_a_mode_is_picked_by_number_or_by_name_and_enter_is_the_narrowest(
    lines: list[str], picked: str | None
) -> None:
    said = iter(lines)
    assert read_pick(lambda: next(said)) == picked
    assert picked is None or picked in MODES


def test_a_home_folder_and_what_is_above_it_are_minimal_in_every_mode(home: Home, tmp_path: Path) -> None:
    loaded = home.load("[policy]\napproval_mode = 'full-access'\n")
    told = ConfiguredRules(ConfigHolder(loaded, lambda: loaded))
    own = Path.home().resolve()
    for folder in (own, *own.parents):
        assert told(str(folder)).at_most == "minimal", folder
    assert told(str(tmp_path)).at_most == "full-access"


def test_the_files_of_pilothouse_are_its_configuration_secrets_data_and_store(home: Home) -> None:
    loaded = home.load()
    own = own_files(loaded.paths, loaded.config)
    for file in (loaded.paths.config_file, loaded.paths.env_file, loaded.paths.state_dir / "x.sock"):
        assert any(str(file).startswith(one) for one in own), file
    assert str(loaded.paths.data_dir) in own


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a configuration in the platform's place, and a workspace."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    (tmp_path / "work" / "src").mkdir(parents=True)
    file = find_paths({}).config_file
    file.parent.mkdir(parents=True)
    file.write_text("")
    return tmp_path.resolve()


def full_access(workspace: Path, call: Call, **environ: str) -> tuple[str, str]:
    """Return the ruling and the class of a call, with the files that are really Pilothouse's own."""
    env = PolicyEnv(Filesystem(), own_files(find_paths(environ), Home(workspace.parent).load().config))
    ruling = decide(
        Ask(AskId("a"), "approval", "x", call=call), (), Site(str(workspace), mode="full-access"), env
    )
    return ruling.outcome, tool_class(call, str(workspace), env)


@pytest.mark.parametrize(
    "command",
    [
        "cp config.toml ~/.config/pilothouse/",
        "tar xf e.tar -C ~/.config/pilothouse",
        "rm -rf ~/.config/pilothouse",
        "cd ~/.config/pilothouse && cp x .",
        "cp x ~/.config/pilothouse/workspaces/w/PERMISSIONS.json",
        "sed -i s/a/b/ ~/.config/pilothouse/*.toml",
        "cat ~/.config/*/config.toml",
        'cat "$HOME"/.config/*/config.toml',
        "cat ~/.config/p?lothouse/config.toml",
        "cat ~/.config/pilothouse/{config.toml,x}",
        "cat ~/.con{x,f}ig/pilothouse/config.toml",
        "F=~/.config/pilothouse; cat $F/config.toml",
        'D=.config; cat "$HOME/$D/pilothouse/config.toml"',
        "cat /proc/self/root/root/.config/pilothouse/config.toml",
    ],
)
def test_the_folder_of_the_configuration_is_named_by_no_detour(machine: Path, command: str) -> None:
    work = machine / "work"
    assert full_access(work, Call("command", "Bash", str(work), command)) == ("ask", "own")


def test_a_file_of_the_owner_about_a_workspace_is_one_of_pilothouse(machine: Path) -> None:
    work, project = machine / "work", machine / "project"
    file = "~/.config/pilothouse/workspaces/w/PERMISSIONS.json"
    assert full_access(work, Call("change", "Write", str(work), paths=(file,))) == ("ask", "own")
    named = {"PILOTHOUSE_CONFIG": str(project / "config.toml")}
    for path, expected in {
        "config.toml": ("ask", "own"),
        ".env": ("ask", "own"),
        "workspaces/w/PERMISSIONS.json": ("ask", "own"),
        "src/a.py": ("allow", "ordinary"),
    }.items():
        assert full_access(project, Call("change", "Write", str(project), paths=(path,)), **named) == expected


@pytest.mark.parametrize(
    "command",
    [
        "ls src/**/*.ts",
        "ls {src,x}",
        "ls ~/*.txt",
        "cp ~/Downloads/{a,b} .",
        'sed -n "/$pattern/p" a',
        "cat /proc/cpuinfo",
        'PATH="$HOME/bin:$PATH" make',
        "ls ~/.config/git",
    ],
)
def test_full_access_asks_about_no_pattern_that_hardly_means_a_file_of_pilothouse(
    machine: Path, command: str
) -> None:
    work = machine / "work"
    assert full_access(work, Call("command", "Bash", str(work), command))[0] == "allow"


def test_a_wrong_pick_is_told_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    """P26: the question was repeated without a word."""
    said = iter(["hello\n", "1\n"])
    assert read_pick(lambda: next(said)) == "minimal"
    assert capsys.readouterr().err == "Type 1, 2 or 3, or press Enter for 1.\n"
