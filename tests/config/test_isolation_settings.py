"""How far a workspace is shut in: the operator's settings, which its own file may only tighten."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.config.homes import Home
from tests.lanes.repository import make_repository

from pilothouse.bootstrap.agent_processes import container_instructions
from pilothouse.config import ConfigHolder, InvalidConfig, isolation_in, read_preferences
from pilothouse.core.isolation import Isolation, Limits
from pilothouse.core.lane import NewLane
from pilothouse.isolation.limits import bounds_of
from pilothouse.lanes.operations import Lanes


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


def test_a_section_holds_in_its_folder_and_below_it_and_an_inner_one_comes_before_it(home: Home) -> None:
    inner = home.folder / "shop" / "inner"
    (inner / "deep").mkdir(parents=True)
    (home.folder / "shopping").mkdir()
    (home.folder / "link").symlink_to(inner.parent)
    loaded = home.load(
        f"""
        [workspaces.inner]
        path = "{inner}"
        network = "model"
        allow_read = ["/srv/inner"]
        [workspaces.shop]
        path = "{home.folder / "link"}"
        isolation = "jail"
        network = "none"
        allow_read = ["/srv/shop"]
        limits = {{ processes = 64 }}
        """
    )
    for place in (home.folder / "shop", home.folder / "shop" / "new"):
        here = isolation_in(loaded, place)
        assert (here.kind, here.network, here.limits.processes) == ("jail", "none", 64)
    for place in (inner, inner / "deep"):
        here = isolation_in(loaded, place)
        assert (here.kind, here.network, here.limits.processes) == ("jail", "model", 64)
        assert here.allow_read == ("/srv/shop", "/srv/inner")
    for place in (home.folder, home.folder / "shopping"):
        assert isolation_in(loaded, place).kind == "auto"


@pytest.mark.anyio
async def test_the_worktree_of_a_lane_has_the_sections_of_the_folder_that_it_was_created_from(
    home: Home,
) -> None:
    repository = make_repository(home.folder / "shop")
    (repository / "sub").mkdir()
    settings = f"""
        [workspaces.shop]
        path = "{repository / "sub"}"
        isolation = "jail"
        network = "none"
        """
    loaded = home.load(settings)
    lanes = Lanes(loaded.paths.data_dir)
    first = await lanes.add(NewLane(task="first", folder=str(repository / "sub"), backend="chat"))
    second = await lanes.add(NewLane(task="second", folder=first.worktree, backend="chat"))
    other = await lanes.add(NewLane(task="other", folder=str(repository), backend="chat"))
    await lanes.close(first.id, force=True, keep_worktree=True)
    for place in (second.worktree, f"{second.worktree}/below"):
        here = isolation_in(loaded, place)
        assert (here.kind, here.network) == ("jail", "none")
    assert isolation_in(loaded, other.worktree).kind == "auto"
    own = f"{settings}[workspaces.lane]\npath = '{second.worktree}'\nnetwork = 'model'\n"
    here = isolation_in(home.load(own), second.worktree)
    assert (here.kind, here.network) == ("jail", "model")


def test_without_settings_jails_are_automatic(home: Home) -> None:
    assert isolation_in(home.load(), home.folder) == Isolation("auto")


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


def test_limits_and_containers_are_set_key_by_key_and_a_workspaces_file_lowers_limits_alone(
    home: Home,
) -> None:
    folder = home.folder / "repo"
    folder.mkdir()
    text = f"""
        [isolation]
        kind = "container"
        limits = {{ processes = 500, memory_mb = 4000 }}
        container = {{ runtime = "podman", image = "a:1" }}
        [workspaces.repo]
        path = "{folder}"
        limits = {{ memory_mb = 2000 }}
        container = {{ image = "b:2", rootfs = "~/root" }}
        """
    (folder / ".pilothouse.toml").write_text(
        'limits = { processes = 9000 }\ncontainer = { image = "evil" }\n'
    )
    here = isolation_in(home.load(text), folder)
    assert here.limits == Limits(processes=500, memory_mb=2000)
    assert here.own_limits == Limits(processes=9000)
    assert bounds_of(here).processes == 500
    assert (here.container.runtime, here.container.image) == ("podman", "b:2")
    assert here.container.rootfs.endswith("/root")
    assert here.container.rootfs.startswith("/")
    assert here.container.global_folder == str(home.folder / "global")
    _, warnings = read_preferences(folder, None)
    assert [(one.key, "may not loosen" in one.text) for one in warnings] == [("container", True)]


def test_a_workspaces_file_cannot_trade_a_jail_for_nothing(home: Home, tmp_path: Path) -> None:
    loaded = home.load('[isolation]\nkind = "jail"\nwhen_missing = "open"\n')
    assert isolation_in(loaded, tmp_path).when_missing == "open"
    (tmp_path / ".pilothouse.toml").write_text('isolation = "container"\n')
    here = isolation_in(loaded, tmp_path)
    assert (here.kind, here.when_missing) == ("jail", "open"), "only jails were proved"
    here = isolation_in(home.load('[isolation]\nkind = "none"\nwhen_missing = "open"\n'), tmp_path)
    assert (here.kind, here.when_missing) == ("container", "refuse")


@pytest.mark.parametrize("limits", ["processes = 3", "memory_mb = -1", 'open_files = "many"'])
def test_limits_that_leave_no_room_are_refused(home: Home, limits: str) -> None:
    with pytest.raises(InvalidConfig, match=r"isolation\.limits"):
        home.load(f"[isolation.limits]\n{limits}\n")


def test_the_two_instruction_files_count_in_a_container_and_a_folders_own_if_it_is_trusted(
    home: Home, tmp_path: Path
) -> None:
    loaded = home.load('[isolation]\nkind = "container"\n')
    holder = ConfigHolder(loaded, lambda: loaded)
    shared = str(home.folder / "global" / "CLAUDE.md")
    assert container_instructions(holder, str(tmp_path), False) == (shared,)
    assert container_instructions(holder, str(tmp_path), True) == (shared, str(tmp_path / "CLAUDE.md"))
    jailed = home.load('[isolation]\nkind = "jail"\n')
    assert container_instructions(ConfigHolder(jailed, lambda: jailed), str(tmp_path), True) == ()


@pytest.mark.parametrize(
    "text",
    [
        'isolation = "jail"\nnetwork = "none"\nbusy = "nonsense"\n',
        'isolation = "jial"\n',
        "[[[",
        "x" * 70_000,
    ],
)
def test_a_workspaces_file_that_cannot_be_read_isolates_the_most(
    home: Home, tmp_path: Path, text: str
) -> None:
    (tmp_path / ".pilothouse.toml").write_text(text)
    for settings in ("", '[isolation]\nkind = "jail"\nnetwork = "model"\n'):
        here = isolation_in(home.load(settings), tmp_path)
        assert (here.kind, here.network, here.when_missing) == ("jail", "none", "refuse")
    here = isolation_in(home.load('[isolation]\nkind = "container"\n'), tmp_path)
    assert (here.kind, here.network) == ("container", "none")


def test_a_link_in_place_of_a_workspaces_file_isolates_the_most(home: Home, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('isolation = "none"\n')
    (tmp_path / ".pilothouse.toml").symlink_to(tmp_path / "other.toml")
    here = isolation_in(home.load(), tmp_path)
    assert (here.kind, here.network) == ("jail", "none")
