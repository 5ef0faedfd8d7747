"""Fingerprints of tool definitions: SHA-256 over canonical JSON (RFC 8785)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mcp_bridge.contracts.tool import ToolEntry

MAX_SAFE_INTEGER = 2**53 - 1
"""Canonical JSON has the numbers of JavaScript: larger integers are rounded, and so become floats."""


def describe_definition(tool: ToolEntry) -> dict[str, Any]:
    """Return everything of a tool that a model or a user decides by, without what is empty."""
    definition = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
    }
    return {key: _round_integers(value) for key, value in definition.items() if value}


def compute_fingerprint(definition: Mapping[str, Any]) -> str:
    """Return the fingerprint of a definition. Raises ValueError for one that JSON cannot express."""
    import rfc8785  # only servers of third parties need it

    return "sha256:" + hashlib.sha256(rfc8785.dumps(dict(definition))).hexdigest()


def _round_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_round_integers(item) for item in value]
    is_large = isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_SAFE_INTEGER
    return float(value) if is_large else value
