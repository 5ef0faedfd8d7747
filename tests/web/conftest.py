"""Fixtures of the tests of the page."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Use asyncio, the only event loop that serves HTTP."""
    return "asyncio"
