"""The keys of facts and tallies: a data folder of any earlier version holds them, so none may change."""

from __future__ import annotations

from pilothouse.runtime import facts
from pilothouse.runtime.facts import KeyFamily

KEYS = {
    "ADDED": "added:x",
    "AGENT_GROUP": "agent-group:x",
    "ALLOWED_HOSTS": "hosts:x",
    "ATTENDED": "attended:x",
    "CHAIN": "chain:x",
    "CONFIGURED_ROLES": "audit.roles",
    "DECLINED": "unwanted:x",
    "HEALTH": "health:x",
    "OUTAGE": "outage:x",
    "MOVED": "moved:x",
    "HANDOVER": "handover:x",
    "FORK": "fork:x",
    "NAME": "name:x",
    "PAIRING": "pairing",
    "PAIR_TRIES": "pair:x",
    "PARKED_QUESTION": "parked:x",
    "PICKED_MODE": "mode:x",
    "PRIVATE_CHAT": "home:x",
    "REFUSED_ANSWERS": "refused:x",
    "REFUSED_STRANGERS": "told:x",
    "REMOVAL": "gone:x",
    "SERVED": "served",
    "STOPPED": "stopped:x",
    "STORE_NAME": "store.name",
    "THREADS": "threads:x",
    "TRIGGER": "trigger:x",
    "TRUST": "trust:x",
    "TRUST_JAIL": "trust-jail:x",
    "TRUSTED_CONTENT": "trusted-content:x",
    "USED": "used:x",
    "WATCHERS": "watchers:x",
    "WISHES": "wishes:x",
}


def test_every_key_is_as_earlier_versions_stored_it_and_no_two_are_the_same() -> None:
    made = {name: value for name, value in vars(facts).items() if isinstance(value, str | KeyFamily)}
    keys = {name: made[name] for name in made if name.isupper() and not name.startswith("_")}
    assert {name: key.of("x") if isinstance(key, KeyFamily) else key for name, key in keys.items()} == KEYS
    assert len(set(KEYS.values())) == len(KEYS)
