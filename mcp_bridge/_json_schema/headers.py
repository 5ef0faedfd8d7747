"""Checks the keyword `x-mcp-header` in schemas (MCP 2026-07-28, basic/transports/streamable-http "Custom Headers").

With it, HTTP clients repeat an argument in a header, so that gateways can route the request. Clients must drop a tool
that violates the rules, so such a tool is rejected here, with the reason. The specification advises against secrets in
headers, so they are rejected too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp_bridge._contracts.tool import X_MCP_HEADER
from mcp_bridge._json_schema.walking import Steps, has_any_keyword, walk_schemas

_FIELD_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""The name of a header, a token (RFC 9110, section 5.6.2)."""
_ALLOWED_TYPES = ("string", "integer", "boolean")


def check_headers(schema: Any) -> list[str]:
    """Return a line for each problem of the `x-mcp-header`s in a tool's input schema."""
    lines: list[str] = []
    places: dict[str, str] = {}
    for steps, subschema in walk_schemas(schema):
        if X_MCP_HEADER not in subschema:
            continue
        place = "/".join(map(str, ("#", *steps, X_MCP_HEADER)))
        name = subschema[X_MCP_HEADER]
        problem = _check_header(name, steps, subschema)
        if problem is None and name.lower() in places:
            problem = f"{places[name.lower()]} has the same name, and header names are case-insensitive"
        if problem is None:
            places[name.lower()] = place
        else:
            lines.append(f"{place}: {problem}")
    return lines


def _check_header(name: Any, steps: Steps, schema: Mapping[str, Any]) -> str | None:
    """Return the problem of an `x-mcp-header` in a schema at these steps, or None."""
    if not isinstance(name, str):
        return f"a header's name is text, not {type(name).__name__}"
    if not re.fullmatch(_FIELD_NAME, name):
        return f"{name!r} is not a header name. Use letters, digits and -"
    # Every other step of a path through properties is the keyword, as in ("properties", "city", "properties", "id").
    if not steps or any(keyword != "properties" for keyword in steps[::2]):
        return "a header is a parameter itself or a property in it, not behind a reference, a list or a choice"
    json_type = schema.get("type")
    if not isinstance(json_type, str) or json_type not in _ALLOWED_TYPES:
        return "a header is of one type, string, integer or boolean. A default, not null, makes it optional"
    hint = "Headers are visible and logged on their way: leave the x-mcp-header out"
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return f"this is a secret. {hint}"
    for text in (*map(str, steps[1::2]), name):
        if _begins_with_secret_name(text):
            return f"'{text}' is the name of a secret. {hint}"
    return None


def _begins_with_secret_name(name: str) -> bool:
    """Whether a name is that of a secret or begins with one, such as `api_key`, `apiKey` and `api-key-of-tenant`."""
    # Few tools have headers, so a start usually does not need this module.
    from mcp_bridge._json_schema.secret_names import COMPOUND_SECRETS, WORD, is_secret_name

    words = list(WORD.finditer(name))
    return any(is_secret_name(name[: word.end()]) or word[0].lower() in COMPOUND_SECRETS for word in words)


class DeclaredHeader(NamedTuple):
    """A header that clients send with a call: its name, the path of its argument, and the type of this argument."""

    name: str
    path: tuple[str, ...]
    type: str


def list_headers(schema: Any) -> tuple[DeclaredHeader, ...]:
    """Return the headers in a valid input schema."""
    if not has_any_keyword(schema, {X_MCP_HEADER}):
        return ()
    headers = []
    for steps, subschema in walk_schemas(schema):
        if X_MCP_HEADER in subschema and all(keyword == "properties" for keyword in steps[::2]):
            path = tuple(map(str, steps[1::2]))
            headers.append(DeclaredHeader(subschema[X_MCP_HEADER], path, str(subschema.get("type"))))
    return tuple(headers)
