"""The settings change titles, descriptions and arguments of the tools of any source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.loops import BOTH_LOOPS
from tests.kits.upstream.trust_kit import ScriptedGateway, call_tool, describe_tool, list_tools, wait_for_names

TOOLS = '''
from mcp_bridge import CallContext, tool

@tool
def search(query: str, limit: int = 10, api_key: str = "none") -> str:
    """Search the web.

    Args:
        query: What to search.
    """
    return f"{query} {limit} {api_key}"

@tool
async def delete(ctx: CallContext, path: str, force: bool) -> str:
    """Delete a file."""
    return f"{path} {force}"
'''


def build(folder: Path, overrides: dict[str, Any]) -> Bridge:
    (folder / "tools.py").write_text(TOOLS)
    source = {"type": "python", "path": "tools.py", "prefix": "web", "overrides": overrides}
    (folder / "settings.json").write_text(json.dumps({"sources": [source]}))
    return build_from_settings(load(folder / "settings.json", {"KEY": "planted-secret-value"}))


async def call_text(client: Any, name: str, **arguments: Any) -> str:
    return str((await client.call_tool(name, arguments)).content[0].text)


@BOTH_LOOPS
async def test_titles_and_descriptions_are_replaced(tmp_path: Path) -> None:
    arguments = {"query": {"description": "What to look for."}}
    override = {"title": "Web search", "description": "Find pages.", "arguments": arguments}
    async with connect(build(tmp_path, {"search": override})) as client:
        tool = (await list_tools(client))["web__search"]
    assert (tool.title, tool.description) == ("Web search", "Find pages.")
    assert tool.input_schema["properties"]["query"]["description"] == "What to look for."


@BOTH_LOOPS
async def test_fixed_arguments_are_sent_and_hidden_ones_are_not(tmp_path: Path) -> None:
    arguments = {"api_key": {"value": "${KEY}"}, "limit": {"hidden": True}}
    force = {"arguments": {"force": {"value": False}}}
    async with connect(build(tmp_path, {"search": {"arguments": arguments}, "delete": force})) as client:
        tools = await list_tools(client)
        assert list(tools["web__search"].input_schema["properties"]) == ["query"]
        assert tools["web__delete"].input_schema["required"] == ["path"]
        assert await call_text(client, "web__search", query="a") == "a 10 [secret]"
        assert await call_text(client, "web__delete", path="a") == "a False"


@pytest.mark.parametrize("sent", [{"api_key": "mine"}, {"limit": 1_000}])
async def test_clients_cannot_send_arguments_that_the_settings_take_away(tmp_path: Path, sent: dict[str, Any]) -> None:
    gateway = ScriptedGateway(tmp_path)
    properties = {"query": {"type": "string"}, "api_key": {"type": "string"}, "limit": {"type": "integer"}}
    gateway.offer(describe_tool("search", inputSchema={"type": "object", "properties": properties}))
    arguments = {"api_key": {"value": "ours"}, "limit": {"hidden": True}}
    gateway.options = {"overrides": {"search": {"arguments": arguments}}}
    async with connect(gateway.build()) as client:
        observations = await call_tool(client, "files__search", query="a", **sent)
        assert observations["params"]["arguments"] == {"query": "a", "api_key": "ours"}


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ({"arguments": {"force": {"hidden": True}}}, "the argument 'force' is required, so it needs a value"),
        ({"arguments": {"fast": {"hidden": True}}}, "there is no argument 'fast'"),
        ({"arguments": {"force": {"value": "no"}}}, "do not match its schema: $.force: expected type boolean"),
    ],
)
async def test_a_tool_that_cannot_be_changed_is_not_published(
    tmp_path: Path, override: dict[str, Any], problem: str
) -> None:
    bridge = build(tmp_path, {"delete": override})
    async with connect(bridge) as client:
        assert set(await list_tools(client)) == {"web__search"}
    assert "tool 'delete' is not published" in bridge.problems["tools"][0]
    assert problem in bridge.problems["tools"][0]


async def test_an_override_of_an_unknown_tool_is_reported(tmp_path: Path) -> None:
    bridge = build(tmp_path, {"serach": {"title": "Search"}})
    async with connect(bridge):
        assert bridge.problems["tools"] == ["overrides: there is no tool 'serach'"]


async def test_an_override_is_no_change_of_the_definition(tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("read"))
    for title in ("One", "Two"):
        gateway.options = {"overrides": {"read": {"title": title}}}
        async with connect(gateway.build()) as client:
            await wait_for_names(client, "files__read")
            assert (await list_tools(client))["files__read"].title == title
