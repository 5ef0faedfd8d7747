"""An isolated tool may call all published tools, a sandboxed one only those in the settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.sandbox.sandbox_kit import needs_bubblewrap, needs_landlock

INNER = """
from mcp_bridge import CallContext, tool

@tool
async def invokes(ctx: CallContext, name: str) -> list[str]:
    result = await ctx.invoke(name)
    return [str(result.output) if result.success else f"{result.code}: {result.error}"]

@tool
def lists(ctx: CallContext) -> list[str]:
    return sorted(entry.name for entry in ctx.tools())
"""
OUTER = """
from mcp_bridge import CallContext, tool

@tool
def harmless() -> str:
    return "called"

@tool
def deletes() -> str:
    return "deleted"

@tool
async def relays(ctx: CallContext) -> str:
    return (await ctx.invoke("deletes")).output
"""
SANDBOX = pytest.param({"sandbox": "bubblewrap"}, marks=needs_bubblewrap)
LANDLOCK = pytest.param({"sandbox": "landlock"}, marks=needs_landlock)


async def call(folder: Path, isolation: dict[str, Any], tool: str, **arguments: Any) -> list[str]:
    (folder / "inner.py").write_text(INNER)
    (folder / "outer.py").write_text(OUTER)
    sources = [{"type": "python", "path": "inner.py", "isolation": isolation}, {"type": "python", "path": "outer.py"}]
    (folder / "bridge.json").write_text(json.dumps({"sources": sources}))
    async with connect(build_from_settings(load(folder / "bridge.json", {}))) as client:
        result = await client.call_tool(tool, arguments)
        names: list[str] = json.loads(result.content[0].text)
        return names


@pytest.mark.parametrize("name", ["deletes", "lists", "no_such_tool"])
@pytest.mark.parametrize("isolation", [SANDBOX, LANDLOCK, {"invokes": ["harmless"]}])
async def test_an_isolated_tool_can_call_only_tools_in_the_settings(
    isolation: dict[str, Any], name: str, tmp_path: Path
) -> None:
    (text,) = await call(tmp_path, isolation, "invokes", name=name)
    assert text.startswith("denied: ")
    assert "isolation.invokes" in text


@pytest.mark.parametrize("isolation", [SANDBOX, {}])
async def test_an_isolated_tool_can_call_and_list_tools_in_the_settings(
    isolation: dict[str, Any], tmp_path: Path
) -> None:
    isolation = {**isolation, "invokes": ["harm*", "relays"]}
    assert await call(tmp_path, isolation, "invokes", name="harmless") == ["called"]
    assert await call(tmp_path, isolation, "invokes", name="relays") == ["deleted"]
    assert await call(tmp_path, isolation, "lists") == ["harmless", "relays"]


async def test_a_tool_in_a_plain_worker_can_call_every_tool(tmp_path: Path) -> None:
    assert await call(tmp_path, {}, "invokes", name="deletes") == ["deleted"]
    assert "deletes" in await call(tmp_path, {}, "lists")


NESTING = """
import asyncio
import time

from mcp_bridge import CallContext, tool

@tool
async def slow() -> str:
    try:
        await asyncio.sleep(3600)
    finally:
        time.sleep(0.5)

@tool
def greet() -> str:
    return "hello"

@tool
async def relays(ctx: CallContext, name: str) -> str:
    result = await ctx.invoke(name)
    return str(result.output) if result.success else result.code
"""


async def test_a_nested_call_waits_for_the_worker_of_a_cancelled_one(tmp_path: Path) -> None:
    (tmp_path / "nesting.py").write_text(NESTING)
    source = {"type": "python", "path": "nesting.py", "isolation": {"workers": 1}}
    # The first call starts the second worker, so that the time limit of `slow` is for its run.
    limits = {"tools": {"slow": {"timeout": "100ms"}}}
    (tmp_path / "bridge.json").write_text(json.dumps({"sources": [source], "limits": limits}))
    async with connect(build_from_settings(load(tmp_path / "bridge.json", {}))) as client:
        for name, expected in [("greet", "hello"), ("slow", "timeout"), ("greet", "hello")]:
            result = await client.call_tool("relays", {"name": name})
            assert result.content[0].text == expected
