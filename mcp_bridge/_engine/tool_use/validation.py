"""The functions `validate_input` and `validate_output` of the tool_use API."""

from __future__ import annotations

from typing import Any

from mcp_bridge._contracts.tool_use_results import ValidationResult
from mcp_bridge._json_schema.validator import validate


def validate_input(data: Any, schema: dict[str, Any]) -> ValidationResult:
    """Validate a tool's input by JSON Schema 2020-12, with a line for each problem. Never raises.

    Keywords with invalid values, and an empty schema, accept everything.

    >>> from mcp_bridge.tool_use import validate_input
    >>> validate_input({"a": "x"}, {"properties": {"a": {"type": "integer"}}}).errors
    ['$.a: expected type integer, got str']
    """
    return validate(data, schema)


def validate_output(data: Any, schema: dict[str, Any]) -> ValidationResult:
    """Validate a tool's output in the same way as `validate_input`. Never raises.

    >>> from mcp_bridge.tool_use import validate_output
    >>> validate_output(3, {"type": "integer"}).valid
    True
    """
    return validate(data, schema)
