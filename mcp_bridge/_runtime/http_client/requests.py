"""Requests and responses of the client as plain data, and its errors. This module imports no HTTP library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class HttpClientError(Exception):
    """A request failed without a response.

    Users and models see the text. It contains no URL, because URLs may contain secrets.
    """


class AddressRejected(HttpClientError):
    """The host has no allowed address."""


class ServerUnreachable(HttpClientError):
    """The server cannot be reached, or does not respond as HTTP requires."""


def is_header_value(text: str) -> bool:
    """Whether an ASCII text can be the value of a header without an encoding (RFC 9110, section 5.5)."""
    return text.isascii() and text.isprintable() and text == text.strip()


class Part(NamedTuple):
    """A part of a multipart body: a file, or a field if `filename` is None."""

    name: str
    content: bytes
    media_type: str
    filename: str | None = None


class ApiRequest(NamedTuple):
    """A request. Only the origin of `url` receives `secret_headers` and `secret_query`.

    `query` is encoded already. `parts` are the parts of a multipart body, in place of `content`.
    """

    method: str
    url: str
    query: str = ""
    headers: Mapping[str, str] = {}
    content: bytes | None = None
    parts: Sequence[Part] = ()
    secret_headers: Mapping[str, str] = {}
    secret_query: str = ""


class HttpResponse(NamedTuple):
    """A response with its whole body. `headers` have lower-case names; repeated ones are joined by commas.

    If `is_truncated`, the body is longer than the limit, and `body` has its beginning.
    """

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    url: str
    is_truncated: bool = False
