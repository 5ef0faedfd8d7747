"""The event loops that a test runs on."""

import pytest

BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
"""Marks tests whose subject depends on the event loop: cancellation, threads, processes, time limits."""
