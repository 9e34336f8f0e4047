"""`pilothouse rules`: listed with where they were said, added, removed; a wrong one says what is wrong."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import House
from tests.runtime.test_trust import replace

from pilothouse.cli.rules import NO_RULES


def listed(house: House) -> list[dict[str, Any]]:
    done = house.run("rules", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rules"]


def test_without_rules_the_way_to_one_is_told_and_no_store_is_made(house: House) -> None:
    done = house.run("rules")
    assert (done.returncode, done.stdout) == (0, f"{NO_RULES}\n")
    assert not (house.home / "pilothouse.db").exists()


def test_a_rule_is_added_listed_and_removed(house: House) -> None:
    added = house.run("rules", "add", "deny", "command", "git", "push", "--force")
    assert added.returncode == 0, added.stderr
    (rule,) = listed(house)
    assert rule["rule"] == "deny command git push --force"
    assert rule["workspace"] == str(house.home.resolve())
    assert rule["id"] in added.stdout
    assert "already" in house.run("rules", "add", "deny command git push --force").stdout
    table = house.run("rules", "list").stdout
    assert rule["id"] in table and "deny command git push --force" in table
    removed = house.run("rules", "remove", rule["id"])
    assert "Removed: deny command git push --force" in removed.stdout
    assert listed(house) == []
    again = house.run("rules", "remove", rule["id"])
    assert again.returncode == 1 and "There is no rule" in again.stderr


def test_a_rule_may_hold_everywhere_and_in_another_folder(house: House) -> None:
    (house.home / "shop").mkdir()
    assert house.run("rules", "add", "--everywhere", "deny path ~/.ssh/**", "--json").returncode == 0
    assert house.run("rules", "add", "allow glob npm run *", "--workspace", "shop").returncode == 0
    assert [(rule["rule"], rule["workspace"]) for rule in listed(house)] == [
        ("deny path ~/.ssh/**", "everywhere"),
        ("allow glob npm run *", str(house.home.resolve() / "shop")),
    ]
    assert house.run("rules", "add", "deny tool X", "--workspace", "nowhere").returncode == 1


def test_rules_of_files_are_listed_with_their_file(house: House) -> None:
    (house.home / "shop").mkdir()
    (house.home / "shop" / ".pilothouse.toml").write_text("rules = ['ask tool Write']\n")
    house.config.write_text(
        "[policy]\nrules = ['deny command rm']\n"
        f"[workspaces.shop]\npath = '{house.home}/shop'\nrules = ['allow command make']\n"
    )
    assert [(rule["rule"], rule["source"].rpartition("/")[2], rule["id"]) for rule in listed(house)] == [
        ("deny command rm", "config.toml", ""),
        ("allow command make", "config.toml", ""),
        ("ask tool Write", ".pilothouse.toml", ""),
    ]


def test_a_wrong_rule_is_an_error_wherever_it_stands(house: House) -> None:
    done = house.run("rules", "add", "alow command ls")
    assert done.returncode == 1 and "did you mean allow?" in done.stderr
    house.config.write_text("[policy]\nrules = ['deny comand rm']\n")
    done = house.run("config", "check")
    assert done.returncode == 1
    assert "policy.rules" in done.stderr and "did you mean command?" in done.stderr


def test_a_mode_that_does_not_exist_is_a_hard_error(house: House) -> None:
    for words, variable in (
        (("chat", "--approval-mode", "loose", "hi"), "OTHER"),
        (("up", "--approval-mode", "loose"), "OTHER"),
        (("chat", "hi"), "PILOTHOUSE_APPROVAL_MODE"),
        (("chat", "hi"), "PILOTHOUSE__POLICY__APPROVAL_MODE"),
    ):
        done = house.run(*words, said="", **{variable: "loose"})
        assert done.returncode != 0, words
        assert "loose" in done.stderr and "full-access" in done.stderr
    house.config.write_text("[policy]\napproval_mode = 'loose'\n")
    assert "full-access" in house.run("config", "check").stderr


def test_a_rule_that_is_wider_or_narrower_than_it_looks_says_so(house: House) -> None:
    for rule, told in (
        ("allow glob *", "`rm` and `git push` too"),
        ("allow tool *", "every tool"),
        ("allow read ~/**", "passwords"),
        ("allow command *", "For a pattern, write `allow glob *`"),
        ("deny command git *", "For a pattern, write `deny glob git *`"),
    ):
        done = house.run("rules", "add", rule, "--json")
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(f"Caution: {rule}\n") and told in done.stderr
        assert json.loads(done.stdout)["added"]["rule"] == rule


def test_a_plain_rule_needs_no_caution(house: House) -> None:
    for rule in ("allow command make test", "allow glob npm run *", "deny glob *", "allow path src/**"):
        done = house.run("rules", "add", rule)
        assert (done.returncode, done.stderr) == (0, ""), rule


def test_on_a_narrow_terminal_the_rule_itself_is_whole(house: House) -> None:
    house.config.write_text('[policy]\nrules = ["allow command npm run test-everything"]\n')
    _, screen = house.on_a_terminal("rules", COLUMNS="60")
    assert "allow command npm run test-everything" in screen
    assert "…" in screen


def test_a_rule_whose_folder_was_replaced_is_said_to_have_lapsed(house: House) -> None:
    shop = house.home / "shop"
    shop.mkdir()
    for rule in ("allow command make", "deny command rm"):
        assert house.run("rules", "add", rule, "--workspace", str(shop)).returncode == 0
    listed = json.loads(house.run("rules", "--json").stdout)["rules"]
    assert [line["lapsed"] for line in listed] == [False, False]
    replace(shop)
    listed = json.loads(house.run("rules", "--json").stdout)["rules"]
    assert {line["rule"]: line["lapsed"] for line in listed} == {
        "allow command make": True,
        "deny command rm": False,
    }
    assert "lapsed" in house.run("rules").stdout


def test_where_a_folder_cannot_be_told_from_the_next_nothing_is_allowed_for_it_alone(house: House) -> None:
    refused = house.run("rules", "add", "allow command make", "--workspace", "/proc/self")
    assert refused.returncode != 0 and "--everywhere" in refused.stderr
    assert house.run("rules", "add", "deny command rm", "--workspace", "/proc/self").returncode == 0
