"""Toolboxes for tests. They record when they are opened and closed, and tests can change them and make them fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import anyio

from mcp_bridge import ToolEntry
from mcp_bridge._integrations.frameworks.toolboxes import Toolbox


def entry(name: str, answer: str = "") -> ToolEntry:
    """Return a tool with its name or another text as the result."""
    return ToolEntry(name, f"Says {name}.", lambda data: answer or name)


class Box(Toolbox):
    """A toolbox with tools. `fails` and `hangs` name the failing or hanging step (`open`, `list`, `close`)."""

    def __init__(self, *names: str, fails: str = "", hangs: str = "") -> None:
        self.names: Sequence[str] = names
        self.log: list[str] = []
        self.fails = fails
        self.hangs = hangs
        self._change = anyio.Event()

    async def __aenter__(self) -> Self:
        await self._do("open")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("close")
        if self.fails == "close":
            raise RuntimeError("cannot close")

    async def list_entries(self) -> Sequence[ToolEntry]:
        await self._do("list")
        return [entry(name) for name in self.names]

    async def wait_for_change(self) -> None:
        await self._change.wait()
        self._change = anyio.Event()
        if self.fails == "end":
            raise RuntimeError("the server has gone")

    def change(self, *names: str, fails: str = "") -> None:
        self.names, self.fails = names, fails
        self._change.set()

    async def _do(self, what: str) -> None:
        self.log.append(what)
        if self.hangs == what:
            await anyio.sleep_forever()
        if self.fails == what:
            raise RuntimeError(f"cannot {what}")


def convert_box(value: Any) -> Any:
    """Convert a Box too, as a replacement of `discovery.convert_toolbox`."""
    return value if isinstance(value, Box) else None
