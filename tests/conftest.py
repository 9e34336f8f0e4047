"""Settings for every test: asyncio alone, hypothesis in two strengths, and a collector that is spared."""

import gc
import os
import signal
import time

import pytest
from hypothesis import HealthCheck, settings

# How long it takes says something of the machine and of who else is at work there.
untimed = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", untimed)
settings.register_profile("ci", untimed, derandomize=True, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

os.environ["TZ"] = "UTC"  # people are told times in the machine's zone, and golden files hold some
time.tzset()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Whoever runs in the background of a shell ignores Ctrl-C, and so would every program that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay until the end: nobody need look through them for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
