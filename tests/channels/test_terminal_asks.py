"""Asks at a terminal: every key, what it shows before it is pressed, and what is answered."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calls import with_call
from tests.channels.terminal_rig import Pty
from tests.channels.terminal_scene import DIFF, EDIT, PUSH, SIZES

from pilothouse.channels.terminal.ask_text import ask_help, ask_text, keep_warning
from pilothouse.channels.terminal.draft import Unusable, changed, draft_of
from pilothouse.channels.terminal.receive import ENTER_KEEPS, choices, decide, keys_of
from pilothouse.channels.terminal.style import Palette, cells, fold_line
from pilothouse.core.ask import Ask, Decision, Option, RuleOffer
from pilothouse.core.ids import AskId

BACKSPACE, CTRL_C, CTRL_U, ENTER, ESCAPE = "\x7f", "\x03", "\x15", "\r", "\x1b"
HINT = "Ctrl-D leaves."
PLAIN = Palette(color=False)
FOLDER = "/work/demo"
READY = "press y or n"
"""Shown once the question was on the screen for long enough."""


def test_a_command_says_who_wants_what_and_what_each_lasting_key_would_allow() -> None:
    """S10: the headline is a request, the narrow answers come first, and the command is there once."""
    assert ask_text(PUSH, PLAIN, 80, FOLDER).split("\n") == [
        "? Claude wants to run `git push origin main`",
        "  timeout: 5",
        "  No rule matches.",
        "  y allow once · n deny",
        "  s allow `git push` with any arguments for this session",
        "  a always allow `git push origin` with any arguments here",
        "  m edit · r deny with a reason · d full details · ? help",
    ]


def test_the_object_of_a_request_is_named_once() -> None:
    """S10: /etc/passwd was there five times."""
    asked = Ask(
        AskId("r"),
        "approval",
        "tool: Read /etc/passwd",
        {"tool": "Read", "input": {"file_path": "/etc/passwd"}, "cwd": "/work/demo"},
        why="reads outside the workspace: /etc/passwd",
        asker="Claude",
    )
    assert ask_text(with_call(asked), PLAIN, 80, FOLDER).split("\n")[:3] == [
        "? Claude wants to read /etc/passwd",
        "  Reads outside the workspace.",
        "  y allow once · n deny",
    ]


def test_a_command_of_several_lines_is_shown_below_the_headline() -> None:
    command = "cat <<EOF\nhello\nEOF"
    asked = Ask(
        AskId("r"),
        "approval",
        "cat <<EOF hello EOF",
        {"tool": "Bash", "input": {"command": command}},
        asker="Claude",
    )
    assert ask_text(with_call(asked), PLAIN, 80, FOLDER).split("\n")[:4] == [
        "? Claude wants to run:",
        "  command: cat <<EOF",
        "    hello",
        "    EOF",
    ]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("touch `date`", "touch `date`"),
        ("echo safe \u202e; rm -rf x", "echo safe \\u202e; rm -rf x"),
        ("echo " + "x" * 300, "x" * 70),
    ],
)
def test_a_command_that_does_not_fit_on_the_headline_is_shown_below_it(command: str, shown: str) -> None:
    """A command that was also the title of its ask was nowhere on the screen."""
    payload = {"tool": "Bash", "input": {"command": command}}
    asked = with_call(Ask(AskId("r"), "approval", command, payload, asker="Claude"))
    first, below, *_ = ask_text(asked, PLAIN, 80, FOLDER).split("\n")
    assert first == "? Claude wants to run:"
    assert below.startswith("  command: ") and shown in ask_text(asked, PLAIN, 80, FOLDER)


def test_a_question_is_a_list_and_its_payload_is_not_shown() -> None:
    """S4: options were shown as JSON, and nothing said that a number chooses."""
    options = (Option("1", "SQLite: One file"), Option("2", "Postgres: A server"))
    payload = {"question": "Which database?", "options": [{"label": "SQLite"}], "multiSelect": False}
    asked = Ask(
        AskId("q"), "question", "Which database?", payload, "", options, free_text=True, asker="Claude"
    )
    assert ask_text(asked, PLAIN, 80, FOLDER).split("\n") == [
        "? Claude asks: Which database?",
        "  1 SQLite: One file",
        "  2 Postgres: A server",
        "  Type a number, or your own words; then Enter.",
    ]
    assert decide(asked, "postgres") == decide(asked, "2") == Decision("answer", ("2",))
    assert decide(asked, "none of them") == Decision("answer", text="none of them")


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ("allow command npm test\nallow command touch", "`npm test` and `touch` with any arguments"),
        ("allow path src/*", "changes to src/*"),
        ("allow read /etc/passwd", "reading /etc/passwd"),
        ("allow tool Edit", "the tool Edit"),
        ("allow mcp github", "every tool of the server github"),
    ],
)
def test_a_lasting_answer_names_what_it_would_allow(rule: str, allowed: str) -> None:
    ask = Ask(AskId("a"), "approval", "May I?", offers=(RuleOffer("session", rule),))
    assert f"  s allow {allowed} for this session\n" in ask_text(ask, PLAIN, 80, FOLDER)


@pytest.mark.parametrize(
    ("typed", "verdict"), [("yes", "allow"), ("Allow", "allow"), ("No.", "deny"), ("deny", "deny")]
)
def test_a_plain_word_answers_an_approval(typed: str, verdict: str) -> None:
    decision = decide(PUSH, typed)
    assert decision is not None and decision.verdict == verdict


@pytest.mark.parametrize("typed", ["you should not delete", "yes but first look", "not now", "allow me", ""])
def test_a_sentence_answers_no_approval(typed: str) -> None:
    assert decide(PUSH, typed) is None


def test_a_file_change_shows_its_diff_and_how_much_of_it_is_missing() -> None:
    shown = ask_text(EDIT, PLAIN, 80, FOLDER)
    assert "  -old\n  +new 0\n  +new 1\n" in shown
    assert "  … 24 more lines\n" in shown
    assert "old_string" not in shown, "the diff says it"
    assert len(shown.split("\n")) < 50


@pytest.mark.parametrize("ask", [PUSH, EDIT, SIZES])
def test_at_60_columns_nothing_is_wider_and_nothing_is_cut(ask: Ask) -> None:
    wide, narrow = ask_text(ask, PLAIN, 200, FOLDER), ask_text(ask, PLAIN, 60, FOLDER)
    assert max(map(cells, narrow.split("\n"))) <= 60
    assert "".join(narrow.replace(" · ", "").split()) == "".join(wide.replace(" · ", "").split())


@given(st.text(alphabet="ab \t漢é", max_size=80), st.integers(10, 40))
def test_a_folded_line_loses_nothing_and_fits(line: str, width: int) -> None:
    rows = fold_line(line, width)
    assert "".join(rows) == line.expandtabs(4)
    assert all(cells(row) <= width for row in rows)


def test_session_and_always_are_keys_only_where_a_rule_is_offered() -> None:
    assert keys_of(PUSH) == keys_of(EDIT) == "yn", "all else always needs Enter"
    assert decide(EDIT, "s") is None
    assert decide(PUSH, "a") == Decision("allow", remember="always")


def test_help_names_every_key_and_fits() -> None:
    text = ask_help(PUSH, PLAIN, 60)
    assert [line[2] for line in text.split("\n") if line[2] != " "] == [c.key for c in choices(PUSH)]
    assert max(map(cells, text.split("\n"))) <= 60
    assert "number of an option" in ask_help(SIZES, PLAIN, 60)


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("1,3", ("1", "3")),
        ("3 1", ("3", "1")),
        ("2", ("2",)),
        ("large, small", ("3", "1")),
        ("1,1", ("1",)),
        ("1,9", None),
        ("0", None),
        ("", None),
    ],
)
def test_several_options_are_chosen_by_number_or_name(typed: str, keys: tuple[str, ...] | None) -> None:
    assert decide(SIZES, typed) == (None if keys is None else Decision("answer", keys))
    assert keys_of(SIZES) == "", "more may follow the first"


def test_one_of_many_options_is_chosen_by_its_whole_number() -> None:
    ask = Ask(AskId("q"), "question", "?", options=tuple(Option(f"k{n}", f"L{n}") for n in range(1, 13)))
    assert decide(ask, "12") == Decision("answer", ("k12",))
    assert decide(ask, "1,2") is None
    assert keys_of(ask) == ""
    assert "  12 L12\n  Type a number; then Enter." in ask_text(ask, PLAIN, 60, FOLDER)


def test_a_changed_command_keeps_the_rest_of_what_the_tool_is_given() -> None:
    assert draft_of(PUSH).text == "git push origin main"
    assert changed(PUSH, "git push origin dev") == Decision(
        "allow", input={"command": "git push origin dev", "timeout": 5}
    )
    assert changed(PUSH, " git push origin main ") is None


def test_anything_else_is_changed_as_json_and_only_an_object_will_do() -> None:
    draft = draft_of(EDIT)
    assert json.loads(draft.text) == EDIT.payload["input"] and "\n" not in draft.text
    assert changed(EDIT, '{"file_path": "b.py"}') == Decision("allow", input={"file_path": "b.py"})
    assert changed(EDIT, draft_of(EDIT, in_editor=True).text) is None
    for wrong in ("{", "[1]", '"x"', ""):
        with pytest.raises(Unusable):
            changed(EDIT, wrong)


@pytest.mark.parametrize(
    ("word", "typed", "outcome"),
    [
        ("sizes", "1,3" + ENTER, "answered:answer:1:3"),
        ("push", f"r{ENTER}you know why{ENTER}", "answered:deny:you know why"),
    ],
)
def test_what_is_typed_says_it_however_fast(tmp_path: Path, word: str, typed: str, outcome: str) -> None:
    with Pty(str(tmp_path), columns=120) as terminal:
        terminal.wait_for(HINT)
        terminal.type(word + ENTER)
        terminal.wait_for("Waiting for your answer")
        terminal.type(typed)
        terminal.wait_for("→ Noted.")
        terminal.wait_for(f"You said: {outcome}")


def test_a_command_is_changed_in_the_line(tmp_path: Path) -> None:
    with Pty(str(tmp_path), columns=120) as terminal:
        ask_to_push(terminal)
        terminal.type("m" + ENTER)
        terminal.wait_for("❯ git push origin main")
        terminal.type(f"{CTRL_U}git log{ENTER}")
        terminal.wait_for('You said: answered:allow:{"command": "git log", "timeout": 5}')


@pytest.mark.parametrize("sentence", ["make", "run", "do", "?!", "skip", "also"])
def test_a_sentence_that_begins_like_a_key_is_a_sentence(tmp_path: Path, sentence: str) -> None:
    with Pty(str(tmp_path), columns=120) as terminal:
        ask_to_push(terminal)
        terminal.type(sentence[0])
        terminal.wait_for(f"❯ {sentence[0]}")
        terminal.type(sentence[1:] + ENTER)
        terminal.wait_for(f"You said: {sentence}")
        assert "→ Noted." not in terminal.text


def ask_to_push(terminal: Pty) -> None:
    terminal.wait_for(HINT)
    terminal.type("push" + ENTER)
    terminal.wait_for("Waiting for your answer")


@pytest.mark.parametrize(
    ("key", "kept", "outcome"),
    [
        ("s", "  Enter saves the rule: allow command git push\n", "answered:allow:session"),
        ("a", "  Enter saves the rule: allow command git push origin\n", "answered:allow:always"),
    ],
)
def test_what_keeps_a_rule_shows_it_and_takes_enter(
    tmp_path: Path, key: str, kept: str, outcome: str
) -> None:
    with Pty(str(tmp_path), columns=120) as terminal:
        ask_to_push(terminal)
        terminal.type(key)
        terminal.wait_for(f"{kept}  {ENTER_KEEPS}\n❯ {key}")
        terminal.type(ENTER)
        terminal.wait_for("→ Noted.")
        terminal.wait_for(f"You said: {outcome}")


@pytest.mark.parametrize("back", [CTRL_C, ESCAPE, BACKSPACE])
def test_whoever_goes_back_from_a_key_that_wants_enter_is_asked_still(tmp_path: Path, back: str) -> None:
    with Pty(str(tmp_path), columns=120) as terminal:
        ask_to_push(terminal)
        terminal.type("r")
        terminal.wait_for("❯ r")
        terminal.type(back)
        terminal.wait_until_gone("❯ r")
        terminal.type("y" + ENTER)
        terminal.wait_for("You said: answered:allow\n")
        assert "Stopping…" not in terminal.text


@pytest.mark.parametrize("back", [CTRL_C, ESCAPE, BACKSPACE])
def test_whoever_goes_back_from_a_lasting_key_is_asked_still(tmp_path: Path, back: str) -> None:
    with Pty(str(tmp_path), columns=120) as terminal:
        ask_to_push(terminal)
        terminal.type("a")
        terminal.wait_for(ENTER_KEEPS)
        terminal.type(back)
        terminal.wait_until_gone(ENTER_KEEPS)
        terminal.type("y" + ENTER)
        terminal.wait_for("You said: answered:allow\n")
        assert "Stopping…" not in terminal.text


def test_enter_keeps_no_rule_that_was_not_on_the_screen(tmp_path: Path) -> None:
    with Pty(str(tmp_path), columns=120) as terminal:
        ask_to_push(terminal)
        terminal.type("a" + ENTER)
        terminal.wait_for(f"{ENTER_KEEPS}\n❯ a")
        terminal.type(ENTER)
        terminal.wait_for("You said: answered:allow:always")


def test_the_rule_that_would_be_kept_is_shown_to_its_last_letter() -> None:
    rule = f"allow command {'long' * 30}"
    ask = Ask(AskId("a"), "approval", "May I?", offers=(RuleOffer("always", rule),))
    rows = keep_warning(ask, "a", 60).split("\n")
    assert max(map(cells, rows)) <= 60
    assert f"Enter saves the rule: {rule}".replace(" ", "") in "".join(rows).replace(" ", "")
    assert keep_warning(ask, "al", 60) == keep_warning(ask, "y", 60) == ""


def press_change(terminal: Pty, *, times: int) -> None:
    """The hint of the time before still stands above, so it is counted; the line is filled after it was said."""
    terminal.type("m" + ENTER)
    terminal.wait_for("Change what the tool is given, as JSON", times=times)
    terminal.wait_for('❯ {"file_path": "a.py"')


def test_whoever_looks_or_goes_back_has_answered_nothing(tmp_path: Path) -> None:
    with Pty(str(tmp_path), columns=120) as terminal:
        terminal.wait_for(HINT)
        terminal.type("edit" + ENTER)
        terminal.wait_for("… 24 more lines")
        terminal.wait_for("Waiting for your answer")
        terminal.type("?" + ENTER)
        terminal.wait_for("r  deny it and say why; the engine reads the reason and goes on")
        terminal.type("d" + ENTER)
        terminal.wait_for(DIFF.split("\n")[-1])
        terminal.wait_for("sha256: hash-5")
        press_change(terminal, times=1)
        terminal.type(CTRL_C)
        terminal.wait_for("Not answered yet.")
        press_change(terminal, times=2)
        terminal.type(ENTER)
        terminal.wait_for("Nothing was changed; it is not answered yet.")
        press_change(terminal, times=3)
        terminal.type(CTRL_U + "{oops" + ENTER)
        terminal.wait_for("That is not valid JSON")
        terminal.type(CTRL_U + '{"file_path": "b.py"}' + ENTER)
        terminal.wait_for('You said: answered:allow:{"file_path": "b.py"}')


def editor_in(folder: Path, script: str) -> dict[str, str]:
    """An editor of the person's own: a program that is given a file."""
    path = folder / "my editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"VISUAL": "", "EDITOR": f"'{path}' --wait"}


@pytest.mark.parametrize("talk", [True, False])
def test_what_is_no_line_is_changed_in_the_person_s_own_editor(tmp_path: Path, talk: bool) -> None:
    environ = editor_in(tmp_path, f'cp "$2" {tmp_path}/seen; sed -i s/a.py/c.py/ "$2"; test -t 0')
    with Pty(str(tmp_path), *([] if talk else ["edit"]), columns=140, environ=environ) as terminal:
        if talk:
            terminal.wait_for(HINT)
            terminal.type("edit" + ENTER)
            terminal.wait_for("Waiting for your answer")
            terminal.type("m" + ENTER)
        else:
            terminal.wait_for("Type one of these, then Enter.")
            terminal.type("m\n")
        terminal.wait_for('You said: answered:allow:{"file_path": "c.py"')
    assert json.loads((tmp_path / "seen").read_text()) == EDIT.payload["input"]
    assert not [name for name in os.listdir(tmp_path / "terminal") if name.startswith("change-")]


def test_an_editor_that_fails_answers_nothing(tmp_path: Path) -> None:
    with Pty(str(tmp_path), columns=140, environ=editor_in(tmp_path, "exit 3")) as terminal:
        terminal.wait_for(HINT)
        terminal.type("edit" + ENTER)
        terminal.wait_for("Waiting for your answer")
        terminal.type("m" + ENTER)
        terminal.wait_for("ended with 3. Not answered yet.")
        terminal.type("y" + ENTER)
        terminal.wait_for("You said: answered:allow")


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
def test_one_shot_changes_the_command_on_the_tty(tmp_path: Path, term: str) -> None:
    with Pty(str(tmp_path), "push", columns=120, environ={"TERM": term}) as terminal:
        terminal.wait_for("Type one of these, then Enter.")
        terminal.type("d\n")
        terminal.wait_for("sha256: hash-4")
        terminal.wait_for("Press one of y, n, s, a, m, r, d, ?, then Enter.")
        terminal.type("m\n")
        terminal.wait_for("Change the command")
        if term == "dumb":
            terminal.type("git log\n")
        else:
            terminal.wait_for("❯ git push origin main")
            terminal.type(CTRL_U + "git log" + ENTER)
        terminal.wait_for('You said: answered:allow:{"command": "git log", "timeout": 5}')
        assert terminal.wait() == 0


def test_on_a_dumb_terminal_everything_is_typed_with_enter(tmp_path: Path) -> None:
    with Pty(str(tmp_path), columns=120, environ={"TERM": "dumb"}) as terminal:
        terminal.wait_for(HINT)
        terminal.type("push\n")
        terminal.wait_for("a always allow `git push origin` with any arguments here")
        terminal.type("m\n")
        terminal.wait_for("Change the command")
        terminal.type("git log\n")
        terminal.wait_for('You said: answered:allow:{"command": "git log", "timeout": 5}')
        assert "\x1b" not in terminal.raw
