"""Any ask at all, for tests of how a channel shows it."""

from __future__ import annotations

from hypothesis import strategies as st

from pilothouse.core.ask import Ask, AskKind, Option, Remember, RuleOffer, hash_payload
from pilothouse.core.ids import AskId

TEXT = st.text(max_size=200)
KINDS: tuple[AskKind, ...] = ("approval", "question", "plan")
REMEMBER: tuple[Remember, ...] = ("once", "session", "always")


@st.composite
def asks(draw: st.DrawFn, most_options: int) -> Ask:
    payload = draw(st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.lists(TEXT)), max_size=4))
    payload = {key.encode(errors="replace").decode(): value for key, value in payload.items()}
    return Ask(
        AskId(draw(st.from_regex(r"ask-[a-z0-9]{12}", fullmatch=True))),
        draw(st.sampled_from(KINDS)),
        draw(TEXT),
        payload,
        hash_payload({"x": draw(st.integers())}),
        tuple(Option(str(n), label) for n, label in enumerate(draw(st.lists(TEXT, max_size=most_options)))),
        draw(st.booleans()),
        many=draw(st.booleans()),
        why=draw(TEXT),
        preview=draw(st.one_of(st.just(""), st.text(max_size=3000))),
        offers=tuple(RuleOffer(one, draw(TEXT)) for one in draw(st.sets(st.sampled_from(REMEMBER)))),
    )
