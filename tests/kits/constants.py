"""Values shared by all tests: protocol versions, the `_meta` of stateless requests, HTTP headers, one timeout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

TIMEOUT = 180.0
"""Seconds that a test waits for anything. It is generous, because it only ends tests that fail."""
STATELESS = "2026-07-28"
HANDSHAKE = "2025-11-25"
EVERY_ERA = pytest.mark.parametrize("mode", ["legacy", STATELESS])
"""Run a test with the official client in both eras."""
META_PREFIX = "io.modelcontextprotocol/"
CLIENT_INFO = {"name": "a test", "version": "1"}
HTTP_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def make_envelope(capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the `_meta` of a stateless request from a client with these capabilities."""
    return {
        f"{META_PREFIX}protocolVersion": STATELESS,
        f"{META_PREFIX}clientInfo": CLIENT_INFO,
        f"{META_PREFIX}clientCapabilities": dict(capabilities or {}),
    }


ENVELOPE = make_envelope()
