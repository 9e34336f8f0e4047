"""What `doctor` says about jails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.config.homes import MODELS
from tests.isolation.canary import need_jail

from pilothouse.cli.doctor_isolation import check_isolation
from pilothouse.config import Loaded, find_paths, load
from pilothouse.isolation.canaries import read_proofs
from pilothouse.isolation.support import find_support


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of a user without logins."""
    made = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(made))
    return made


def loaded(folder: Path, text: str) -> Loaded:
    (folder / "config.toml").write_text(text)
    environ = {"PILOTHOUSE_HOME": str(folder)}
    return load(find_paths(environ), environ, MODELS)


def test_without_a_jailed_workspace_it_is_a_line_that_needs_nothing(tmp_path: Path) -> None:
    (check,) = check_isolation(loaded(tmp_path, "[isolation]\nkind = 'none'\n"))
    assert check.state == "off"
    assert "no agent is jailed" in check.text


def test_it_names_the_proved_engines_and_what_would_be_missing_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_jail()
    work, tools, other = tmp_path / "work", tmp_path / "tools", tmp_path / "other"
    for folder in (work, tools, other):
        folder.mkdir()
    monkeypatch.setenv("PATH", f"/usr/bin:{tools}:{other}:/no/such")
    text = f"[workspaces.w]\npath = '{work}'\nisolation = 'jail'\nallow_read = ['{tools}']\n"
    home = tmp_path / "home"
    home.mkdir()
    fine, limits, missing = check_isolation(loaded(home, text))
    assert fine.state == "ok"
    assert limits.name == "limits"
    assert "open files in each process" in limits.text
    assert "claude" in fine.text
    assert missing.state == "warn"
    assert str(other) in missing.text
    assert str(tools) not in missing.text


def test_it_names_the_logins_and_the_folders_of_servers_that_are_absent_inside(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_jail()
    work, tools, code, configured = (tmp_path / name for name in ("work", "tools", "code", "configured"))
    for folder in (work, tools, code, configured, home / ".ssh", home / ".aws", home / ".claude"):
        folder.mkdir()
    for file in (home / "key.sh", code / "server.py", home / ".git-credentials"):
        file.write_text("")
    (home / ".claude" / "settings.json").write_text('{"apiKeyHelper": "~/key.sh --now"}')
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CLAUDE_CODE_USE_BEDROCK", raising=False)
    text = f"""
        [workspaces.w]
        path = "{work}"
        isolation = "jail"
        allow_read = ["~/.git-credentials"]
        [mcp.servers.one]
        command = "python3"
        args = ["{code}/server.py"]
        cwd = "{tools}"
        """
    said = list(check_isolation(loaded(configured, text)))[-1].text
    for path in (home / ".ssh", home / "key.sh", code, tools):
        assert f"{path} (" in said
    assert ".git-credentials" not in said
    assert ".aws" not in said
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    assert f"{home}/.aws (" in list(check_isolation(loaded(configured, text)))[-1].text
    shown = f'allow_read = ["~/.git-credentials", "~", "{code}", "{tools}"]'
    settled = text.replace('allow_read = ["~/.git-credentials"]', shown)
    assert [one.name for one in check_isolation(loaded(configured, settled))] == ["isolation", "limits"]


def test_a_workspace_that_cannot_be_jailed_is_named(tmp_path: Path) -> None:
    need_jail()
    text = "[workspaces.w]\npath = '/'\nisolation = 'jail'\n"
    checks = list(check_isolation(loaded(tmp_path, text)))
    assert [one.name for one in checks] == ["isolation", "limits", "isolation"]
    assert checks[2].state == "broken"
    assert "cannot be jailed" in checks[2].text


def test_a_workspace_in_a_container_says_whether_one_can_be_made(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    text = (
        f"[workspaces.w]\npath = '{work}'\nisolation = 'container'\ncontainer = {{runtime = '/no/podman'}}\n"
    )
    *_, check = check_isolation(loaded(home, text))
    assert check.state == "broken"
    assert "'/no/podman' is not there" in check.text
    text = f"[isolation]\nkind = 'container'\ncontainer = {{runtime = '/no/docker'}}\n[gateway]\ndefault_workspace = '{work}'"
    (check,) = check_isolation(loaded(home, text))
    assert "'/no/docker' is not there" in check.text


def test_where_it_is_automatic_doctor_says_what_happens_by_itself(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    settings = loaded(home, f"[workspaces.w]\npath = '/'\n[workspaces.x]\npath = '{work}'\n")
    assert settings.config.isolation.kind == "auto"
    first, *others = check_isolation(settings, [(str(work), False)])
    if os.geteuid() == 0:
        assert (first.state, others) == ("off", [])
        assert "Pilothouse runs as root" in first.text
    elif find_support().problem:
        assert "no agent is jailed" in first.text
        assert others == []
    else:
        assert first.state == "ok"
        assert [one.state for one in others] == ["ok", "warn"], "the limits, and / cannot be jailed"


def test_it_names_the_versions_that_were_proved(tmp_path: Path) -> None:
    need_jail()
    said = [check.text for check in check_isolation(loaded(tmp_path, "[isolation]\nkind = 'jail'\n"))]
    (proved,) = [text for text in said if "proved with" in text]
    assert f"claude {read_proofs()['claude'].version}, codex {read_proofs()['codex'].version}" in proved
