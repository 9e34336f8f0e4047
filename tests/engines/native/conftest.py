"""A scripted model for each test, closed after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.engines.native.issuer import Issuer, open_issuer
from tests.engines.native.model import Reply, Script, in_order, open_model
from tests.engines.native.rig import Rig

MakeRig = Callable[..., Rig]


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Make a rig whose model gives these replies in order, or follows a script."""
    with ExitStack() as stack:

        def make(*replies: Reply, script: Script | None = None, **config: Any) -> Rig:
            model = stack.enter_context(open_model(script or in_order(*replies)))
            return Rig(tmp_path, model, **config)

        yield make


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with open_issuer() as found:
        yield found
