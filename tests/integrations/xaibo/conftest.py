"""What the tests of Xaibo's own objects may use."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def without_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if openai were not installed, which agents' models want."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "openai":
            monkeypatch.setitem(sys.modules, name, None)
        elif name.startswith("xaibo.primitives.modules.llm"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openai", None)
