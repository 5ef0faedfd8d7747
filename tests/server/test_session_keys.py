"""Each session has another key."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from mcp_bridge._server.calls.context import SESSION, _find_session


def make_key(principal: str, name: str) -> str:
    """Return the key of a principal's session with this name."""
    return _find_session(cast("Any", SimpleNamespace(meta={SESSION: name}, protocol_version="2026-07-28")), principal)


def test_no_name_that_a_principal_gives_reaches_a_session_of_another() -> None:
    assert make_key("idp/ann", "bob/mine") != make_key("idp/ann/bob", "mine")
    assert make_key("", "ann/mine") != make_key("ann", "mine")
    assert make_key("ann", "mine") == make_key("ann", "mine")
