"""Pacing against a clock that is played, and a Telegram that counts: no limit is ever broken, no final ever lost."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.channels.telegram.pace import ARRIVES_S, REMEMBERED, Kind, Limits, Pacer, Request

LIMITS = Limits()


@dataclass
class Telegram:
    """Counts what arrives, as Telegram publishes its limits; a request arrives somewhere between start and answer."""

    arrived: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    finals: dict[str, float] = field(default_factory=dict)
    everything: list[float] = field(default_factory=list)
    forbidden_until: dict[str, float] = field(default_factory=dict)

    def arrive(self, chat: str, at: float, *, kind: Kind, group: bool) -> None:
        assert at >= self.forbidden_until.get(chat, 0.0), "retry_after was not obeyed"
        seen = self.arrived[chat]
        last = self.finals.get(chat, -9.0) if kind == "final" else seen[-1] if seen else -9.0
        assert at - last >= 1.0 - 1e-6, "two in one second in one chat; only a final may follow a view sooner"
        if kind == "final":
            self.finals[chat] = at
        if group:
            assert sum(old > at - 60 for old in seen) < 20, "more than 20 a minute in a group"
        assert sum(old > at - 1 for old in self.everything) < 30, "more than 30 a second"
        seen.append(at)
        self.everything.append(at)


@dataclass
class Play:
    """A pacer, a clock and a network whose delays are drawn."""

    rng: random.Random
    latest_s: float = 0.4
    refuse: float = 0.0
    pacer: Pacer = field(default_factory=Pacer)
    telegram: Telegram = field(default_factory=Telegram)
    sent: list[tuple[float, Request]] = field(default_factory=list)
    now: float = 0.0

    def run(self, offers: list[tuple[float, Request]], until: float = 1e9) -> None:
        order = count()
        agenda = [(at, next(order), "offer", request, 0.0) for at, request in offers]
        heapq.heapify(agenda)
        while agenda or self.pacer.wake_at(self.now) is not None:
            wake_at = self.pacer.wake_at(self.now)
            at = min(
                agenda[0][0] if agenda else 1e12, max(wake_at, self.now) if wake_at is not None else 1e12
            )
            if at > until or at >= 1e12:
                return
            self.now = at
            while agenda and agenda[0][0] <= self.now:
                _, _, what, request, after_s = heapq.heappop(agenda)
                self._happen(what, request, after_s)
            while (request := self.pacer.next(self.now)) is not None:
                answer_at, what, after_s = self._send(request)
                heapq.heappush(agenda, (answer_at, next(order), what, request, after_s))

    def _happen(self, what: str, request: Request, after_s: float) -> None:
        match what:
            case "offer":
                self.pacer.offer(request, self.now)
            case "refused":
                self.pacer.refused(request, after_s, self.now)
            case _:
                self.sent.append((self.now, request))
                self.pacer.done(request, self.now)

    def _send(self, request: Request) -> tuple[float, str, float]:
        takes_s = self.rng.uniform(0.0, self.latest_s)
        arrives_at = self.now + self.rng.uniform(0.0, takes_s)
        chat = str(request.chat)
        self.telegram.arrive(chat, arrives_at, kind=request.kind, group=request.group)
        if self.rng.random() >= self.refuse:
            return self.now + takes_s, "done", 0.0
        after_s = float(self.rng.randint(1, 20))
        self.telegram.forbidden_until[chat] = self.now + takes_s + after_s
        return self.now + takes_s, "refused", after_s

    def finals(self) -> list[tuple[float, Request]]:
        return [(at, request) for at, request in self.sent if request.kind == "final"]


def request(kind: Kind, chat: str, body: object = None) -> Request:
    return Request(chat, kind, key=f"{chat}:view", body=body, group=chat.startswith("g"))


CHATS = st.sampled_from(["p1", "p2", "p3", "g1", "g2"])
OFFERS = st.lists(
    st.tuples(
        st.floats(0, 90, allow_nan=False),
        st.builds(request, st.sampled_from(["final", "removal", "view", "view"]), CHATS, st.integers(0, 5)),
    ),
    max_size=120,
)


@given(
    OFFERS, st.randoms(use_true_random=False), st.sampled_from([0.0, 0.4, 3.0]), st.sampled_from([0.0, 0.1])
)
@settings(deadline=None, max_examples=150)
def test_no_limit_is_broken_and_every_final_arrives_in_order(
    offers: list[tuple[float, Request]], rng: random.Random, latest_s: float, refuse: float
) -> None:
    offers.sort(key=lambda offer: offer[0])
    play = Play(rng, latest_s, refuse)
    play.run(offers)
    for chat in ("p1", "p2", "p3", "g1", "g2"):
        wanted = [r for _, r in offers if r.kind == "final" and r.chat == chat]
        assert [r for _, r in play.finals() if r.chat == chat] == wanted


@given(OFFERS, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=100)
def test_the_newest_view_is_what_stands_in_the_end(
    offers: list[tuple[float, Request]], rng: random.Random
) -> None:
    offers.sort(key=lambda offer: offer[0])
    views = [(at, r) for at, r in offers if r.kind == "view"]
    play = Play(rng)
    play.run(views)
    for chat in {r.chat for _, r in views}:
        last = [r for _, r in views if r.chat == chat][-1]
        assert [r.body for _, r in play.sent if r.chat == chat][-1] == last.body


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=4)
def test_thirty_chats_that_stream_at_once_break_nothing_and_finals_come_soon(seed: int) -> None:
    """Each chat shows a view every half second for a minute, and ends with a final; one in three is a group."""
    rng = random.Random(seed)
    offers: list[tuple[float, Request]] = []
    ends: dict[str, float] = {}
    for number in range(30):
        chat = f"{'g' if number % 3 == 0 else 'p'}{number}"
        ends[chat] = rng.uniform(20, 60)
        steps = int(ends[chat] * 2)
        offers += [(step * 0.5 + rng.random() / 4, request("view", chat, step)) for step in range(steps)]
        offers.append((ends[chat], request("final", chat)))
    play = Play(rng, latest_s=0.15)
    play.run(sorted(offers, key=lambda offer: offer[0]))
    delays = sorted(at - ends[str(r.chat)] for at, r in play.finals())
    assert len(delays) == 30
    assert delays[int(len(delays) * 0.95)] <= 1.5


@given(st.randoms(use_true_random=False), st.integers(1, 200))
@settings(deadline=None, max_examples=40)
def test_a_hot_chat_does_not_slow_another(rng: random.Random, burst: int) -> None:
    hot = [(rng.uniform(0, 30), request("final", "p1", n)) for n in range(burst)]
    calm = [(10.0, request("final", "p2"))]
    play = Play(rng, latest_s=0.1)
    play.run(sorted(hot + calm, key=lambda offer: offer[0]), until=60.0)
    (delay,) = [at - 10.0 for at, r in play.finals() if r.chat == "p2"]
    assert delay <= 0.1 + 1e-6


def test_a_final_does_not_wait_for_the_view_before_it_and_a_view_waits_for_the_final() -> None:
    pacer, view = Pacer(), request("view", "p1", 1)
    pacer.offer(view, 0.0)
    assert pacer.next(0.0) is view
    final = request("final", "p1")
    pacer.offer(final, 0.1)
    assert pacer.next(0.1) is None, "one request of a chat is in flight at a time"
    pacer.done(view, 0.2)
    assert pacer.next(0.2) is final
    pacer.done(final, 0.3)
    pacer.offer(request("view", "p1", 2), 0.3)
    assert (pacer.next(0.4), pacer.wake_at(0.4)) == (None, 1.3)


def test_a_refused_chat_waits_exactly_as_long_as_it_was_told_and_nobody_else_does() -> None:
    pacer = Pacer()
    first = request("final", "p1")
    pacer.offer(first, 0.0)
    assert pacer.next(0.0) is first
    assert pacer.refused(first, 17.0, 0.5)
    other = request("final", "p2")
    pacer.offer(other, 0.6)
    assert pacer.next(0.6) is other
    assert pacer.next(17.49) is None
    assert pacer.wake_at(17.0) == 17.5
    assert pacer.next(17.5) is first


def test_a_refused_view_gives_way_to_a_newer_one() -> None:
    pacer = Pacer()
    old, new = request("view", "p1", 1), request("view", "p1", 2)
    pacer.offer(old, 0.0)
    assert pacer.next(0.0) is old
    pacer.offer(new, 0.1)
    assert not pacer.refused(old, 5.0, 0.2)
    assert pacer.next(5.2) is new


def test_a_refused_final_goes_before_those_that_came_after_it() -> None:
    pacer = Pacer()
    first, second = request("final", "p1", 1), request("final", "p1", 2)
    pacer.offer(first, 0.0)
    assert pacer.next(0.0) is first
    pacer.offer(second, 0.1)
    pacer.refused(first, 2.0, 0.2)
    assert pacer.next(3.0) is first


def test_a_view_that_waits_is_replaced_and_the_one_it_replaces_is_given_back() -> None:
    pacer = Pacer()
    pacer.offer(request("final", "p1"), 0.0)
    pacer.next(0.0)
    old, new = request("view", "p1", 1), request("view", "p1", 2)
    assert pacer.offer(old, 0.1) is None
    assert pacer.offer(new, 0.2) is old


def test_a_view_that_changes_nothing_is_not_sent() -> None:
    pacer = Pacer()
    first = request("view", "p1", "same")
    pacer.offer(first, 0.0)
    assert pacer.next(0.0) is first
    while_it_flies, after = request("view", "p1", "same"), request("view", "p1", "same")
    assert pacer.offer(while_it_flies, 0.1) is while_it_flies
    pacer.done(first, 0.2)
    assert pacer.offer(after, 5.0) is after
    assert pacer.next(5.0) is None


def test_a_view_goes_again_once_its_message_is_gone() -> None:
    pacer = Pacer()
    first = request("view", "p1", "same")
    pacer.offer(first, 0.0)
    pacer.next(0.0)
    pacer.done(first, 0.1)
    assert pacer.forget("p1:view") == []
    assert pacer.offer(request("view", "p1", "same"), 5.0) is None


def test_a_view_that_was_not_taken_may_be_tried_again() -> None:
    pacer = Pacer()
    first = request("view", "p1", "same")
    pacer.offer(first, 0.0)
    pacer.next(0.0)
    pacer.done(first, 0.1, shown=False)
    assert pacer.offer(request("view", "p1", "same"), 5.0) is None


def test_views_in_a_group_leave_room_for_finals() -> None:
    rng = random.Random(1)
    views = [(n * 0.5, request("view", "g1", n)) for n in range(240)]
    finals = [(60.0, request("final", "g1", n)) for n in range(3)]
    play = Play(rng, latest_s=0.1)
    play.run(sorted(views + finals, key=lambda offer: offer[0]))
    assert [at <= 64.0 for at, _ in play.finals()] == [True] * 3


def test_what_is_withdrawn_is_not_sent() -> None:
    pacer = Pacer()
    unwanted = request("final", "p1")
    pacer.offer(unwanted, 0.0)
    assert pacer.withdraw(unwanted)
    assert pacer.next(0.0) is None
    assert not pacer.withdraw(unwanted)


def test_many_chats_that_rest_are_forgotten() -> None:
    pacer, now = Pacer(), 0.0
    for number in range(3000):
        now += 1.0
        one = request("final", f"p{number}")
        pacer.offer(one, now)
        assert pacer.next(now) is one
        pacer.done(one, now)
    assert len(pacer) <= 1100


def test_a_chat_whose_only_request_was_withdrawn_is_forgotten_like_any_other() -> None:
    pacer, now = Pacer(), 0.0
    unwanted = request("final", "p")
    pacer.offer(unwanted, now)
    pacer.withdraw(unwanted)
    for number in range(REMEMBERED + 5):
        now += 2.0
        one = request("final", f"p{number}")
        pacer.offer(one, now)
        assert pacer.next(now) is one
        pacer.done(one, now)
    assert len(pacer) < 100


def test_answers_that_do_not_come_hold_up_a_final_for_some_seconds_at_most() -> None:
    pacer = Pacer()
    for number in range(LIMITS.all_most):
        pacer.offer(request("final", f"p{number}"), 0.0)
        assert pacer.next(number / 100) is not None
    last = request("final", "p")
    pacer.offer(last, 1.0)
    assert pacer.next(2.0) is None
    assert pacer.wake_at(2.0) == ARRIVES_S
    assert pacer.next(ARRIVES_S) is last
