"""Settings for tools/list: search tools, and tools for resources and prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._app.opening import open_bridge
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.listing import SearchPolicy, ToolListing

TOOLS = "from mcp_bridge import tool\n\n\n@tool\ndef search_tools() -> None:\n    pass\n"


async def read_listing(folder: Path, lines: str) -> ToolListing:
    (folder / "tools.py").write_text(TOOLS)
    file = folder / "settings.yaml"
    file.write_text(f"sources: [{{type: python, path: tools.py, prefix: mine}}]\n{lines}")
    async with open_bridge(file) as bridge:
        return bridge.identity.listing


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", ToolListing()),
        ("tool_search: 100", ToolListing(search=SearchPolicy(above=100))),
        ("tool_search: 0", ToolListing(search=SearchPolicy(above=0))),
        ("tool_search: {}", ToolListing(search=SearchPolicy(above=50))),
        ("tool_search: {above: 7, keep: ['a*']}", ToolListing(search=SearchPolicy(above=7, keep=("a*",)))),
        ("entries_as_tools: true", ToolListing(resources=True, prompts=True)),
    ],
)
async def test_the_settings_decide_what_is_listed(lines: str, expected: ToolListing, tmp_path: Path) -> None:
    assert await read_listing(tmp_path, lines) == expected


@pytest.mark.parametrize("value", ["-1", "true", "many", "{most: 3}", "{keep: 3}"])
async def test_a_mistake_is_reported_with_its_line(value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"settings.yaml:2:.*tool_search"):
        await read_listing(tmp_path, f"tool_search: {value}")


async def test_a_source_with_a_tool_of_the_same_name_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS + TOOLS.replace("search_tools", "other"))
    file = tmp_path / "settings.yaml"
    file.write_text("sources: [{type: python, path: tools.py}]\ntool_search: 0\n")
    async with open_bridge(file) as bridge:
        assert bridge.registry.list_names() == ["other"]
        (problem,) = bridge.problems["tools"]
    assert "tool 'search_tools' is not published: the settings add a tool of this name" in problem
