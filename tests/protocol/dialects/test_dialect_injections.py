"""Texts of hooks reach models with access to structured content only, in the dialect of their client."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA
from tests.kits.dialects.dialect_kit import POINT
from tests.kits.hooks.hooks_kit import HookedServer, get_texts, inject

CODEX = PROFILES["codex"].dialect


def build_bridge(output: Any = None, schema: Any = None) -> HookedServer:
    """Build a bridge with a tool `place`. Only its first call returns an injected text."""
    server = HookedServer()
    server.registry.register(
        ToolEntry("place", "", lambda data: output or {"x": 1}, {"type": "object"}, schema or POINT)
    )
    calls: list[Any] = []

    def note_once(data: Any) -> Any:
        calls.append(data)
        return inject("It is far.") if len(calls) == 1 else None

    server.on("tool:post", note_once)
    return server


async def test_only_the_dialect_of_codex_shows_injections() -> None:
    assert CODEX.show_injections
    assert not PROFILES["claude-code"].dialect.show_injections


@EVERY_ERA
async def test_a_governed_tool_has_no_output_schema_and_an_injected_text_replaces_structured_content(mode: str) -> None:
    async with connect(Bridge(build_bridge().registry, dialect=CODEX), mode=mode) as client:
        (definition,) = (tool for tool in (await client.list_tools()).tools if tool.name == "place")
        assert definition.output_schema is None
        first, plain = [await client.call_tool("place", {}) for _ in range(2)]
    assert (first.structured_content, get_texts(first)) == (None, ['{"x":1}', "It is far."])
    assert (plain.structured_content, get_texts(plain)) == ({"x": 1}, ['{"x":1}'])


@EVERY_ERA
async def test_an_output_that_is_no_object_is_text_in_both_results(mode: str) -> None:
    server = build_bridge([1, 2], {"type": "array"})
    async with connect(Bridge(server.registry, dialect=CODEX), mode=mode) as client:
        first, plain = [await client.call_tool("place", {}) for _ in range(2)]
    assert (first.structured_content, get_texts(first)) == (None, ["[1,2]", "It is far."])
    assert (plain.structured_content, get_texts(plain)) == (None, ["[1,2]"])


@pytest.mark.parametrize("dialect", [NO_DIALECT, PROFILES["claude-code"].dialect])
async def test_other_clients_receive_the_text_and_unchanged_structured_content(dialect: SchemaDialect) -> None:
    async with connect(Bridge(build_bridge().registry, dialect=dialect)) as client:
        (definition,) = (tool for tool in (await client.list_tools()).tools if tool.name == "place")
        assert definition.output_schema is not None
        first = await client.call_tool("place", {})
    assert (first.structured_content, get_texts(first)) == ({"x": 1}, ['{"x":1}', "It is far."])


async def test_tools_without_hooks_keep_their_output_schema() -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry("place", "", lambda data: {"x": 1}, {"type": "object"}, POINT))
    async with connect(Bridge(registry, dialect=CODEX)) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.output_schema is not None
        assert (await client.call_tool("place", {})).structured_content == {"x": 1}


async def test_the_output_of_a_governed_tool_is_still_validated() -> None:
    async with connect(Bridge(build_bridge({"x": "one"}).registry, dialect=CODEX)) as client:
        result = await client.call_tool("place", {})
    assert result.is_error
    assert "Output validation failed" in get_texts(result)[0]
