"""What every test may use."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Async tests run on both, unless a module that needs asyncio says otherwise."""
    return str(request.param)
