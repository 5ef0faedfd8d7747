"""The tools of every server in the survival tests: one call stays in flight during each test."""

from __future__ import annotations

import os
import sys
from collections import defaultdict

import anyio

from mcp_bridge import tool

RELEASED: defaultdict[str, anyio.Event] = defaultdict(anyio.Event)


@tool
async def neighbour(token: str) -> str:
    """Run until `release` is called with the same token."""
    print(f"begun {token}", file=sys.stderr, flush=True)
    await RELEASED[token].wait()
    return f"neighbour {token}"


@tool
async def release(token: str) -> str:
    """Let the call of `neighbour` with this token return."""
    RELEASED[token].set()
    return "released"


@tool
async def whoami() -> int:
    """Return the id of the server process."""
    return os.getpid()


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text
