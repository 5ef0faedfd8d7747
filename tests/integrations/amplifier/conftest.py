"""The fixtures of all tests of modules."""

from __future__ import annotations

import pytest

from tests.kits.amplifier.amplifier_plans import ServedPlan


@pytest.fixture
def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the host of plans: the native one, and also amplifier-core in tests marked `BOTH_HOSTS`."""
    host = str(getattr(request, "param", "native"))
    monkeypatch.setattr(ServedPlan, "host", host)
    return host
