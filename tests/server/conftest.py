"""Fixtures of the server's tests."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[False, True], ids=["handshake", "stateless"])
def stateless(request: pytest.FixtureRequest) -> bool:
    """Both eras of the protocol."""
    return bool(request.param)
