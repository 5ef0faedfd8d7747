"""What the HTTP tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """uvicorn runs on asyncio, so HTTP does."""
    return "asyncio"
