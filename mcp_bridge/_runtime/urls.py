"""Splits URLs of users, documents and upstreams, which may be invalid."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def split_url(text: str) -> SplitResult:
    """Split a URL like `urlsplit`, but never raise: all parts of an invalid URL are empty.

    `http://[::1` and `http://host:port` are invalid, for example.
    """
    try:
        parts = urlsplit(text)
        # The property raises ValueError for a port that is not a number, or is too large.
        _ = parts.port
    except ValueError:
        return urlsplit("")
    return parts
