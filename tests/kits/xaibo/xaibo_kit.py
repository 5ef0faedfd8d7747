"""Xaibo sources that are served in the tests: files, a bridge over a source, the official client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
from mcp.client import Client

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.source import Offer
from mcp_bridge._integrations.xaibo.source import XaiboSource
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT


def write_files(folder: Path, **files: str) -> Path:
    """A folder with these Python files; a name that ends in `_yaml` is one of YAML."""
    for name, text in files.items():
        file = f"{name.removesuffix('_yaml')}.yaml" if name.endswith("_yaml") else f"{name}.py"
        (folder / file).write_text(dedent(text), "utf-8")
    return folder


class SourceBridge:
    """A bridge over one source, `mine`."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.source = XaiboSource("mine", directory=folder, **options)
        self.bridge = Bridge(sources=[AttachedSource(source=self.source)])

    @property
    def problems(self) -> list[str]:
        """What could not be published."""
        return self.bridge.problems.get("mine", [])

    def client(self, **options: Any) -> contextlib.AbstractAsyncContextManager[Client]:
        """The official client, connected for as long as the block."""
        return connect(self.bridge, **options)

    @contextlib.asynccontextmanager
    async def offers(self) -> AsyncIterator[Any]:
        """What the source publishes, one after the other, and no client."""
        send, publishes = anyio.create_memory_object_stream[Offer](100)
        with anyio.fail_after(TIMEOUT), send, publishes:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.source.run, send.send_nowait)
                yield publishes
                tasks.cancel_scope.cancel()


async def list_schemas(client: Client) -> dict[str, Mapping[str, Any]]:
    """The schemas of the tools that a client sees now, by their names."""
    return {tool.name: tool.input_schema for tool in (await client.list_tools(cache_mode="refresh")).tools}


async def call_text(client: Client, tool: str, **arguments: Any) -> str:
    """What a call says, which is marked where it is an error."""
    answer = await client.call_tool(tool, arguments)
    text = "\n".join(getattr(block, "text", block.type) for block in answer.content)
    return f"error: {text}" if answer.is_error else text
