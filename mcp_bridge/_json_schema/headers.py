"""Checks where `x-mcp-header` is allowed (MCP 2026-07-28, basic/transports/streamable-http "Custom Headers").

Clients must drop a tool that violates these rules, so such a tool is rejected here, with the reason. Secrets in
headers, which the specification advises against, are rejected too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp_bridge._contracts.tool import X_MCP_HEADER
from mcp_bridge._json_schema.walking import Steps, has_any_keyword, walk_schemas

_FIELD_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110, section 5.6.2
_TYPES = ("string", "integer", "boolean")


def check_headers(schema: Any) -> list[str]:
    """The problems of the `x-mcp-header`s in a tool's input schema, one line each."""
    lines: list[str] = []
    places: dict[str, str] = {}
    for steps, part in walk_schemas(schema):
        if X_MCP_HEADER not in part:
            continue
        place, name = "/".join(map(str, ("#", *steps, X_MCP_HEADER))), part[X_MCP_HEADER]
        problem = _check_name(name) or _check_place(steps, part) or _check_secrecy(steps, part, name)
        if problem is None and name.lower() in places:
            problem = f"{places[name.lower()]} has the same name, and header names are case-insensitive"
        if problem is None:
            places[name.lower()] = place
        else:
            lines.append(f"{place}: {problem}")
    return lines


def _check_name(name: Any) -> str | None:
    if not isinstance(name, str):
        return f"a header's name is text, not {type(name).__name__}"
    if not re.fullmatch(_FIELD_NAME, name):
        return f"{name!r} is not a header name. Use letters, digits and -"
    return None


def _check_place(steps: Steps, part: Mapping[str, Any]) -> str | None:
    if not steps or any(keyword != "properties" for keyword in steps[::2]):
        return "a header is a parameter itself or a property in it, not behind a reference, a list or a choice"
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        return "a header is of one type, string, integer or boolean. A default, not null, makes it optional"
    return None


def _check_secrecy(steps: Steps, part: Mapping[str, Any], header: str) -> str | None:
    hint = "Headers are visible and logged on their way: leave the x-mcp-header out"
    if part.get("format") == "password" or part.get("writeOnly") is True:
        return f"this is a secret. {hint}"
    secret = next((name for name in (*map(str, steps[1::2]), header) if _has_secret_name(name)), None)
    return f"'{secret}' is the name of a secret. {hint}" if secret is not None else None


def _has_secret_name(name: str) -> bool:
    """Whether a name is that of a secret or begins with one: `api_key`, `apiKey` and `api-key-of-tenant` alike."""
    from mcp_bridge._json_schema.secret_names import COMPOUND_SECRETS, WORD, is_secret_name  # few tools have headers

    words = list(WORD.finditer(name))
    return any(is_secret_name(name[: word.end()]) or word[0].lower() in COMPOUND_SECRETS for word in words)


class DeclaredHeader(NamedTuple):
    """A header that clients send with a call: the keys that lead to its argument, and the type of that."""

    name: str
    path: tuple[str, ...]
    type: str


def list_headers(schema: Any) -> tuple[DeclaredHeader, ...]:
    """Return the headers that a valid input schema declares."""
    if not has_any_keyword(schema, {X_MCP_HEADER}):
        return ()
    return tuple(
        DeclaredHeader(part[X_MCP_HEADER], tuple(map(str, steps[1::2])), str(part.get("type")))
        for steps, part in walk_schemas(schema)
        if X_MCP_HEADER in part and all(keyword == "properties" for keyword in steps[::2])
    )
