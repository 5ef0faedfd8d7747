"""What every test of modules may use."""

from __future__ import annotations

import pytest

from tests.kits.amplifier.amplifier_plans import Served


@pytest.fixture
def host(host: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The host that plans are served on."""
    monkeypatch.setattr(Served, "host", host)
    return host
