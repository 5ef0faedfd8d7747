"""The event loops for the tests."""

import pytest

BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
"""Marks tests whose subject depends on the event loop: cancellation, threads, processes, time limits."""
