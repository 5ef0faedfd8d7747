"""Opaque cursors: a page begins after a name, so pages stay right while the catalog changes."""

from __future__ import annotations

import base64
import binascii

_MARK = b"after:"


class BadCursor(ValueError):
    """A cursor that this server did not make."""


def encode(name: str) -> str:
    """The cursor of the page that begins after `name`."""
    return base64.urlsafe_b64encode(_MARK + name.encode()).decode().rstrip("=")


def decode(cursor: str) -> str:
    """The name a page begins after. Raises BadCursor for one that `encode` did not make."""
    try:
        data = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        name = data.removeprefix(_MARK).decode()
    except (binascii.Error, UnicodeError) as error:
        raise BadCursor(cursor) from error
    if not data.startswith(_MARK) or encode(name) != cursor:
        raise BadCursor(cursor)
    return name
