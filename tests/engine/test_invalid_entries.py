"""Invalid entries and results affect only themselves."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from mcp_bridge import CallContext, ToolCall, ToolEntry, ToolRegistry, tool
from mcp_bridge._contracts.errors import RegistryError
from mcp_bridge._sources.python import PythonSource
from mcp_bridge.testing import connect
from mcp_bridge.tool_use import ResultStatus

ODD = {
    "no tags": {"tags": None},
    "tags as text": {"tags": "abc"},
    "no annotations": {"annotations": None},
    "annotations as text": {"annotations": "abc"},
    "no icons": {"icons": None},
    "no meta": {"meta": None},
    "a title that is a number": {"title": 5},
}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_odd_entries_are_listed_with_the_others(mode: str) -> None:
    registry = ToolRegistry()
    for name, odd in ODD.items():
        registry.register(ToolEntry(name.replace(" ", "_"), "", lambda data: "x", **odd))
    registry.register(ToolEntry("plain", "", lambda data: "x", {}, {}, ["kept"]))
    async with connect(registry, mode=mode) as client:
        tools = {item.name: item for item in (await client.list_tools()).tools}
        assert sorted(tools) == sorted(["plain", *(name.replace(" ", "_") for name in ODD)])
        assert tools["plain"].meta == {"mcp-bridge/tags": ["kept"]}
        for name in tools:
            assert (await client.call_tool(name, {})).content[0].text == "x"


async def test_a_registry_frees_tools_that_were_removed_after_a_call() -> None:
    registry, handlers = ToolRegistry(), WeakSet[Any]()
    for number in range(50):

        def answer(data: object) -> str:
            return "x"

        handlers.add(answer)
        registry.register(ToolEntry(f"tool_{number}", "", answer))
        assert (await registry.dispatch(ToolCall(id="1", name=f"tool_{number}", arguments={}), CallContext())).success
        registry.unregister(f"tool_{number}")
    del answer
    gc.collect()
    assert len(handlers) <= 3


def test_a_name_that_is_not_text_cannot_be_registered() -> None:
    with pytest.raises(RegistryError, match="text, found 5"):
        ToolRegistry().register(ToolEntry(5, "", lambda data: None))  # type: ignore[arg-type]


def test_an_answer_that_contains_itself_is_partial() -> None:
    endless: list[object] = []
    endless.append(endless)
    registry = ToolRegistry()
    registry.register(ToolEntry("a", "", lambda data: endless, {}, {"type": "array"}))
    result = registry.invoke("a", {})
    assert result.status is ResultStatus.PARTIAL
    assert result.errors == ["$: the value contains itself or is nested deeper than 100 levels"]


async def test_a_call_made_without_arguments_has_none() -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry("inner", "", lambda data: data, {"type": "object"}))

    @tool(registry=registry)
    async def outer(ctx: CallContext) -> dict[str, object]:
        return {"inner": (await ctx.invoke("inner")).output}

    async with connect(registry) as client:
        assert (await client.call_tool("outer", {})).structured_content == {"inner": {}}


async def test_a_failed_assert_next_to_a_client_is_raised_unchanged() -> None:
    with pytest.raises(AssertionError, match="by name"):
        async with connect(ToolRegistry()):
            raise AssertionError("by name")


def test_files_of_a_folder_may_import_each_others_tools(tmp_path: Path) -> None:
    (tmp_path / "one_file.py").write_text("from mcp_bridge import tool\n@tool\ndef a() -> str:\n    return 'a'\n")
    (tmp_path / "other_file.py").write_text("from one_file import a\nfrom mcp_bridge import tool\nb = tool('b')(a)\n")
    offer = PythonSource("folder", path=tmp_path).load()
    assert offer.problems == []
    assert sorted(entry.name for entry in offer.tools) == ["a", "b"]
