"""`config`: what holds, where it came from, and never a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import House, with_bots


def settings(house: House, **more: str) -> dict[str, Any]:
    return {row["key"]: (row["value"], row["source"]) for row in house.json("config", "show", **more)}


def test_every_setting_is_shown_with_its_source(house: House) -> None:
    house.config.write_text("[gateway]\ngrace_s = 5\n")
    found = settings(house, PILOTHOUSE__GATEWAY__BUSY="queue")
    assert found["gateway.grace_s"] == (5, str(house.config))
    assert found["gateway.busy"] == ("queue", "PILOTHOUSE__GATEWAY__BUSY")
    assert found["gateway.show_cost"] == (True, "default")
    assert found["store.path"] == (str(house.home / "pilothouse.db"), "default")


def test_who_may_answer_and_what_may_be_spent_is_shown_too(house: House) -> None:
    house.config.write_text("[approvals.ordinary]\nquorum = 2\n[budget]\nall_usd = 5\n")
    found = settings(house)
    assert (found["approvals.ordinary.quorum"][0], found["budget.all_usd"][0]) == (2, 5.0)
    assert found["limits.messages_per_minute"][1] == "default"


def test_no_secret_is_shown_wherever_it_stands(house: House) -> None:
    house.config.write_text(
        '[channels.telegraph]\ntoken = "inline-secret"\n'
        '[engines.puppet]\ntoken = "${PUPPET}"\n'
        '[engines.gone]\napi_key = "third-secret"\nurl = "https://x/${PUPPET}"\n'
    )
    (house.home / ".env").write_text("PUPPET=from-env-file\n")
    done = house.run("config", "show")
    found = settings(house)
    for secret in ("inline-secret", "from-env-file", "third-secret"):
        assert secret not in done.stdout + done.stderr
        assert secret not in str(found)
    assert found["channels.telegraph.token"][0] == "[redacted]"
    assert found["engines.puppet.token"][0] == "${PUPPET}"


def test_a23_the_password_of_a_proxy_is_not_shown(house: House) -> None:
    with_bots(house)
    house.config.write_text(
        '[channels.discord]\nproxy = "http://ada:hunter22@10.0.0.1:3128"\n'
        '[channels.telegram]\nproxy = "ada:hunter22@10.0.0.2"\n'
    )
    done = house.run("config", "show")
    assert "10.0.0.1" in done.stdout and "10.0.0.2" in done.stdout
    assert "hunter22" not in done.stdout + done.stderr
    token = f'token = "{"a" * 24}.abcdef.{"b" * 27}"'
    house.config.write_text(f'[channels.discord]\n{token}\nproxy = "socks://ada:hunter/22@10.0.0.1"\n')
    told = house.run("config", "check")
    assert "proxy is 'socks://10.0.0.1'" in told.stderr
    assert "hunter" not in told.stdout + told.stderr


def test_a_secret_from_the_environment_is_not_shown(house: House) -> None:
    found = settings(house, PILOTHOUSE__CHANNELS__TELEGRAPH__TOKEN="hunter22")
    assert found["channels.telegraph.token"] == ("[redacted]", "PILOTHOUSE__CHANNELS__TELEGRAPH__TOKEN")


def test_a_secret_that_is_found_by_itself_says_where(house: House) -> None:
    house.config.write_text("[channels.telegraph]\n")
    secrets = house.home / ".env"
    secrets.write_text("TELEGRAPH_TOKEN=from-env-file\n")
    found = settings(house)
    assert found["channels.telegraph.token"] == ("[redacted]", f"{secrets} (TELEGRAPH_TOKEN)")


def test_every_key_of_a_table_says_where_it_came_from(house: House) -> None:
    house.config.write_text(
        '[channels.telegraph.line]\nname = "north"\n[channels.telegraph.calls."a.b"]\nname = "x"\n'
    )
    found = settings(house, PILOTHOUSE__CHANNELS__TELEGRAPH__LINE__SPEED="5")
    assert found["channels.telegraph.line.name"] == ("north", str(house.config))
    assert found["channels.telegraph.line.speed"] == (5, "PILOTHOUSE__CHANNELS__TELEGRAPH__LINE__SPEED")
    assert found['channels.telegraph.calls."a.b".name'] == ("x", str(house.config))


def test_unknown_keys_are_warnings_with_the_nearest_key(house: House) -> None:
    house.config.write_text("[gateway]\ngrace = 5\n[channels.telegraf]\n")
    done = house.run("config", "check")
    assert done.returncode == 0
    assert done.stderr == (
        f"warning: {house.config}: gateway.grace: is not known and was ignored; did you mean grace_s?\n"
        f"warning: {house.config}: channels.telegraf: is not known and was ignored; did you mean telegraph?\n"
    )
    assert done.stdout == f"{house.config}: 2 warnings\n"


def test_check_finds_no_problem_where_it_warned_of_nothing(house: House) -> None:
    house.config.write_text("[gateway]\n")
    assert house.run("config", "check").stdout == f"{house.config}: no problem\n"
    house.config.write_text("[gateway]\ndefualt_engine = 1\n")
    assert house.run("config", "check").stdout == f"{house.config}: 1 warning\n"


def test_whoever_can_be_nobody_is_warned_of(house: House) -> None:
    with_bots(house)
    house.config.write_text(
        '[people]\nowners = ["telegram:@ada", "telegram:1", "terminal:ada"]\nmembers = ["${BOSS}"]\n'
        '[workspaces.shop]\npath = "/"\nadmins = ["nope:1"]\n'
    )
    warnings = [
        'people.owners: "telegram:@ada" is not a user id: on Telegram an id is a number, such as 12345;'
        " leave it out, and let people in with `pilothouse pair`",
        'people.members: "${BOSS}" is not a user id: on Discord an id is a long number,'
        " such as 80351110224678912; leave it out, and let people in with `pilothouse pair`",
        'workspaces.shop.admins: "nope:1" is not a user id: there is no channel "nope"; installed: discord, telegram, telegraph',
    ]
    done = house.run("config", "check", BOSS="discord:ada")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [f"warning: {house.config}: {text}" for text in warnings]
    told = house.run("doctor", BOSS="discord:ada").stdout
    assert all(text in told for text in warnings)


def test_check_tells_what_is_only_ignored_beside_what_is_wrong(house: House) -> None:
    house.config.write_text('[gateway]\nbussy = "queue"\ngrace_s = "ten"\n')
    told = house.run("config", "check").stderr
    assert "did you mean busy?" in told
    assert "grace_s" in told


def test_check_tells_why_a_channel_would_not_start(house: House) -> None:
    house.config.write_text("[channels.telegraph]\nenabled = true\n")
    done = house.run("config", "check")
    assert done.returncode == 1
    assert f"{house.config}: channels.telegraph: token is missing" in done.stderr
    assert house.run("config", "check", TELEGRAPH_TOKEN="x").returncode == 0
    house.config.write_text("[channels.telegraph]\nenabled = false\n")
    assert house.run("config", "check").returncode == 0


@pytest.mark.parametrize(("channel", "name"), [("telegram", "TELEGRAM_TOKEN"), ("discord", "DISCORD_TOKEN")])
def test_a_token_that_is_missing_is_told_with_the_file_that_it_belongs_into(
    house: House, channel: str, name: str
) -> None:
    with_bots(house)
    house.config.write_text(f"[channels.{channel}]\n")
    told = house.run("config", "check").stderr
    assert told.endswith(f"put it into {house.home}/.env as {name}=…\n")
    house.config.write_text(f'[channels.{channel}]\ntoken = ""\n')
    assert house.run("config", "check").stderr.endswith(f"put it into {house.config}\n")


def test_every_problem_has_its_own_mark(house: House) -> None:
    house.config.write_text('[gateway]\nbusy = 1\ngrace_s = -1\ndefault_engine = "pupet"\n')
    for words in (["config", "check"], ["status"]):
        lines = house.run(*words).stderr.splitlines()
        assert len(lines) >= 2
        assert all(line.startswith("error: ") for line in lines)


def test_check_tells_every_problem_also_as_json(house: House) -> None:
    house.config.write_text('[channels.telegraph]\nrooms = "all"\n[gateway]\ndefault_engine = "pupet"\n')
    document = house.json("config", "check")
    assert {problem["key"] for problem in document["problems"]} == {
        "channels.telegraph.rooms",
        "gateway.default_engine",
    }
    assert house.run("config", "check").returncode == 1


def test_check_reads_the_files_of_workspaces_too(house: House, tmp_path: Path) -> None:
    for name in ("shop", "till"):
        (tmp_path / name).mkdir()
    house.config.write_text(
        f'[gateway]\ndefault_workspace = "{tmp_path}/shop"\n[workspaces.till]\npath = "{tmp_path}/till"\n'
    )
    assert house.run("config", "check").stdout == f"{house.config}: no problem\n"
    files = [folder / ".pilothouse.toml" for folder in (house.home, tmp_path / "shop", tmp_path / "till")]
    for file, text in zip(files, ('engine = "nope"', 'rules = ["perhaps"]', 'trust = "me"'), strict=True):
        file.write_text(f"{text}\n")
    done = house.run("config", "check")
    assert done.returncode == 1
    assert f'warning: {files[0]}: engine: "nope" was ignored: there is no such engine here' in done.stderr
    assert f"error: {files[1]}: rules: The rule 'perhaps'" in done.stderr
    assert f"warning: {files[2]}: trust: was ignored" in done.stderr


def test_check_warns_of_folders_that_are_not_there(house: House) -> None:
    house.config.write_text('[gateway]\ndefault_workspace = "/no/a"\n[workspaces.x]\npath = "/no/b"\n')
    done = house.run("config", "check")
    assert done.returncode == 0
    assert f"warning: {house.config}: gateway.default_workspace: /no/a is not a folder" in done.stderr
    assert f"warning: {house.config}: workspaces.x.path: /no/b is not a folder" in done.stderr


def test_check_says_that_there_is_no_file(house: House) -> None:
    done = house.run("config", "check")
    assert (done.returncode, done.stdout) == (0, f"there is no {house.config}; the defaults are in force\n")


def test_path_tells_where_the_files_are_and_makes_none(house: House) -> None:
    assert house.json("config", "path")["config"] == {"path": str(house.config), "exists": False}
    assert list(house.home.iterdir()) == []


def test_the_file_may_be_elsewhere(house: House) -> None:
    other = house.home / "other.toml"
    assert house.json("config", "path", PILOTHOUSE_CONFIG=str(other))["config"]["path"] == str(other)
    assert "does not exist" in house.run("config", PILOTHOUSE_CONFIG=str(other)).stderr


def test_an_engine_that_a_folder_wishes_in_vain_is_not_shown_as_in_force(house: House) -> None:
    (house.home / ".pilothouse.toml").write_text('engine = "nope"\n')
    done = house.run("config", "show", "--json")
    assert done.returncode == 0
    assert not [row for row in json.loads(done.stdout) if row["key"].startswith("here.")]
    assert '"nope" was ignored' in done.stderr
    assert house.run("config", "check").returncode == 0


def test_what_the_folder_changes_is_shown_with_who_said_it(house: House, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / ".pilothouse.toml").write_text('model = "large"\nbusy = "queue"\ncommand = "rm"\n')
    house.config.write_text(f'[workspaces.shop]\npath = "{shop}"\nbusy = "steer"\n')
    assert not any(key.startswith("here.") for key in settings(house))
    done = house.run("config", "show", "--workspace", str(shop), "--json")
    found = {row["key"]: (row["value"], row["source"]) for row in json.loads(done.stdout)}
    assert found["here.model"] == ("large", ".pilothouse.toml")
    assert found["here.busy"] == ("queue", ".pilothouse.toml")
    assert "command" in done.stderr and "may not name an executable" in done.stderr
