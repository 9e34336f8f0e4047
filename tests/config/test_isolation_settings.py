"""How far a workspace is shut in: the operator's settings, which its own file may only tighten."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.config.homes import Home

from pilothouse.config import InvalidConfig, isolation_in, read_preferences
from pilothouse.core.isolation import Isolation


def test_a_workspace_has_its_own_settings_before_the_general_ones_and_lists_add_up(home: Home) -> None:
    folder = home.folder / "repo"
    folder.mkdir()
    loaded = home.load(
        f"""
        [isolation]
        kind = "jail"
        allow_read = ["~/tools"]
        allow_hosts = ["docs.example.com"]
        [workspaces.repo]
        path = "{folder}"
        network = "model"
        allow_read = ["/srv/data"]
        allow_hosts = ["*.example.org"]
        """
    )
    here = isolation_in(loaded, folder)
    assert (here.kind, here.network) == ("jail", "model")
    assert here.allow_hosts == ("docs.example.com", "*.example.org")
    assert here.allow_read[0].endswith("/tools")
    assert not here.allow_read[0].startswith("~")
    assert here.allow_read[1:] == ("/srv/data",)
    elsewhere = isolation_in(loaded, home.folder)
    assert (elsewhere.kind, elsewhere.network) == ("jail", "open")


def test_without_settings_nothing_is_isolated(home: Home) -> None:
    assert isolation_in(home.load(), home.folder) == Isolation()


def test_a_workspaces_file_tightens_and_never_loosens(home: Home, tmp_path: Path) -> None:
    loaded = home.load('[isolation]\nkind = "jail"\nnetwork = "model"\n')
    file = tmp_path / ".pilothouse.toml"
    file.write_text('isolation = "none"\nnetwork = "open"\nallow_write = ["/"]\nallow_hosts = ["evil.org"]\n')
    here = isolation_in(loaded, tmp_path)
    assert (here.kind, here.network) == ("jail", "model")
    assert (here.allow_write, here.allow_hosts) == ((), ())
    _, warnings = read_preferences(tmp_path, None)
    assert {(one.key, "may not loosen" in one.text) for one in warnings} == {
        ("allow_write", True),
        ("allow_hosts", True),
    }
    file.write_text('network = "none"\n')
    assert isolation_in(loaded, tmp_path).network == "none"


@pytest.mark.parametrize("host", ["http://docs.example.com", "docs.example.com/simple", "a b", "*", ""])
def test_a_host_that_is_none_is_an_error(home: Home, host: str) -> None:
    with pytest.raises(InvalidConfig, match="names of hosts"):
        home.load(f'[isolation]\nallow_hosts = ["{host}"]\n')
