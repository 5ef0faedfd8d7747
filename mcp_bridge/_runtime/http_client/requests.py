"""Requests and responses as plain data, and the errors of the client. Importing this imports no HTTP library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class HttpClientError(Exception):
    """A request has no response. The text is for users and models, and has no URL, because URLs may contain secrets."""


class AddressRejected(HttpClientError):
    """The host has no allowed address."""


class ServerUnreachable(HttpClientError):
    """The server cannot be reached, or does not respond as HTTP requires."""


def is_header_value(text: str) -> bool:
    """Whether a text can be the value of a header as it is (RFC 9110, 5.5), in ASCII."""
    return text.isascii() and text.isprintable() and text == text.strip()


class Part(NamedTuple):
    """A part of a multipart body. Without `filename`, it is a field."""

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
