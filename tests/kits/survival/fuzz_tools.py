"""A tool, a resource, a template and a prompt of the fuzzed server, in addition to the survival tools."""

from __future__ import annotations

from mcp_bridge import prompt, resource, tool


@tool
def shape(points: list[dict[str, float]], name: str = "shape", closed: bool = False) -> dict[str, int | str]:
    """Count the points of a shape."""
    return {"name": name, "points": len(points) + closed}


@resource("fuzz://text")
def text() -> str:
    """A text."""
    return "text"


@resource("fuzz://notes/{name}", completions={"name": ["ann", "bob"]})
def note(name: str) -> str:
    """A note."""
    return f"note {name}"


@prompt
def greeting(who: str) -> str:
    """Says hello."""
    return f"Hello {who}"
