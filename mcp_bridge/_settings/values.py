"""The types of values in the settings: durations, sizes, whole numbers and keys, each also as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, WithJsonSchema
from pydantic_core import PydanticCustomError

from mcp_bridge._runtime.urls import split_url

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}
_DURATION_PATTERN = r"^\s*\d{1,9}(\.\d{1,9})?\s*(ms|s|m|h|d)?\s*$"
_SIZE_PATTERN = r"^\s*\d{1,15}(\.\d{1,9})?\s*([kKmMgG]?[iI]?[bB])?\s*$"
_MIN_KEY_BYTES = 32
_AMOUNT = re.compile(r"\s*(?P<number>[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?P<unit>[A-Za-z]*)\s*")


def _parse_amount(value: Any, units: Mapping[str, float], expected: str) -> Any:
    """Convert a text with a unit to a number of the smallest unit. Numbers stay as they are."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match["unit"].lower() not in units:
        raise ValueError(f"expected {expected}")
    return float(match["number"]) * units[match["unit"].lower()]


def _parse_seconds(value: Any) -> Any:
    return _parse_amount(value, _SECONDS, "seconds, or text such as '90s', '5m' or '1h'")


def _parse_bytes(value: Any) -> Any:
    amount = _parse_amount(value, _BYTES, "bytes, or text such as '512 KiB', '1 MiB' or '2MB'")
    return int(amount) if isinstance(value, str) else amount


def replace_switch(default: Any) -> Callable[[Any], Any]:
    """Return a function that replaces `true` by a default, and `false` by None."""

    def replace_bool(value: Any) -> Any:
        if isinstance(value, bool):
            return default if value else None
        return value

    return replace_bool


def add_alternatives(*schemas: Mapping[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Return a function that adds other forms of a value to its JSON Schema."""

    def extend_schema(schema: dict[str, Any]) -> None:
        schema["anyOf"] = [*schema["anyOf"], *schemas]

    return extend_schema


def _reject_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a whole number")  # noqa: TRY004 - pydantic collects only ValueError
    return value


def _parse_list(value: Any) -> Any:
    """Split text at commas or spaces. Remove empty items, which references to unset variables leave behind."""
    if isinstance(value, str):
        return tuple(item for item in re.split(r"[,\s]+", value) if item)
    if isinstance(value, list):
        return tuple(item for item in value if item != "")
    return value


def _check_token_reference(value: str) -> str:
    if not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+", value):
        raise ValueError("expected env:NAME (an environment variable) or file:PATH, not the token itself")
    return value


def _check_url(value: str) -> str:
    """Require https, except for servers on this machine: their responses cannot be changed in transit."""
    parts = split_url(value)
    is_local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not (parts.scheme == "https" or is_local) or not parts.hostname or re.search(r"[?#\s\"\\\\]", value):
        raise ValueError("expected an https URL without query and fragment")
    return value


def _check_key_set(value: str) -> str:
    """Check the URL of a key set, which may have a query. Any other text is the path of a file."""
    if "://" not in value:
        return value
    _check_url(value.partition("?")[0])
    return value


def _check_length(key: SecretStr) -> SecretStr:
    if len(key.get_secret_value().encode()) < _MIN_KEY_BYTES:
        # `problems.py` has the text of the message, without the key.
        raise PydanticCustomError("short_key", "too short")
    return key


Annotation = Literal["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
"""The hints among the annotations of tools (server/tools, ToolAnnotations)."""
PrincipalName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
TokenReference = Annotated[str, AfterValidator(_check_token_reference)]
# Windows has names with parentheses. Container engines would read `NAME=VALUE` and `NAME*` differently.
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_()]*$")]
# RFC 6749, section 3.3, allows these characters in a scope.
Scope = Annotated[str, Field(pattern=r"^[!#-\[\]-~]+$")]
Url = Annotated[str, AfterValidator(_check_url)]
KeySetLocation = Annotated[str, Field(min_length=1), AfterValidator(_check_key_set)]
Whole = Annotated[int, BeforeValidator(_reject_bool)]
Keys = Annotated[
    tuple[Annotated[SecretStr, AfterValidator(_check_length)], ...],
    BeforeValidator(_parse_list),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Duration = Annotated[
    float,
    BeforeValidator(_parse_seconds),
    Field(gt=0, allow_inf_nan=False),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": _DURATION_PATTERN}]}
    ),
]
Delay = Annotated[
    float,
    BeforeValidator(_parse_seconds),
    Field(ge=0, allow_inf_nan=False),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _DURATION_PATTERN}]}),
]
SessionLimit = Annotated[Whole, Field(ge=1, le=100_000)]
Size = Annotated[
    int,
    BeforeValidator(_parse_bytes),
    Field(ge=1),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE_PATTERN}]}),
]
