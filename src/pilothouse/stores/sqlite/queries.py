"""Named queries: the `.sql` files of a folder, parsed once.

`-- name: put: what it is for` begins a query, known as `<file>.put`. A name that begins with an underscore is a
fragment: `{_row}` in another query of the same file stands for it. `queue.sql` is read once per queue.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_HEAD = re.compile(r"^-- name: (\w+): .+$", re.MULTILINE)
_FOLDER = Path(__file__).parent / "sql"
QUEUES = ("inbox", "outbox")


def parse_queries(text: str) -> dict[str, str]:
    """Name to query, fragments filled in and left out."""
    _, *pieces = _HEAD.split(text)
    queries = {name: body.strip() for name, body in zip(pieces[::2], pieces[1::2], strict=True)}
    fragments = {name: body for name, body in queries.items() if name.startswith("_")}
    for name, body in fragments.items():
        queries = {key: query.replace(f"{{{name}}}", body) for key, query in queries.items()}
    return {name: query for name, query in queries.items() if name not in fragments}


@cache
def load_queries() -> dict[str, str]:
    queries: dict[str, str] = {}
    for file in sorted(_FOLDER.glob("*.sql")):
        text = file.read_text("utf-8")
        names = QUEUES if file.stem == "queue" else (file.stem,)
        for name in names:
            parsed = parse_queries(text.replace("{queue}", name))
            queries.update({f"{name}.{key}": query for key, query in parsed.items()})
    return queries
