"""Options that several commands share."""

from __future__ import annotations

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


limit_option = click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most."
)
