"""Shared fixtures of the tests of transports."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[False, True], ids=["handshake", "stateless"])
def stateless(request: pytest.FixtureRequest) -> bool:
    """Run a test in both eras."""
    return bool(request.param)
