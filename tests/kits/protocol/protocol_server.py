"""The server of tests/specification: the same tools, resources and prompts on every transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.serve import serve_stdio as serve_over_stdio
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio
from mcp_bridge.serving import State
from tests.kits.protocol import (
    protocol_offers,  # noqa: F401 - for what it offers
    protocol_questions,  # noqa: F401 - likewise
)
from tests.kits.protocol.protocol_tools import OFFERED

NAME = "protocol-tests"


def build_bridge(*, state: Mapping[str, Any] | None = None, drain: float = 10, **identity: Any) -> Bridge:
    """Return a bridge for one server. `identity` are fields of its `Identity`, `state` of its `State`.

    `drain` is in seconds.
    """
    registry = ToolRegistry()
    offers = {"resources": OFFERED.resources, "templates": OFFERED.templates, "prompts": OFFERED.prompts}
    registry.publish("tests", OFFERED.list(), **offers)
    who = Identity(**{"name": NAME, "version": "1", **identity})
    return Bridge(registry, identity=who, state=State(**(state or {})), drain=drain)


def serve_over_stdio_streams(backend: str = "asyncio", **options: Any) -> None:
    """Serve one client over standard input and output until it ends."""
    with reserve_stdio() as pipes:
        anyio.run(serve_over_stdio, build_bridge(**options), pipes, backend=backend)


def warm_up() -> None:
    """Import everything a server would import later by using it once. No thread remains."""
    import mcp_bridge._transports.stdio  # noqa: F401
    from mcp_bridge.testing import connect

    async def use() -> None:
        for mode in ("legacy", "auto"):
            async with connect(build_bridge(), mode=mode) as client:
                await client.list_tools()

    for backend in ("trio", "asyncio"):
        anyio.run(use, backend=backend)
