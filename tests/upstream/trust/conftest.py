"""Fixtures of the tests of trust."""

from __future__ import annotations

import pytest

from mcp_bridge._sources.upstream import source


@pytest.fixture(autouse=True)
def patient_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for servers instead of publishing stored tools: these tests are about current definitions."""
    monkeypatch.setattr(source, "STORE_TIMEOUT", 0.0)
    monkeypatch.setattr(source, "START_TIMEOUT", 20.0)
