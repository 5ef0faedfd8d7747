"""What every test may use."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("bridge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bridge")  # how fast a busy machine is says nothing about behaviour


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Async tests run on both, unless a module that needs asyncio says otherwise."""
    return str(request.param)
