"""Xaibo sources for tests: files, a bridge over a source, and the official client."""

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
    """Write Python files. A name with `_yaml` at its end is a YAML file."""
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
        """The problems of the source."""
        return self.bridge.problems.get("mine", [])

    def client(self, **options: Any) -> contextlib.AbstractAsyncContextManager[Client]:
        """Return a context manager for the official client."""
        return connect(self.bridge, **options)

    @contextlib.asynccontextmanager
    async def offers(self) -> AsyncIterator[Any]:
        """Yield a stream of the offers of the source, without a client."""
        send, publishes = anyio.create_memory_object_stream[Offer](100)
        with anyio.fail_after(TIMEOUT), send, publishes:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.source.run, send.send_nowait)
                yield publishes
                tasks.cancel_scope.cancel()


async def list_schemas(client: Client) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of the current tools of a client, by their names."""
    return {tool.name: tool.input_schema for tool in (await client.list_tools(cache_mode="refresh")).tools}


async def call_text(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of a call, with a prefix if it is an error."""
    answer = await client.call_tool(tool, arguments)
    text = "\n".join(getattr(block, "text", block.type) for block in answer.content)
    return f"error: {text}" if answer.is_error else text
