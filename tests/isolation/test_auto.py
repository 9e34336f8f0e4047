"""`isolation = "auto"`: a jail where it was proved, is possible and is wanted; else the reason why there is none."""

from __future__ import annotations

from pathlib import Path

from tests.isolation.canary import Stage, jails, need_jail, no_log
from tests.isolation.test_jail import output, start

from pilothouse.core.isolation import Isolation
from pilothouse.isolation.canaries import may_choose_jail, read_proofs, reason_for_none
from pilothouse.isolation.jail import Jails
from pilothouse.isolation.support import MISSING, Support, find_support
from pilothouse.processes import Launcher

AUTO = Isolation("auto")
A_USER = 1000


def automatic(stage: Stage, folder: Path, support: Support, user: int = A_USER) -> Jails:
    made = Jails(lambda workspace: AUTO, jails(stage, folder).places, no_log, lambda: support, user=user)
    made.version_of = lambda engine: read_proofs()[engine].version
    made.look(str(stage.workspace))
    return made


def test_a_proved_engine_is_jailed_in_a_folder_that_is_not_trusted(stage: Stage, tmp_path: Path) -> None:
    made, place = automatic(stage, tmp_path, Support("/usr/bin/bwrap")), str(stage.workspace)
    assert made.isolation(place, "claude").confines
    assert made.describe(place, "claude") == "jailed, network: open"
    assert not made.isolation(place, "some-agent").confines
    assert "NOT ISOLATED: no jail was proved with the engine some-agent" in made.describe(place, "some-agent")
    assert made.isolation(place).confines, "a script of a schedule has no engine around it"
    made.tools_here = lambda engine: engine == "native"
    assert made.isolation(place, "native").confines, "its commands were proved"
    assert made.describe(place, "native").startswith("commands in a jail, network: open")


def test_in_a_trusted_folder_the_owner_chose(stage: Stage, tmp_path: Path) -> None:
    made, place = automatic(stage, tmp_path, Support("/usr/bin/bwrap")), str(stage.workspace)
    made.note_trust(place, True, False)
    assert not made.isolation(place, "claude").confines
    assert f"pilothouse trust --jail {place}" in made.describe(place, "claude")
    assert "--jail '/a b'" in reason_for_none("/a b", "claude", "open", False, "")
    made.note_trust(place, True, True)
    assert made.isolation(place, "claude").confines
    made.note_trust(place, True, False)
    made.note_trust(place, False, False)
    assert made.isolation(place, "claude").confines, (
        "its settings have changed, so it is not trusted any more"
    )


async def test_where_no_jail_can_be_made_it_runs_open_and_says_why(stage: Stage, tmp_path: Path) -> None:
    place = str(stage.workspace)
    for support, user, why in (
        (Support(problem=MISSING), A_USER, "apt install bubblewrap"),
        (Support("/usr/bin/bwrap"), 0, "runs as root"),
    ):
        made = automatic(stage, tmp_path, support, user)
        assert not made.isolation(place, "claude").confines
        assert made.describe(place, "claude").startswith("NOT ISOLATED: ")
        assert why in made.describe(place, "claude")
        assert (await output(Launcher(made.open), start(stage, "echo ran"))).strip() == "ran"
    at_home = automatic(stage, tmp_path, Support("/usr/bin/bwrap"))
    assert not at_home.isolation(str(stage.home), "claude").confines
    assert "holds the home folder" in at_home.describe(str(stage.home), "claude")


def test_only_a_configured_jail_that_cannot_be_made_is_missing(stage: Stage, tmp_path: Path) -> None:
    def made(isolation: Isolation, support: Support) -> Jails:
        found = Jails(lambda workspace: isolation, jails(stage, tmp_path).places, no_log, lambda: support)
        found.look(place)
        return found

    place, absent, there = str(stage.workspace), Support(problem=MISSING), Support("/usr/bin/bwrap")
    said = made(Isolation("jail", when_missing="open"), absent).missing(place)
    assert said.startswith("Not isolated: ")
    assert "apt install bubblewrap" in said
    for isolation, support in (
        (Isolation("jail", when_missing="open"), there),
        (Isolation("jail"), absent),
        (Isolation("auto", when_missing="open"), absent),
        (Isolation(when_missing="open"), absent),
    ):
        assert made(isolation, support).missing(place) == ""


async def test_what_is_chosen_is_what_is_started(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    made = automatic(stage, tmp_path, find_support())
    script = f"cat {stage.store} || echo hidden"
    assert "hidden" in await output(Launcher(made.open), start(stage, script))
    made.note_trust(str(stage.workspace), True, False)
    assert "the store" in await output(Launcher(made.open), start(stage, script))


def test_the_choice_for_a_trusted_folder_counts_where_jails_are_automatic_and_possible() -> None:
    assert may_choose_jail("auto", A_USER, "")
    assert not may_choose_jail("auto", 0, "")
    assert not may_choose_jail("auto", A_USER, MISSING)
    assert not may_choose_jail("none", A_USER, "")
    assert not may_choose_jail("jail", A_USER, "")
