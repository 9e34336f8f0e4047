"""A profile becomes arguments: what is not named is absent, and what is ours stays hidden."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.isolation import KINDS, NETWORKS, Isolation, tightened
from pilothouse.isolation.profile import Mount, Profile, is_within, jail_arguments, mounts, refusal

names = st.sampled_from(["a", "b", "data", "home", "work"])
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
profiles = st.builds(
    Profile,
    workspace=paths,
    home=st.just("/home/user"),
    private_home=st.just("/var/scratch"),
    read=st.lists(paths, max_size=3).map(tuple),
    write=st.lists(paths, max_size=3).map(tuple),
    hidden=st.lists(paths.map(lambda path: Mount("empty", path)), max_size=3).map(tuple),
    own=st.lists(paths.map(lambda path: Mount("read", path)), max_size=2).map(tuple),
    system=st.lists(paths.map(lambda path: Mount("read", path)), max_size=2).map(tuple),
    shares_network=st.booleans(),
    is_root=st.booleans(),
)


def shown(profile: Profile, path: str) -> Mount | None:
    """The last mount that covers a path: what the program finds there."""
    covering = [mount for mount in mounts(profile) if is_within(path, mount.target)]
    return covering[-1] if covering else None


@given(profiles, paths)
def test_a_path_that_no_mount_names_is_absent(profile: Profile, path: str) -> None:
    given_paths = [profile.workspace, profile.home, *profile.read, *profile.write]
    given_paths += [mount.target for mount in (*profile.system, *profile.own, *profile.hidden)]
    if not any(is_within(path, above) for above in given_paths):
        assert shown(profile, path) is None


@given(profiles)
def test_what_is_ours_is_hidden_whatever_the_operator_allows(profile: Profile) -> None:
    for cover in profile.hidden:
        found = shown(profile, cover.target)
        assert found is None or found.kind == "empty" or found.target == profile.home


def test_what_is_ours_is_hidden_under_every_name_that_a_folder_has() -> None:
    ours = Mount("hide_file", "/dotfiles/config/pilothouse/config.toml")
    alias = Mount("read", "/home/user/.config", "/dotfiles/config")
    made = mounts(Profile("/work", "/home/user", "/var/scratch", aliases=(alias,), hidden=(ours,)))
    assert made[-2:] == [
        Mount("hide_file", "/home/user/.config/pilothouse/config.toml"),
        Mount("write", "/work"),
    ]


def test_a_workspace_among_what_is_ours_is_there_though_a_folder_around_it_is_shown() -> None:
    ours, work = Mount("empty", "/data/ours"), "/data/ours/trees/shop"
    profile = Profile(work, "/home/user", "/var/scratch", read=("/data",), hidden=(ours,))
    assert shown(profile, work) == Mount("write", work)
    assert shown(profile, "/data/ours/trees") == ours


@given(profiles)
def test_every_jail_drops_capabilities_and_has_its_own_processes(profile: Profile) -> None:
    words = jail_arguments(profile, ["program", "--cap-add"])
    options, program = words[: words.index("--")], words[words.index("--") + 1 :]
    assert program == ["program", "--cap-add"]
    assert {"--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"} <= set(options)
    assert options[options.index("--cap-drop") + 1] == "ALL"
    assert "--cap-add" not in options
    assert ("--unshare-net" in options) is not profile.shares_network
    assert ("--uid" in options) is profile.is_root


def test_a_workspace_that_holds_everything_is_refused() -> None:
    assert "cannot be jailed" in refusal("/", "/home/user", ())
    assert "holds the home folder" in refusal("/home", "/home/user", ())
    assert "holds the home folder" in refusal("/home/user", "/home/user", ())
    assert "own folders" in refusal("/data/work", "/home/user", ("/data",))
    assert refusal("/home/user/work", "/home/user", ("/data",)) == ""
    assert refusal("/home/users", "/home/user", ()) == ""


def test_the_worktree_of_a_lane_may_be_jailed_and_nothing_else_of_ours() -> None:
    hidden, lanes = ("/data", "/data/pilothouse.db"), "/data/worktrees"
    assert refusal("/data/worktrees/fix-1", "/home/user", hidden, lanes) == ""
    for place in ("/data", "/data/lanes", "/data/worktrees", "/data/worktrees-2/fix-1"):
        assert "own folders" in refusal(place, "/home/user", hidden, lanes)


@given(st.sampled_from(KINDS), st.sampled_from(NETWORKS), st.sampled_from(KINDS), st.sampled_from(NETWORKS))
def test_a_workspaces_own_file_only_tightens(kind: str, network: str, own: str, own_network: str) -> None:
    before = Isolation(kind, network=network, allow_hosts=("a",))  # pyrefly: ignore[bad-argument-type]
    after = tightened(before, own, own_network)  # pyrefly: ignore[bad-argument-type]
    assert KINDS.index(after.kind) >= KINDS.index(before.kind)
    assert (after.kind == "none") is (before.kind == own == "none")
    assert after.kind != "container" or before.kind in ("none", "container"), "it would hold its keys"
    assert NETWORKS.index(after.network) >= NETWORKS.index(before.network)
    assert after.allow_hosts == before.allow_hosts
    assert tightened(before, None, None) == before
