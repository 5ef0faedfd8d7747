"""Fixtures of the tests of the page."""

from __future__ import annotations

import pytest

from tests.kits.constants import STATELESS


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Use asyncio, the only event loop that serves HTTP."""
    return "asyncio"


@pytest.fixture
def mode() -> str:
    """Return the era of the client: the newest one, and the one before it too in tests marked `EVERY_ERA`."""
    return STATELESS
