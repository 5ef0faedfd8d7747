"""Fixtures for tests with the package xaibo."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def without_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the package openai, a requirement of the models of agents."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "openai":
            monkeypatch.setitem(sys.modules, name, None)
        elif name.startswith("xaibo.primitives.modules.llm"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openai", None)
