"""Public: conformance suites for engines, channels and stores, hosts for rigs, a fixed policy, and a fake clock."""

import sys
from pathlib import Path

if "pytest" in sys.modules:
    # A failed assert in a suite shows its values, as one in a test file does.
    import pytest

    suites = (f"{__name__}.{path.stem}" for path in Path(__file__).parent.glob("[!_]*.py"))
    pytest.register_assert_rewrite(*suites)
