"""Logs: one JSON line per event, the turn id from end to end, and no secret in any of them."""

from __future__ import annotations

import base64
import fcntl
import io
import json
import logging
import os
import pty
import re
import struct
import tempfile
import termios
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.json_lines import read_whole_lines

from pilothouse.logs import MARK, Log, Redactor, emergency, open_log, redact, with_fields
from pilothouse.logs.redaction import LOGIN, NAMED, looks_secret
from pilothouse.logs.redaction import SHAPES as PATTERNS
from pilothouse.logs.sinks import FileSink, RotatingFile, clean, clean_entry

PLAIN = st.characters(max_codepoint=126)
LETTERS = st.sampled_from("abcXYZ019_-+/= \"'\\\n%ü€")
CANARIES = st.text(LETTERS, min_size=4, max_size=40).map(lambda text: f"k{text}k")


def plant(canary: str) -> st.SearchStrategy[Any]:
    """Any nested value with the canary somewhere in it, in one of the ways that people spell it."""
    around = st.text("ab'\" ", max_size=3)
    text = st.tuples(around, around).map(lambda ends: f"{ends[0]}{canary}{ends[1]}")
    leaf = st.one_of(
        text,
        text.map(lambda t: t.encode()),
        text.map(ValueError),
        text.map(lambda t: [t]).map(repr),
        st.just(quote(canary, safe="")),
        text.map(lambda t: base64.b64encode(t.encode()).decode()),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=2),
            st.dictionaries(st.one_of(st.just("x"), text), inner, min_size=1, max_size=2),
            st.tuples(inner),
        ),
        max_leaves=4,
    )


@given(data=st.data())
def test_a_planted_canary_never_reaches_a_sink(data: st.DataObject) -> None:
    canary = data.draw(CANARIES)
    value = data.draw(plant(canary))
    screen = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.log"
        with open_log(path, Redactor([canary]), terminal=screen) as log:
            log("thing.happened", field=value)
            log.error("thing.broke", error=RuntimeError(value))
        written = path.read_text()
    for text in (written, screen.getvalue()):
        for spelling in (canary, json.dumps(canary)[1:-1], quote(canary, safe="")):
            assert spelling not in text
        if len(canary) > 9:
            assert base64.b64encode(canary.encode()).decode()[:-4] not in text


SHAPES = [
    "sk-" + "ant-api03-" + "a1B2" * 6,
    "ghp_" + "a1B2c3" * 6,
    "github_pat_" + "a1B2c3" * 6,
    "xoxb-" + "123456789012-abcdef",
    "123456789:" + "AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr",
    "MTIzNDU2Nzg5MDEyMzQ1Njc4" + ".GaBcDe." + "a1B2c3" * 6,
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n" + "-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SHAPES)
def test_a_secret_is_known_by_its_shape(secret: str) -> None:
    assert redact(f"before {secret} after") == f"before {MARK} after"


@given(
    secret=st.one_of(
        *(
            st.from_regex(re.compile(pattern, re.DOTALL), alphabet=PLAIN)
            for pattern in (*PATTERNS, NAMED.pattern, LOGIN.pattern)
        )
    ),
    before=st.text(PLAIN, max_size=20),
    after=st.text(PLAIN, max_size=20),
)
def test_the_quick_look_overlooks_no_shape(secret: str, before: str, after: str) -> None:
    """Another letter at its end keeps the quick look from being taken: what it would say must be the same."""
    text = before + secret + after
    assert redact(text) == redact(f"{text}\n€").removesuffix("\n€")


def test_a23_a_password_in_an_address_is_hidden() -> None:
    for login in ("ada:hunter22", ":hunter22", "ada:hunter@22", "ada:a:b"):
        assert (
            redact(f"proxy http://{login}@10.0.0.1:3128/ failed")
            == f"proxy http://{MARK}@10.0.0.1:3128/ failed"
        )
    for plain in ("ssh://git@github.com/x", "see https://example.org/a:b@c", "http://a:80/ and x@y.org"):
        assert redact(plain) == plain


@pytest.mark.parametrize("scheme", ["Bearer ", "Basic ", "bot ", ""])
def test_what_follows_an_authorization_header_is_hidden(scheme: str) -> None:
    assert "hunter22" not in redact(f"Authorization: {scheme}hunter22")
    assert "hunter22" not in redact(f'{{"authorization": "{scheme}hunter22"}}')


@pytest.mark.parametrize(
    "piece",
    [
        "-eyJ",
        "authorization: ",
        "bearer ",
        "-sk-",
        "1234567:",
        "-----BEGIN PRIVATE KEY-----",
        "MTIz-",
        " ",
        '"',
    ],
)
@pytest.mark.parametrize("head", ["", "authorization:", "bearer", "aws_secret_access_key ="])
def test_a_hostile_text_costs_no_more_than_any_other(head: str, piece: str) -> None:
    """A quadratic pattern would need ten minutes for this; the test's own limit is one."""
    redact(head + piece * (200_000 // len(piece)))


def test_plain_words_stay_as_they_are() -> None:
    text = "turn-3f9k2a ended at 12:30:00 in /home/me/sk-learn with 1234 input_tokens"
    assert redact(text) == text


def test_a_field_that_is_named_like_a_secret_is_hidden(tmp_path: Path) -> None:
    entry = log_one(tmp_path, api_key="short", input_tokens=12, nested={"password": "x1"})
    assert entry["api_key"] == entry["nested"]["password"] == MARK
    assert entry["input_tokens"] == 12


def test_the_longer_of_two_secrets_is_hidden_whole() -> None:
    assert Redactor(["abcd", "abcdefgh"]).redact("abcdefgh abcd") == f"{MARK} {MARK}"


def log_one(folder: Path, **fields: Any) -> dict[str, Any]:
    with open_log(folder / "x.log", Redactor()) as log:
        log("thing.happened", **fields)
    return json.loads((folder / "x.log").read_text().splitlines()[-1])


def test_an_entry_is_one_line_of_json_with_its_time_level_and_event_first(tmp_path: Path) -> None:
    entry = log_one(tmp_path, text="two\nlines", path=Path("/x"))
    assert list(entry)[:3] == ["at", "level", "event"]
    assert entry["text"] == "two\nlines"
    assert entry["path"] == "PosixPath('/x')"


def test_the_turn_id_goes_along_by_itself(tmp_path: Path) -> None:
    with with_fields(turn_id="turn-1"):
        assert log_one(tmp_path)["turn_id"] == "turn-1"
    assert "turn_id" not in log_one(tmp_path)


def test_a_traceback_goes_to_the_file_and_never_to_the_terminal(tmp_path: Path) -> None:
    screen = io.StringIO()
    with open_log(tmp_path / "x.log", Redactor(), terminal=screen) as log:
        try:
            raise ValueError("no such thing")
        except ValueError as error:
            log.error("turn.broke", error=error)
    assert "Traceback" in (tmp_path / "x.log").read_text()
    assert "Traceback" not in screen.getvalue()
    assert "turn.broke" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()


def test_the_level_can_change_while_the_log_is_open(tmp_path: Path) -> None:
    with open_log(tmp_path / "x.log", Redactor()) as log:
        log.debug("first.happened")
        log.level = "debug"
        log.debug("second.happened")
    assert "first" not in (tmp_path / "x.log").read_text()
    assert "second" in (tmp_path / "x.log").read_text()


def test_a_librarys_warning_is_an_entry(tmp_path: Path) -> None:
    with open_log(tmp_path / "x.log", Redactor(["hunter22"])):
        logging.getLogger("vendor.sdk").warning("refused %s", "hunter22")
    entry = json.loads((tmp_path / "x.log").read_text())
    assert (entry["event"], entry["library"], entry["text"]) == (
        "library.warned",
        "vendor.sdk",
        f"refused {MARK}",
    )


def test_a_full_file_is_rotated_and_only_so_many_are_kept(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "x.log", max_bytes=10, keep=2)
    for word in ("one----", "two----", "three--", "four---"):
        file.write(word)
    file.close()
    assert {path.name: path.read_text().strip() for path in tmp_path.iterdir()} == {
        "x.log": "four---",
        "x.log.1": "three--",
        "x.log.2": "two----",
    }
    assert (tmp_path / "x.log").stat().st_mode & 0o777 == 0o600


def test_two_writers_share_a_file_across_a_rotation(tmp_path: Path) -> None:
    ours, theirs = (RotatingFile(tmp_path / "x.log", 10, 1, check_every_s=0) for _ in range(2))
    ours.write("first--")
    theirs.write("second-")
    ours.write("x")
    assert (tmp_path / "x.log").read_text().split() == ["second-", "x"]
    ours.close()
    theirs.close()


def test_what_is_written_before_the_next_look_is_in_the_file_that_was_rotated_away(tmp_path: Path) -> None:
    ours = RotatingFile(tmp_path / "x.log", 10, 1, check_every_s=1000)
    theirs = RotatingFile(tmp_path / "x.log", 10, 1)
    ours.write("a")
    theirs.write("second---")
    ours.write("b")
    assert (tmp_path / "x.log.1").read_text().split() == ["a", "b"]
    ours.write("longer--")
    assert (tmp_path / "x.log").read_text().split() == ["longer--"], "one that seems full is looked at first"
    assert (tmp_path / "x.log.1").read_text().split() == ["second---"]
    ours.close()
    theirs.close()


def events_in(path: Path) -> list[str]:
    return [line["event"] for line in read_whole_lines(path)]


def test_what_one_step_of_an_event_loop_logs_is_written_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.log"

    async def main(log: Log) -> list[list[str]]:
        log("first")
        log("second")
        at_once = events_in(path)
        await anyio.lowlevel.checkpoint()
        after = events_in(path)
        log("third")
        log.warning("fourth")
        loud = events_in(path)
        log("last")
        return [at_once, after, loud]

    with open_log(path, Redactor()) as log:
        seen = anyio.run(main, log)
    two, four = ["first", "second"], ["first", "second", "third", "fourth"]
    assert seen == [[], two, four], "a warning waits for nobody, and keeps its place"
    assert events_in(path) == [*four, "last"], "nothing is lost when the loop ends"


def test_what_is_logged_while_a_line_is_written_stops_nothing(tmp_path: Path) -> None:
    """The collector may run at any moment, and what it frees may complain."""

    class Complaining(RotatingFile):
        # pyrefly: ignore [missing-override-decorator]
        def write(self, lines: str) -> None:
            if "inner" not in lines:
                sink({"event": "inner", "level": "warning"})
            super().write(lines)

    path = tmp_path / "x.log"
    file = Complaining(path, 1_000_000, 1)
    sink = FileSink(file, Redactor(), pytest.fail)
    sink({"event": "outer", "level": "warning"})
    file.close()
    assert sorted(events_in(path)) == ["inner", "outer"]


def test_a_second_event_loop_does_not_wait_for_the_first(tmp_path: Path) -> None:
    path = tmp_path / "x.log"

    async def main(log: Log, event: str) -> list[str]:
        log(event)
        await anyio.lowlevel.checkpoint()
        return events_in(path)

    with open_log(path, Redactor()) as log:
        anyio.run(main, log, "first")
        log("between")
        assert events_in(path) == ["first", "between"], "without a loop it is written as it comes"
        assert anyio.run(main, log, "second") == ["first", "between", "second"]


def test_a_log_that_cannot_be_written_stops_nothing_and_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with open_log(tmp_path / "file" / "x.log", Redactor()) as log:
        log("thing.happened")
        log("thing.happened")
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_the_last_resort_keeps_a_redacted_traceback(tmp_path: Path) -> None:
    assert emergency(tmp_path / "x.log", Redactor(["hunter22"]), ValueError("hunter22"))
    entry = json.loads((tmp_path / "x.log").read_text())
    assert entry["event"] == "program.broke"
    assert "hunter22" not in json.dumps(entry)


def test_a_huge_or_endless_value_is_bounded(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    entry = log_one(tmp_path, text="x" * 100_000, loop=loop, many=list(range(1000)))
    assert len(json.dumps(entry)) < 40_000


def test_what_is_meant_for_people_is_whole_on_the_terminal(tmp_path: Path) -> None:
    screen, complaint = io.StringIO(), "a long complaint " * 20 + "and its end"
    with open_log(tmp_path / "x.log", Redactor(), terminal=screen) as log:
        log.warning("config.reloaded", text=complaint, detail="x" * 500)
    assert complaint in screen.getvalue()
    assert "x" * 101 not in screen.getvalue()


def test_on_a_narrow_terminal_a_long_line_goes_on_under_its_event(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    path = "/a/path/that/is/longer/than/sixty/columns/and/is/never/broken/in/two.toml"
    with os.fdopen(theirs, "w") as screen, open_log(tmp_path / "x.log", Redactor(), terminal=screen) as log:
        log.warning("config.reloaded", text=f"the last good one stays in force, because {path} is broken")
        shown = os.read(ours, 65536).decode()
    os.close(ours)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert len(lines) > 2
    assert all(line.startswith(" " * 9) for line in lines[1:])
    assert all(len(line) <= 60 for line in lines if path not in line)
    assert path in shown


@given(
    st.dictionaries(
        st.sampled_from(("event", "text", "token", "path", "n", "at")),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=30)
        | st.lists(st.sampled_from(("hunter2hunter2", "sk-", "x" * 14, "Bearer ", "y" * 7)), max_size=3).map(
            "".join
        )
        | st.just(["hunter2hunter2"])
        | st.just(b"hunter2hunter2"),
    )
)
def test_the_quick_look_at_an_entry_lets_nothing_pass_that_the_thorough_one_hides(
    entry: dict[str, Any],
) -> None:
    redactor = Redactor(["hunter2hunter2"])
    assert clean_entry(entry, redactor) == clean(entry, redactor)


def test_what_cannot_even_say_its_name_does_not_lose_the_entry() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    entry = clean_entry({"event": "x", "value": Broken()}, Redactor(["hunter2hunter2"]))
    assert "without a repr" in entry["value"]


def test_for_people_exact_values_alone_are_redacted() -> None:
    key = "sk-ant-0123456789-abcdefghij"
    redactor = Redactor([key, "0123456789:token-of-a-bot"])
    assert redactor.redact_known(f"a {key} b") == f"a {MARK} b"
    assert redactor.redact_known(f"a {base64.b64encode(key.encode()).decode()}") == f"a {MARK}=="
    for whole in ("sk-ant-another-that-is-not-ours", "Authorization: Bearer abcdefgh", "", "sk-ant-0"):
        assert redactor.redact_known(whole) == whole, "it may be an example that people asked for"


def test_a_value_that_is_still_arriving_is_redacted() -> None:
    key = "sk-ant-0123456789-abcdefghij"
    redactor = Redactor([key])
    shown = [redactor.redact_known(f"key: {key[:length]}") for length in range(len(key) + 1)]
    assert not any(key[:12] in text for text in shown)
    assert redactor.redact_known(f"{key[:20]} and more") == f"{key[:20]} and more"


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ("123456:AAbbCC", True),
        ("a-password-of-many-words", True),
        ("postgres", False),
        ("pass1", False),
        ("/home/ann/key-1.json", False),
        ("https://example.org/token1", False),
    ],
)
def test_only_a_value_that_is_no_word_and_no_place_is_removed_from_messages(value: str, hidden: bool) -> None:
    assert looks_secret(value) is hidden
