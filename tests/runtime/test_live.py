"""The live view: for long turns alone, coalesced, moving while a tool is silent, gone at the end, never in the way."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo, until_interrupted
from tests.runtime.rig import MAIN, Rig, only_alive, open_rig

from pilothouse.channels.memory import PERSON, MemoryChannel, Posted
from pilothouse.core.ask import Ask
from pilothouse.core.errors import CannotEdit, Rejected, TryLater, Unconfirmed
from pilothouse.core.event import PlanItem
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.core.message import Address, CommandButton, Content, MessageRef, Part
from pilothouse.core.view import TurnView
from pilothouse.logs import Redactor
from pilothouse.runtime.delivery.changes import remove_later
from pilothouse.runtime.delivery.known_secrets import without_secrets
from pilothouse.runtime.delivery.live import REMOVE_TRIES
from pilothouse.testing.clock import FakeClock


def views(rig: Rig) -> list[Posted]:
    return [posted for posted in rig.channel.sent if posted.parts[0].data.get("kind") == "view"]


async def until_view(rig: Rig, text: str, clock: FakeClock | None = None) -> Posted:
    """The view that says so. A clock that stands still is pushed on a little."""
    with anyio.fail_after(60):
        while True:
            for view in views(rig):
                if text in view.text:
                    return view
            if clock is not None:
                await clock.advance(0.01)
            await anyio.sleep(0.01)


class Stage:
    """A turn that a test leads step by step."""

    def __init__(self) -> None:
        self.go = anyio.Event()

    async def play(self, strings: Strings) -> None:
        await strings.start()
        await strings.say("Let me look.")
        await strings.tool(kind="tool", title="make all")
        await self.go.wait()
        await strings.tool_done()
        await strings.end("All is built.")


async def test_a_quick_turn_shows_no_view(tmp_path: Path) -> None:
    async with open_rig(tmp_path, first_view_s=10) as rig:
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
        await rig.until_idle()
        assert views(rig) == []


async def test_a_long_turn_shows_one_view_that_moves_and_goes_away(tmp_path: Path) -> None:
    stage, clock = Stage(), FakeClock()
    async with open_rig(tmp_path, PuppetEngine(stage.play), clock=clock) as rig:
        await rig.channel.say("build")
        view = await until_view(rig, "make all", clock)
        assert "Let me look" not in view.text, "narration gives way to the activity"
        for elapsed in ("5s", "1m 05s"):
            await clock.advance(5 if elapsed == "5s" else 60)
            await until_view(rig, elapsed, clock)
        stage.go.set()
        await rig.until_said("All is built.")
        await rig.until_true(lambda: all(view.deleted for view in views(rig)))
        assert len(views(rig)) == 1
        assert rig.said() == ["All is built."]


async def test_a_view_that_looks_the_same_is_not_sent_again(tmp_path: Path) -> None:
    stage, clock = Stage(), FakeClock()
    async with open_rig(tmp_path, PuppetEngine(stage.play), clock=clock, edit_every_s=0.01) as rig:
        await rig.channel.say("build")
        await until_view(rig, "make all", clock)
        texts = views(rig)[0].parts
        assert len({part.text for part in texts}) == len(texts)
        stage.go.set()


class Fading(MemoryChannel):
    """Its views never change, and in `main` they fade."""

    # pyrefly: ignore [missing-override-decorator]
    def render_view(self, view: TurnView, now: float) -> Part | None:
        return Part("at work", {"kind": "view"})

    def renew_view_s(self, ref: MessageRef) -> float | None:
        return 20.0 if ref.address.place == "main" else None


async def test_a_view_that_would_fade_is_shown_again_and_one_that_stays_is_not(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(
        tmp_path, PuppetEngine(until_interrupted), Fading(), clock=clock, edit_every_s=0.01
    ) as rig:
        for conversation in ("other", "main"):
            await rig.channel.say("build", conversation)
            await rig.until_live(ConversationId(f"memory:{conversation}"))
        await clock.advance(1)
        await rig.until_true(lambda: len(views(rig)) == 2)
        for times in (2, 3):
            await clock.advance(20)
            await rig.until_true(lambda times=times: max(len(view.parts) for view in views(rig)) == times)
        shown = {view.ref.address.place: len(view.parts) for view in views(rig)}
        assert shown == {"main": 3, "other": 1}


async def test_many_deltas_become_few_edits(tmp_path: Path) -> None:
    go = anyio.Event()

    async def stream(strings: Strings) -> None:
        await strings.start()
        for number in range(2000):
            await strings.say(f"{number} ")
        await go.wait()
        await strings.end()

    async with open_rig(tmp_path, PuppetEngine(stream), edit_every_s=0.2) as rig:
        await rig.channel.say("count")
        await until_view(rig, "1999")
        assert len(views(rig)[0].parts) < 50
        go.set()
        await rig.until_idle()


class BrokenView(MemoryChannel):
    def __init__(self, error: Exception, where: str) -> None:
        super().__init__()
        self._error = error
        self._where = where
        self.tried = 0

    def _fail(self, where: str) -> None:
        if where == self._where:
            self.tried += 1
            raise self._error

    # pyrefly: ignore [missing-override-decorator]
    def render_view(self, view: TurnView, now: float) -> Part | None:
        self._fail("render")
        return super().render_view(view, now)

    # pyrefly: ignore [missing-override-decorator]
    async def edit(self, ref: MessageRef, part: Part) -> None:
        self._fail("edit")
        await super().edit(ref, part)

    # pyrefly: ignore [missing-override-decorator]
    async def delete(self, ref: MessageRef) -> None:
        self._fail("delete")
        await super().delete(ref)


@pytest.mark.parametrize("where", ["render", "edit", "delete"])
@pytest.mark.parametrize(
    "error",
    [Rejected("gone"), TryLater(0.01), RuntimeError("bug"), OSError("network")],
    ids=lambda e: type(e).__name__,
)
async def test_whatever_goes_wrong_with_a_view_the_final_comes_clean(
    tmp_path: Path, where: str, error: Exception
) -> None:
    stage, channel = Stage(), BrokenView(error, where)
    async with open_rig(tmp_path, PuppetEngine(stage.play, echo), channel, edit_every_s=0.02) as rig:
        await rig.channel.say("build")
        await rig.until(lambda tx: (turn := tx.turns.live_in(MAIN)) and turn.began)
        if where != "delete":
            await rig.until_true(lambda: channel.tried)
        else:
            await until_view(rig, "make all")
        stage.go.set()
        await rig.until_said("All is built.")
        await rig.until_true(lambda: channel.tried)
        await rig.channel.say("next")
        await rig.until_said("you said: next")
        assert len(views(rig)) <= 2, "a view that broke is not begun again and again"
        assert rig.said()[:1] == ["All is built."]


class GrowsOld(MemoryChannel):
    """Each message can be changed twice."""

    # pyrefly: ignore [missing-override-decorator]
    async def edit(self, ref: MessageRef, part: Part) -> None:
        posted = next(one for one in self.sent if one.ref == ref)
        if len(posted.parts) == 3 and part.data.get("kind") == "view":
            raise CannotEdit("too old")
        await super().edit(ref, part)


async def test_a_view_that_cannot_be_changed_any_more_goes_on_in_a_new_message(tmp_path: Path) -> None:
    stage, clock = Stage(), FakeClock()
    async with open_rig(tmp_path, PuppetEngine(stage.play), GrowsOld(), clock=clock) as rig:
        await rig.channel.say("build")
        await until_view(rig, "make all", clock)
        with anyio.fail_after(60):
            while len(views(rig)) < 3:
                await clock.advance(5)
                await anyio.sleep(0.01)
        await rig.until_true(lambda: [view.deleted for view in views(rig)][:2] == [True, True])
        stage.go.set()
        await rig.until_said("All is built.")
        await rig.until_true(lambda: all(view.deleted for view in views(rig)))


async def test_a_view_that_can_never_be_changed_is_not_sent_again_and_again(tmp_path: Path) -> None:
    stage, channel = Stage(), BrokenView(CannotEdit("not here"), "edit")
    async with open_rig(tmp_path, PuppetEngine(stage.play), channel, edit_every_s=0.02) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: channel.tried == 2)
        stage.go.set()
        await rig.until_said("All is built.")
        assert len(views(rig)) == 2


async def test_the_view_of_a_parked_turn_goes_away_and_comes_back_with_it(tmp_path: Path) -> None:
    clock, limit, again = FakeClock(), anyio.Event(), anyio.Event()

    async def limited(strings: Strings) -> None:
        await strings.start()
        await strings.tool(kind="tool", title="make one")
        await limit.wait()
        await strings.fail("quota", "The limit is reached.", clock.now() + 60)

    async def goes_on(strings: Strings) -> None:
        await strings.start()
        await strings.tool(kind="tool", title="make two")
        await again.wait()
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(limited, goes_on), clock=clock) as rig:
        await rig.channel.say("build")
        await until_view(rig, "make one", clock)
        limit.set()
        await rig.until_said("continues by itself")
        await rig.until_true(lambda: all(view.deleted for view in views(rig)))
        await clock.advance(100)
        rig.poke()
        view = await until_view(rig, "make two", clock)
        assert "make one" not in view.text
        again.set()
        await rig.until_said("done")
        await rig.until_true(lambda: all(view.deleted for view in views(rig)))


class Unanswered(MemoryChannel):
    """Shows each view, and says of the first `times` sends neither yes nor no."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.tried = 0
        self._first: MessageRef | None = None

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if part.data.get("kind") != "view":
            return await super().send(address, part)
        self.tried += 1
        ref = self._first = self._found() or await super().send(address, part)
        if self.tried <= self.times:
            raise Unconfirmed("no answer")
        return ref

    def _found(self) -> MessageRef | None:
        return None


class FindsAgain(Unanswered):
    finds_views = True

    # pyrefly: ignore [missing-override-decorator]
    def _found(self) -> MessageRef | None:
        return self._first


async def test_a_view_whose_first_send_had_no_answer_is_found_again_and_goes_on(tmp_path: Path) -> None:
    stage, channel = Stage(), FindsAgain(2)
    async with open_rig(
        tmp_path, PuppetEngine(stage.play), channel, edit_every_s=0.01, first_view_s=0, retry_first_s=0.01
    ) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: len(view.parts) > 1 if (view := (views(rig) or [None])[0]) else False)
        stage.go.set()
        await rig.until_said("All is built.")
        await rig.until_true(lambda: all(view.deleted for view in views(rig)))
        assert len(views(rig)) == 1


async def test_a_view_that_never_had_an_answer_is_looked_for_at_the_end(tmp_path: Path) -> None:
    stage, channel = Stage(), FindsAgain(1)
    async with open_rig(
        tmp_path, PuppetEngine(stage.play), channel, first_view_s=0, retry_first_s=3600
    ) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: channel.tried)
        stage.go.set()
        await rig.until_said("All is built.")
        await rig.until_true(lambda: all(view.deleted for view in views(rig)))
        assert len(views(rig)) == 1


class Crowded(FindsAgain):
    """Its limits leave no room for a view."""

    withdraws_views = True

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if part.data.get("kind") == "view":
            self.tried += 1
            await anyio.sleep_forever()
        return await super().send(address, part)


async def test_a_first_view_that_still_waits_when_its_turn_ends_is_never_sent(tmp_path: Path) -> None:
    stage, channel = Stage(), Crowded(0)
    async with open_rig(tmp_path, PuppetEngine(stage.play), channel, first_view_s=0) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: channel.tried)
        stage.go.set()
        await rig.until_said("All is built.")
        await rig.until_idle()
    assert channel.tried == 1
    assert views(rig) == []


async def test_where_a_view_cannot_be_found_again_no_second_one_is_sent(tmp_path: Path) -> None:
    stage, channel = Stage(), Unanswered(1)
    async with open_rig(
        tmp_path, PuppetEngine(stage.play), channel, edit_every_s=0.01, first_view_s=0, retry_first_s=0.01
    ) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: "live.dropped" in [name for name, _ in rig.logged])
        stage.go.set()
        await rig.until_said("All is built.")
        await rig.until_idle()
        assert channel.tried == 1


class NoViews(MemoryChannel):
    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if part.data.get("kind") == "view":
            raise Rejected("bot was kicked")
        return await super().send(address, part)


async def test_a_place_that_takes_no_view_is_logged_without_a_traceback(tmp_path: Path) -> None:
    stage = Stage()
    async with open_rig(tmp_path, PuppetEngine(stage.play), NoViews(), first_view_s=0) as rig:
        await rig.channel.say("build")
        logged = await rig.until_true(
            lambda: [fields["error"] for name, fields in rig.logged if name == "live.dropped"]
        )
        assert logged == ["bot was kicked"], "an exception would come with its traceback"
        stage.go.set()
        await rig.until_said("All is built.")


class SlowToDelete(MemoryChannel):
    # pyrefly: ignore [missing-override-decorator]
    async def delete(self, ref: MessageRef) -> None:
        await anyio.sleep(0.3)
        await super().delete(ref)


async def test_a_gateway_that_stops_takes_its_views_away_before_its_channels_go(tmp_path: Path) -> None:
    stage, quick = Stage(), Stage()
    quick.go.set()
    plays = PuppetEngine(quick.play, stage.play)
    async with open_rig(
        tmp_path, plays, SlowToDelete(), grace_s=0.05, first_view_s=0, edit_every_s=0.01
    ) as rig:
        await rig.channel.say("build")  # a view that came and went before
        await rig.until_said("All is built.")
        await rig.channel.say("build again")
        await until_view(rig, "make all")
        await rig.until_live(status="running")
    assert views(rig)
    assert all(view.deleted for view in views(rig))


class UsedUp(MemoryChannel):
    """The chat has had its share of messages; nothing can be taken away there before a minute is over."""

    is_full = True

    # pyrefly: ignore [missing-override-decorator]
    async def delete(self, ref: MessageRef) -> None:
        if self.is_full:
            raise TryLater(60)
        await super().delete(ref)


@pytest.mark.parametrize("ends", [True, False])
async def test_a_view_that_a_gateway_had_to_leave_is_taken_away_by_the_next_one(
    tmp_path: Path, ends: bool
) -> None:
    """The turn may have ended before, or end with the gateway."""
    stage, channel = Stage(), UsedUp()
    async with open_rig(
        tmp_path,
        PuppetEngine(stage.play),
        channel,
        name="first",
        grace_s=0.05,
        drain_s=0.5,
        first_view_s=0,
        edit_every_s=0.01,
    ) as rig:
        await rig.channel.say("build")
        await until_view(rig, "make all")
        if ends:
            stage.go.set()
            await rig.until_said("All is built.")
    assert [view.deleted for view in views(rig)] == [False]
    channel.is_full = False
    async with open_rig(
        tmp_path, PuppetEngine(), channel, name="second", alive=only_alive("second"), first_view_s=1000
    ) as rig:
        await rig.until_true(lambda: [view.deleted for view in views(rig)] == [True])
        await rig.until_idle()


class Reluctant(MemoryChannel):
    """Refuses more often than a view waits for by itself."""

    refusals = REMOVE_TRIES + 2

    # pyrefly: ignore [missing-override-decorator]
    async def delete(self, ref: MessageRef) -> None:
        if self.refusals:
            self.refusals -= 1
            raise TryLater(0.01)
        await super().delete(ref)


async def test_a_view_that_is_refused_for_long_goes_away_in_the_end(tmp_path: Path) -> None:
    stage = Stage()
    async with open_rig(
        tmp_path, PuppetEngine(stage.play), Reluctant(), first_view_s=0, edit_every_s=0.01
    ) as rig:
        await rig.channel.say("build")
        await until_view(rig, "make all")
        stage.go.set()
        await rig.until_said("All is built.")
        await rig.until_true(lambda: [view.deleted for view in views(rig)] == [True])
        await rig.until_idle()
        assert rig.said() == ["All is built."]


async def test_a_view_that_has_to_stay_for_a_while_holds_up_no_answer(tmp_path: Path) -> None:
    stage, channel, quick = Stage(), UsedUp(), {"grace_s": 0.05, "drain_s": 0.5}
    async with open_rig(
        tmp_path, PuppetEngine(stage.play), channel, name="first", first_view_s=0, edit_every_s=0.01, **quick
    ) as rig:
        await rig.channel.say("build")
        await until_view(rig, "make all")
    async with open_rig(
        tmp_path, PuppetEngine(echo), channel, name="second", alive=only_alive("second"), first_view_s=1000
    ) as rig:
        await rig.until(lambda tx: any(row.attempts for row in tx.outbox.unfinished(MAIN)))
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
        assert [view.deleted for view in views(rig)] == [False]


async def test_an_answer_that_took_the_place_of_a_view_is_never_taken_away(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo), first_view_s=1000) as rig:
        await rig.channel.say("hello")
        (turn,) = await rig.until_ended()
        await rig.until_idle()
        (answer,) = rig.channel.sent
        now = rig.ports.clock.now()
        await rig.store.write(lambda tx: remove_later(tx, rig.ports.ids, turn, answer.ref, now))
        rig.poke()
        await rig.until_idle()
        assert rig.said() == [answer.text]


class Elsewhere(MemoryChannel):
    """Serves another conversation of its kind, and not the one that a test talks in."""

    def holds(self) -> tuple[ConversationId, ...]:
        return (ConversationId("memory:elsewhere"),)


async def test_a_conversation_that_somebody_else_serves_is_shown_by_them(tmp_path: Path) -> None:
    stage = Stage()
    async with open_rig(tmp_path, PuppetEngine(stage.play), Elsewhere(), edit_every_s=0.01) as rig:
        await rig.channel.say("build")
        await rig.until_live(status="running")
        stage.go.set()
        await rig.until(lambda tx: [turn for turn in tx.turns.of(MAIN) if turn.status == "done"])
        assert views(rig) == []


def test_a_view_without_secrets_stays_the_same_object() -> None:
    view = TurnView(plan=(PlanItem("write it"),))
    assert without_secrets(view, Redactor(["a-long-secret"]).redact_known) is view
    assert without_secrets(view, Redactor(["write it"]).redact_known).plan == (PlanItem("[redacted]"),)


def test_the_command_of_a_button_is_not_redacted() -> None:
    content = Content("x", buttons=(CommandButton("Use hunter22x", "/bind hunter22x"),))
    shown = without_secrets(content, Redactor(["hunter22x"]).redact_known)
    assert shown.buttons == (CommandButton("Use [redacted]", "/bind hunter22x"),)


async def test_a_secret_that_the_model_prints_is_shown_neither_while_it_comes_nor_in_the_answer(
    tmp_path: Path,
) -> None:
    key, clock, go = "sk-ant-0123456789-abcdefghij", FakeClock(), [anyio.Event() for _ in range(3)]

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.say(f"one {key[:20]}")
        await go[0].wait()
        await strings.say(f"{key[20:]} two")
        await go[1].wait()
        await strings.tool(kind="command", title=f"curl -H {key} http://localhost")
        await go[2].wait()
        await strings.tool_done()
        await strings.end(f"The key is {key}, as you wished.")

    async with open_rig(tmp_path, PuppetEngine(play), clock=clock, edit_every_s=0.01) as rig:
        rig.ports.redact = Redactor([key]).redact_known
        await rig.channel.say("print your key")
        for step, text in zip(go, ("one [redacted]", "[redacted] two", "curl -H [redacted]"), strict=True):
            await until_view(rig, text, clock)
            step.set()
        await rig.until_said("The key is [redacted], as you wished.")
        shown = [part for posted in rig.channel.sent for part in posted.parts]
        assert key[:20] not in str(shown)


async def test_a_known_secret_is_in_no_reply_to_an_answer_and_in_no_menu(tmp_path: Path) -> None:
    key = "sk-ant-0123456789-abcdefghij"

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.ask(Ask(AskId("a1"), "question", f"Shall I use {key}?", free_text=True))
        await strings.end("ok")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        rig.ports.redact = Redactor([key]).redact_known
        await rig.channel.say(f"use {key}")
        await rig.until_said("Shall I use [redacted]?")
        (row,) = await rig.store.read(lambda tx: tx.asks.open_in(MAIN))
        answered = await rig.channel.answer(row.ask, "answer", text="yes")
        assert "Shall I use [redacted]?" in answered.text
        await rig.until_ended()
        ((label, _),) = await rig.gateway.desk.query("sessions", PERSON, conversation=MAIN)
        assert label.startswith("use [redacted]")
