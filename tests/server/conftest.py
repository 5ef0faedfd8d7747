"""Fixtures of the server's tests."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[False, True], ids=["handshake", "stateless"])
def stateless(request: pytest.FixtureRequest) -> bool:
    """Run a test in both eras."""
    return bool(request.param)
