"""Tables, which Discord does not know: columns that line up, or rows told one by one."""

from __future__ import annotations

import pytest

from pilothouse.channels.discord.markdown import to_discord

NARROW = "| Step | Time |\n|:--|--:|\n| **parse** | 3 ms |\n| 日本語 | 12 ms |"


def test_a_narrow_table_is_set_in_columns_and_wide_letters_count_twice() -> None:
    assert to_discord(NARROW, 64) == "```\nStep     Time\n──────  ─────\nparse    3 ms\n日本語  12 ms\n```"


def test_a_table_that_is_too_wide_is_told_row_by_row() -> None:
    assert to_discord(NARROW, 8).split("\n")[0:2] == ["- Step: **parse**", "  Time: 3 ms"]


def test_a_table_with_links_is_told_so_that_they_work() -> None:
    text = "| A | B |\n|---|---|\n| x | [y](https://example.com) |"
    assert to_discord(text, 64) == "- A: **x**\n  B: [y](https://example.com)"


def test_a_table_in_a_quote_stays_in_it() -> None:
    assert to_discord("> | A |\n> |---|\n> | 1 |", 64) == "> ```\n> A\n> ─\n> 1\n> ```"


def test_a_table_in_a_block_of_code_is_code() -> None:
    assert to_discord(f"```\n{NARROW}\n```", 64) == f"```\n{NARROW}\n```"


def test_bars_without_a_rule_are_words() -> None:
    assert to_discord("a | b\nc | d", 64) == "a | b\nc | d"


def test_an_escaped_bar_is_part_of_its_cell() -> None:
    assert "a|b" in to_discord("| A |\n|---|\n| a\\|b |", 64)


def test_the_surplus_cells_of_a_row_are_in_its_last_cell_and_the_table_goes_on() -> None:
    text = "| A | B |\n|---|---|\n| a | b | c |\n| d | `x|y` |\n| e | f |"
    assert to_discord(text, 64) == "```\nA  B\n─  ─────\na  b | c\nd  x|y\ne  f\n```"


def test_a_table_of_one_column_goes_on_after_a_bar() -> None:
    assert to_discord("| A |\n|---|\n| a|b |\n| c |", 64) == "```\nA\n───\na|b\nc\n```"


CODE = "    | A | B |\n    |---|---|\n    | a | b |"


@pytest.mark.parametrize("before", ["", "text\n\n", "- item\n\nafter the list\n\n", "```\nx\n```\n\n"])
def test_a_table_in_indented_code_is_no_table(before: str) -> None:
    assert to_discord(before + CODE, 64) == before + CODE


def test_a_table_in_indented_code_of_a_list_is_no_table() -> None:
    text = "- item\n\n  " + CODE.replace("\n", "\n  ")
    assert to_discord(text, 64) == text


@pytest.mark.parametrize(
    "item", ["- item\n", "1. item\n\n", "- item\n  - inner\n", "- item\n\n  ```\n  x\n  ```\n"]
)
def test_an_indented_table_in_a_list_is_a_table(item: str) -> None:
    assert to_discord(item + CODE, 64).endswith("    ```\n    A  B\n    ─  ─\n    a  b\n    ```")
