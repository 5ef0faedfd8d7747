"""Shared fixtures of the tests of HTTP."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """HTTP runs on asyncio alone."""
    return "asyncio"
