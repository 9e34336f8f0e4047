"""At the start of a gateway, only trust that holds keeps `isolation = "auto"` from making a jail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pilothouse.bootstrap.app import App, open_app
from pilothouse.runtime.trust import trust

pytestmark = pytest.mark.anyio
TRUSTED = "the folder is trusted"


async def test_a_folder_that_took_the_place_of_a_trusted_one_is_not_trusted_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, kept, replaced = tmp_path / "home", tmp_path / "kept", tmp_path / "replaced"
    for folder in (home, kept, replaced):
        folder.mkdir()
    monkeypatch.setenv("PILOTHOUSE_HOME", str(home))
    (home / "config.toml").write_text('[isolation]\nkind = "auto"\n')
    places = [os.path.realpath(one) for one in (kept, replaced)]
    async with open_app(on_terminal=False) as app:
        for place in places:
            await app.store.write(lambda tx, place=place: trust(tx, place, "ann", 1.0))
    async with open_app(on_terminal=False) as app:
        assert [TRUSTED in told for told in reports(app, places)] == [True, True]
    replaced.rename(tmp_path / "moved")
    replaced.mkdir()
    async with open_app(on_terminal=False) as app:
        assert [TRUSTED in told for told in reports(app, places)] == [True, False]


def reports(app: App, places: list[str]) -> list[str]:
    return [app.jails.describe(place, "claude") for place in places]
