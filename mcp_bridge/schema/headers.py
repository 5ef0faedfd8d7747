"""What `x-mcp-header` may stand on (MCP 2026-07-28, basic/transports/streamable-http "Custom Headers").

Clients must drop a tool that breaks these rules from their lists, so it is refused here, with the reason. The
specification advises against secrets; here they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_bridge.contracts.header import X_MCP_HEADER
from mcp_bridge.schema.keywords import LISTS_OF_SCHEMAS, MAPS_OF_SCHEMAS, SCHEMAS
from mcp_bridge.schema.mending import MAX_DEPTH, MAX_NODES
from mcp_bridge.schema.secrets import WORD, names_secret

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, section 5.6.2
_TYPES = ("string", "integer", "boolean")
_JOINED = frozenset(
    {"authorization", "privatekey", "accesskey", "secretkey", "accesstoken", "authtoken", "clientsecret"}
)
"""Secrets besides those that `names_secret` knows: what only headers carry, and pairs of words in one."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A subschema: its JSON pointer, and the properties that lead there, None behind any other keyword."""

    schema: Mapping[str, Any]
    pointer: str
    path: tuple[str, ...] | None


def header_complaints(schema: Any) -> list[str]:
    """What is wrong with the `x-mcp-header`s of a tool's input schema, a line each; empty when nothing is."""
    found: list[str] = []
    taken: dict[str, str] = {}
    for place in _places(schema):
        if X_MCP_HEADER not in place.schema:
            continue
        at, name = f"{place.pointer}/{X_MCP_HEADER}", place.schema[X_MCP_HEADER]
        wrong = _wrong_name(name) or _wrong_place(place) or _secret(place, name)
        if wrong is None and name.lower() in taken:
            wrong = f"{taken[name.lower()]} has the same name, and upper and lower case are one"
        if wrong is None:
            taken[name.lower()] = at
        else:
            found.append(f"{at}: {wrong}")
    return found


def _wrong_name(name: Any) -> str | None:
    if not isinstance(name, str):
        return f"a header's name is text, not {type(name).__name__}"
    if not _TOKEN.fullmatch(name):
        return f"{name!r} is no header name. Use letters, digits and -"
    return None


def _wrong_place(place: _Place) -> str | None:
    if not place.path:
        return "a header is a parameter itself or a property in it, not behind a reference, a list or a choice"
    kind = place.schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        return "a header is of one type, string, integer or boolean. A default, not null, makes it optional"
    return None


def _secret(place: _Place, name: str) -> str | None:
    hint = "Headers are seen and logged on their way: leave the x-mcp-header out"
    if place.schema.get("format") == "password" or place.schema.get("writeOnly") is True:
        return f"this is a secret. {hint}"
    said = next((word for word in (*(place.path or ()), name) if _says_secret(word)), None)
    return f"'{said}' is the name of a secret. {hint}" if said is not None else None


def _says_secret(name: str) -> bool:
    """Whether it names a secret or something of one: `api_key`, `apiKey` and `api-key-of-tenant` alike."""
    words = list(WORD.finditer(name))
    return any(names_secret(name[: word.end()]) or word[0].lower() in _JOINED for word in words)


def _places(schema: Any) -> Iterator[_Place]:
    """Every subschema; references are not followed, and what is data (`default`, `enum`) is none.

    The bounds are mending's: a schema that contains itself ends there.
    """
    waiting = [_Place(schema, "#", ())] if isinstance(schema, Mapping) else []
    for _ in range(MAX_NODES):
        if not waiting:
            return
        place = waiting.pop()
        yield place
        if place.pointer.count("/") < 2 * MAX_DEPTH:
            waiting += reversed([inner for inner in _inside(place) if isinstance(inner.schema, Mapping)])


def _inside(place: _Place) -> Iterator[_Place]:
    for keyword, value in place.schema.items():
        at = f"{place.pointer}/{keyword}"
        if keyword in SCHEMAS:
            yield _Place(value, at, None)
        elif keyword in LISTS_OF_SCHEMAS and isinstance(value, list | tuple):
            yield from (_Place(part, f"{at}/{index}", None) for index, part in enumerate(value))
        elif keyword in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            chain = place.path if keyword == "properties" else None
            for name, part in value.items():
                yield _Place(part, f"{at}/{name}", None if chain is None else (*chain, str(name)))
