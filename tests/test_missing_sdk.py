"""Without the MCP SDK, features that need it name the extra to install."""

from __future__ import annotations

import sys

import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._upstream.oauth import BearerAuth
from mcp_bridge.testing import connect


@pytest.fixture(autouse=True)
def _no_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "mcp.client", raising=False)


async def test_signing_in_names_its_extra() -> None:
    with pytest.raises(SourceError, match=r"pip install 'mcp-tool-bridge\[oauth\]'"):
        await BearerAuth("tickets", "https://tickets.example/mcp").load_tokens()


async def test_the_client_for_tests_names_its_extra() -> None:
    with pytest.raises(ImportError, match=r"pip install 'mcp-tool-bridge\[testing\]'"):
        async with connect(ToolRegistry()):
            pass
