"""Resources: text, bytes, one behind a template, one to watch."""

from __future__ import annotations

import json

from samples import RED_DOT
from shelf import registry

from mcp_bridge import resource


@resource("test://static-text", name="Static text", mime_type="text/plain", registry=registry)
def static_text() -> str:
    """A constant text."""
    return "This is the content of the static text resource."


@resource("test://static-binary", name="Static binary", mime_type="image/png", registry=registry)
def static_binary() -> bytes:
    """A constant picture."""
    return RED_DOT


@resource("test://watched-resource", name="Watched resource", mime_type="text/plain", registry=registry)
def watched_resource() -> str:
    """A text with subscriptions."""
    return "Watched resource content"


@resource("test://template/{id}/data", name="Data by id", mime_type="application/json", registry=registry)
def data(id: str) -> str:
    """The data of one id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
