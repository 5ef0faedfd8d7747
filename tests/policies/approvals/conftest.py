"""Fixtures of the tests of approvals."""

from __future__ import annotations

import pytest

from tests.kits.constants import STATELESS


@pytest.fixture
def mode() -> str:
    """Return the era of the client: the newest one, and the one before it too in tests marked `EVERY_ERA`."""
    return STATELESS
