"""Redacts values of clients for logs and records: known secrets, and values under names such as `password`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge._json_schema.secret_names import find_secret_values, is_secret_key
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._runtime.redaction import MARK, Redactor


def redact_arguments(arguments: Any, redactor: Redactor) -> Any:
    """Return arguments as JSON-ready data without secrets.

    A value under a key such as `password` is redacted everywhere in the arguments, also within other texts. Raises
    TypeError, ValueError or RecursionError for a value outside of JSON. A caller in this process can pass any value.
    """
    plain = to_plain(arguments)
    return redact_values(plain, Redactor(find_secret_values(plain)), redactor)


def redact_values(value: Any, *redactors: Redactor) -> Any:
    """Return JSON data without values under names such as `password`, and without the secrets of these redactors."""
    value = _mask_secrets(value)
    for redactor in redactors:
        value = redactor.redact_value(value)
    return value


def _mask_secrets(value: Any, *, is_secret: bool = False) -> Any:
    """Return a value without the texts and numbers directly under the name of a secret.

    Even short ones are masked, although a `Redactor` does not search for them in texts.
    """
    if isinstance(value, Mapping):
        return {key: _mask_secrets(item, is_secret=is_secret_key(str(key))) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask_secrets(item, is_secret=is_secret) for item in value]
    if is_secret and value and not isinstance(value, bool):
        return MARK
    return value
