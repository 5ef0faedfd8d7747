"""Shared fixtures of the tests of HTTP."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return asyncio, because HTTP runs on no other loop."""
    return "asyncio"
