"""validate_input and validate_output (tool_use API, seed sections of those names)."""

from __future__ import annotations

from typing import Any

from mcp_bridge.contracts.results import ValidationResult
from mcp_bridge.schema.validator import validate


def validate_input(data: Any, schema: dict[str, Any]) -> ValidationResult:
    """Judge a tool's input by its schema: JSON Schema 2020-12, one line for each problem. Never raises.

    A part of the schema that cannot be understood accepts anything; an empty schema accepts everything.
    """
    return validate(data, schema)


def validate_output(data: Any, schema: dict[str, Any]) -> ValidationResult:
    """Judge a tool's output by its schema; the same rules as `validate_input`. Never raises."""
    return validate(data, schema)
