"""What people choose to keep: the exact rule that the ask offered, saved with the answer, for a session or a workspace."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import msgspec
from tests.calls import with_call
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import MAIN, Rig, open_rig
from tests.runtime.test_trust import replace

from pilothouse.core.ask import Ask, RuleOffer
from pilothouse.core.ids import AskId, RuleId, SessionId
from pilothouse.core.policy import RuleRow, Ruling, Site, parse_rule
from pilothouse.core.store import Store, Tx
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.policy.paths import Filesystem
from pilothouse.runtime.asks.rules import (
    Folder,
    RulePolicy,
    WorkspaceRules,
    drop_rule,
    find_folder,
    keep_rule,
    kept_rules,
)
from pilothouse.runtime.ports import new_id

ENV = PolicyEnv(Filesystem())


class LatePolicy:
    """The house's policy, once there is a store."""

    inner: RulePolicy
    configured = WorkspaceRules()

    def open(self, store: Store) -> None:
        self.inner = RulePolicy(store, partial(decide, env=ENV), lambda workspace: self.configured)

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        return await self.inner.judge(ask, site)


def running(command: str, folder: Path) -> PuppetEngine:
    """Asks to run a command, every turn."""
    payload = {"tool": "Bash", "input": {"command": command}, "cwd": str(folder)}
    ask = with_call(Ask(AskId("a"), "approval", command, payload))

    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(ask)
        await strings.end(f"told: {decision.verdict} {decision.text}")

    return PuppetEngine(*[play] * 6)


async def workspace_of(rig: Rig) -> str:
    sessions = await rig.store.read(lambda tx: tx.sessions.of(MAIN))
    return sessions[0].workspace


async def rules_in(rig: Rig) -> list[RuleRow]:
    return await rig.store.read(lambda tx: tx.rules.list())


async def test_an_always_is_kept_for_the_workspace_and_honoured_in_a_new_session(tmp_path: Path) -> None:
    policy = LatePolicy()
    async with open_rig(tmp_path, running("pytest -q", tmp_path), policy=policy) as rig:
        policy.open(rig.store)
        await rig.channel.say("go")
        ask = await rig.until_asked()
        assert ask.why == "not on your allow list: pytest"
        assert [offer.rule for offer in ask.offers] == ["allow glob pytest -q"] * 2
        await rig.channel.answer(ask, "allow", remember="always")
        await rig.until_ended(1)
        (row,) = await rules_in(rig)
        assert (row.rule, row.session_id, row.workspace) == (
            "allow glob pytest -q",
            None,
            os.path.realpath(await workspace_of(rig)),
        )
        audited = [row.what for row in await rig.store.read(lambda tx: tx.audit.list())]
        assert "rule.added" in audited
        await rig.channel.say("/new")
        await rig.channel.say("again")
        await rig.until_ended(2)
        assert not await rig.store.read(lambda tx: tx.asks.open_in(MAIN))
        await rig.store.write(lambda tx: drop_rule(tx, row.id, "ann", 1.0))
        await rig.channel.say("and again")
        await rig.until_asked()


async def test_a_rule_for_the_session_dies_with_it(tmp_path: Path) -> None:
    policy = LatePolicy()
    async with open_rig(tmp_path, running("pytest -q", tmp_path), policy=policy) as rig:
        policy.open(rig.store)
        await rig.channel.say("go")
        await rig.channel.answer(await rig.until_asked(), "allow", remember="session")
        await rig.until_ended(1)
        await rig.channel.say("the same session")
        await rig.until_ended(2)
        (row,) = await rules_in(rig)
        assert row.session_id
        await rig.channel.say("/new")
        await rig.channel.say("a new one")
        await rig.until_asked()


async def test_only_what_was_offered_is_kept(tmp_path: Path) -> None:
    policy = LatePolicy()
    async with open_rig(tmp_path, running("pytest $(id)", tmp_path), policy=policy) as rig:
        policy.open(rig.store)
        await rig.channel.say("go")
        ask = await rig.until_asked()
        assert ask.offers == ()
        forged = msgspec.structs.replace(ask, offers=(RuleOffer("always", "allow tool *"),))
        refused = await rig.channel.answer(forged, "allow", remember="always")
        assert (refused.accepted, "only be allowed once" in refused.text) == (False, True)
        await rig.channel.answer(forged, "allow")
        await rig.until_ended(1)
        assert await rules_in(rig) == []


async def test_a_no_and_a_plain_yes_keep_nothing(tmp_path: Path) -> None:
    policy = LatePolicy()
    async with open_rig(tmp_path, running("pytest", tmp_path), policy=policy) as rig:
        policy.open(rig.store)
        for count, (verdict, remember) in enumerate((("deny", "always"), ("allow", "once")), 1):
            await rig.channel.say("go")
            await rig.channel.answer(await rig.until_asked(), verdict, text="no", remember=remember)
            await rig.until_ended(count)
        assert await rules_in(rig) == []


async def test_a_rule_that_denies_is_told_to_the_engine_and_nobody_is_asked(tmp_path: Path) -> None:
    policy = LatePolicy()
    policy.configured = WorkspaceRules((parse_rule("deny command rm"),))
    async with open_rig(tmp_path, running("sudo env X=1 rm a", tmp_path), policy=policy) as rig:
        policy.open(rig.store)
        await rig.channel.say("go")
        await rig.until_said("told: deny matches the rule `deny command rm`")
        assert not await rig.store.read(lambda tx: tx.asks.open_in(MAIN))


async def test_a_workspace_may_narrow_the_mode_and_never_widen_it(tmp_path: Path) -> None:
    policy = LatePolicy()
    async with open_rig(tmp_path) as rig:
        policy.open(rig.store)
        ask = with_call(
            Ask(AskId("a"), "approval", "x", {"tool": "Browser", "input": {}, "cwd": str(tmp_path)})
        )
        full, least = Site(str(tmp_path), mode="full-access"), Site(str(tmp_path))
        assert (await policy.judge(ask, full)).outcome == "allow"
        policy.configured = WorkspaceRules(at_most="minimal")
        assert (await policy.judge(ask, full)).outcome == "ask"
        policy.configured = WorkspaceRules(at_most="full-access")
        assert (await policy.judge(ask, least)).outcome == "ask"


async def test_a_folder_that_took_the_place_of_another_has_its_denials_and_not_its_allowances(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()

    def keep(tx: Tx) -> None:
        for line in ("allow command make", "deny command rm"):
            keep_rule(tx, new_id, find_folder(str(folder)), parse_rule(line), "ann", 1.0)
        keep_rule(tx, new_id, Folder(), parse_rule("allow command everywhere"), "ann", 1.0)

    async with open_rig(tmp_path) as rig:
        await rig.store.write(keep)
        held = [
            str(rule) for rule in await rig.store.read(lambda tx: kept_rules(tx, str(folder), SessionId("s")))
        ]
        assert held == ["allow command make", "deny command rm", "allow command everywhere"]
        replace(folder)
        held = [
            str(rule) for rule in await rig.store.read(lambda tx: kept_rules(tx, str(folder), SessionId("s")))
        ]
        assert held == ["deny command rm", "allow command everywhere"]
        shutil.rmtree(folder)
        held = [
            str(rule) for rule in await rig.store.read(lambda tx: kept_rules(tx, str(folder), SessionId("s")))
        ]
        assert held == ["deny command rm", "allow command everywhere"]


async def test_a_kept_rule_that_cannot_be_read_makes_everything_ask(tmp_path: Path) -> None:
    policy = LatePolicy()
    async with open_rig(tmp_path) as rig:
        policy.open(rig.store)
        broken = RuleRow(RuleId("r"), "", "", "allow everything always", "ann", 1.0)
        await rig.store.write(lambda tx: tx.rules.add(broken))
        ask = with_call(
            Ask(AskId("a"), "approval", "x", {"tool": "TodoWrite", "input": {}, "cwd": str(tmp_path)})
        )
        assert (await policy.judge(ask, Site(str(tmp_path), mode="full-access"))).outcome == "ask"


async def test_where_the_store_cannot_be_read_nothing_is_allowed(tmp_path: Path) -> None:
    policy = LatePolicy()
    async with open_rig(tmp_path) as rig:
        policy.open(rig.store)
    ask = with_call(
        Ask(AskId("a"), "approval", "x", {"tool": "TodoWrite", "input": {}, "cwd": str(tmp_path)})
    )
    assert (await policy.judge(ask, Site(str(tmp_path), mode="full-access"))).outcome == "ask"
