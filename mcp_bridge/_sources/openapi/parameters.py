"""Writes the values of parameters as text of a query, a path, a header or a cookie.

The forms are the styles of OpenAPI (3.1.1, 4.8.12.2 "Style Values"), which come from RFC 6570.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.http_client.requests import is_header_value

RESERVED = ":/?@!$'()*,;[]"
"""The reserved characters of RFC 3986 that `allowReserved` leaves as they are: all but `#&+=`, which would end or
change a value."""
_SEPARATORS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
_ENCODED_SLASH = re.compile(r"%2F|%5C")
_DOT_SEGMENTS = frozenset({".", "..", "%2e", "%2e%2e", ".%2e", "%2e."})


class Parameter(NamedTuple):
    """A parameter of an operation, or a field of a form.

    Attributes:
        location: `query`, `path`, `header` or `cookie`.
        argument: The name of the tool's argument for this parameter.
        style: How lists and objects are written, such as `form`.
        explode: Whether the style writes each item and member on its own.
        allow_reserved: Whether reserved characters are not percent-encoded.
        media_type: If it is not empty, the value is written as text of this type, whatever the style says.
    """

    name: str
    location: str
    argument: str
    style: str
    explode: bool
    allow_reserved: bool = False
    media_type: str = ""

    def write_query(self, value: Any) -> list[str]:
        """Return the pairs `name=value` of a query or a form, percent-encoded."""
        safe = RESERVED if self.allow_reserved else ""
        name = quote(self.name, safe="")
        if self.media_type:
            return [f"{name}={quote(write_value(value), safe=safe)}"]
        if self.style == "deepObject":
            return [f"{quote(key, safe='')}={quote(text, safe=safe)}" for key, text in _write_deep(self.name, value)]
        if isinstance(value, Mapping) and self.explode and self.style == "form":
            return [f"{quote(str(key), safe='')}={quote(text, safe=safe)}" for key, text in _write_members(value)]
        if isinstance(value, Sequence) and not isinstance(value, str) and self.explode:
            return [f"{name}={quote(write_value(item), safe=safe)}" for item in value]
        separator = _SEPARATORS.get(self.style, ",")
        return [f"{name}={separator.join(quote(text, safe=safe) for text in _list_texts(value))}"]

    def write_path(self, value: Any) -> str:
        """Return the value as a segment of a path, percent-encoded.

        Raises InvalidArguments for a value that would lead to another path: servers resolve the segments `.` and `..`,
        and some decode `%2F` before they do.
        """
        if self.media_type:
            return _check_segment(quote(write_value(value), safe=""), self.argument)
        if self.style == "matrix":
            return self._write_matrix(value)
        prefix, separator = "", ","
        if self.style == "label":
            prefix = "."
            if self.explode:
                separator = "."
        if isinstance(value, Mapping) and self.explode:
            texts = [f"{quote(str(key), safe='')}={quote(text, safe='')}" for key, text in _write_members(value)]
        else:
            texts = [quote(text, safe="") for text in _list_texts(value)]
        return _check_segment(prefix + separator.join(texts), self.argument)

    def write_header(self, value: Any) -> str:
        """Return the value of a header. Raises InvalidArguments for characters that a header cannot have."""
        if self.media_type:
            text = write_value(value)
        elif isinstance(value, Mapping) and self.explode:
            text = ",".join(f"{key}={member}" for key, member in _write_members(value))
        else:
            text = ",".join(_list_texts(value))
        if not is_header_value(text):
            problem = "a header can only have printable ASCII characters, and no spaces at its ends"
            raise InvalidArguments([f"$.{self.argument}: {problem}"])
        return text

    def write_cookie(self, value: Any) -> list[str]:
        """Return the pairs `name=value` of a Cookie header."""
        return self._replace(style="form", allow_reserved=False).write_query(value)

    def _write_matrix(self, value: Any) -> str:
        name = quote(self.name, safe="")
        if isinstance(value, Mapping) and self.explode:
            pairs = [(quote(str(key), safe=""), text) for key, text in _write_members(value)]
        elif isinstance(value, Sequence) and not isinstance(value, str) and self.explode:
            pairs = [(name, write_value(item)) for item in value]
        else:
            items = ",".join(quote(text, safe="") for text in _list_texts(value))
            return f";{name}={items}" if items else f";{name}"
        return "".join(f";{key}={quote(text, safe='')}" if text else f";{key}" for key, text in pairs)


def write_value(value: Any) -> str:
    """Return a value as text: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else dump_json(value).decode()


def _check_segment(text: str, argument: str) -> str:
    if not text:
        raise InvalidArguments([f"$.{argument}: must not be empty"])
    if text.lower() in _DOT_SEGMENTS:
        raise InvalidArguments([f"$.{argument}: must not be '.' or '..', which lead to another path"])
    if ".." in _ENCODED_SLASH.split(text):
        raise InvalidArguments([f"$.{argument}: must not have '..' beside a slash, which leads to another path"])
    return text


def _write_members(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, member in value.items():
        if member is not None:
            yield str(key), write_value(member)


def _list_texts(value: Any) -> list[str]:
    """Return the texts that a separator joins: the items of a list, or the names and values of an object in turn."""
    if isinstance(value, Mapping):
        return list(chain.from_iterable(_write_members(value)))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [write_value(item) for item in value]
    return [write_value(value)]


def _write_deep(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield names such as `name[key]` with their values (the style `deepObject`).

    OpenAPI does not define names for lists and for objects in objects. They are written as many servers accept them:
    `name[key][0]` and `name[key][key]`.
    """
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _write_deep(f"{name}[{key}]", member)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _write_deep(f"{name}[{index}]", item)
    elif value is not None:
        yield name, write_value(value)
