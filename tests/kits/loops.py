"""The event loops that a test runs on."""

import pytest

BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
"""For tests whose subject behaves differently by event loop: cancellation, threads, processes, time limits."""
