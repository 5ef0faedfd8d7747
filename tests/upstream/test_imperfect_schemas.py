"""An imperfect schema of a server costs a keyword, not the tool. A result that breaks its schema keeps its text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp_types import TextContent

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._app.status import STATUS_URI
from mcp_bridge._contracts.source import Publish, Source
from mcp_bridge.sources import Offer
from mcp_bridge.testing import connect
from tests.kits.upstream.trust_kit import ScriptedGateway, call_tool, describe_tool, list_tools
from tests.kits.wire.speaking import make_entry

ZOD_EMAIL = "^(?!\\.)(?!.*\\.\\.)[A-Za-z0-9_.+-]+@[A-Za-z0-9.-]+$"


def make_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


LEFT_OUT = {
    "dash in a class": make_object(a={"type": "string", "pattern": "^[\\w-.]+$"}),
    "any character": make_object(a={"type": "string", "pattern": "^[^]*$"}),
    "required is null": {**make_object(a={"type": "string"}), "required": None},
    "minimum of draft 4": make_object(a={"type": "string", "exclusiveMinimum": True}),
    "required of draft 3": make_object(a={"type": "string", "required": True}),
    "reference to nothing": make_object(a={"$ref": "#/$defs/none", "type": "string"}),
    "unknown draft": {**make_object(a={"type": "string"}), "$schema": "https://example.com/draft"},
}
"""Schemas with one keyword that clients do not understand, of which the rest is published."""


@pytest.mark.parametrize("case", LEFT_OUT)
async def test_an_imperfect_schema_is_published_without_one_keyword(case: str, tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("edit", inputSchema=LEFT_OUT[case], outputSchema=LEFT_OUT[case]), structured={})
    bridge = gateway.build()
    async with connect(bridge) as client:
        (tool,) = (await list_tools(client)).values()
        assert tool.input_schema == tool.output_schema == make_object(a={"type": "string"})
        assert await call_tool(client, "files__edit", a="b")
        assert "expected type string, got integer" in await call_tool(client, "files__edit", a=1)
    assert not bridge.problems["files"]
    assert [note.partition(" schema")[0] for note in bridge.notes["files"]] == [
        "tool 'files__edit': input",
        "tool 'files__edit': output",
    ]


async def test_clients_get_a_pattern_with_look_ahead_that_only_the_server_checks(tmp_path: Path) -> None:
    schema = make_object(mail={"type": "string", "pattern": ZOD_EMAIL})
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("invite", inputSchema=schema))
    async with connect(gateway.build()) as client:
        assert (await list_tools(client))["files__invite"].input_schema == schema
        assert await call_tool(client, "files__invite", mail="a@b.example")
        (content,) = (await client.read_resource(STATUS_URI)).contents
    (source,) = json.loads(content.text)["sources"]  # type: ignore[union-attr]
    (note,) = source["notes"]
    assert note.startswith("tool 'files__invite': input schema #/properties/mail/pattern is not checked: ")
    assert source["state"] == "ready"


async def test_a_long_enum_is_left_out(tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    schema = make_object(a={"description": "A value", "enum": [f"v{number}" for number in range(6_000)]})
    gateway.offer(describe_tool("choose", inputSchema=schema))
    async with connect(gateway.build()) as client:
        tool = (await list_tools(client))["files__choose"]
        assert tool.input_schema["properties"] == {"a": {"description": "A value"}}
        assert await call_tool(client, "files__choose", a="v5999")


async def test_a_schema_of_any_third_party_is_repaired() -> None:
    """Modules of Amplifier, providers of Xaibo and tools of frameworks are published in the same way."""

    class Plugin(Source):
        async def run(self, publish: Publish) -> None:
            publish(Offer(tools=[make_entry(lambda data: "done", "edit", input_schema=LEFT_OUT["any character"])]))

    bridge = Bridge(ToolRegistry(), [AttachedSource(Plugin("plugin"))])
    async with connect(bridge) as client:
        result = await client.call_tool("edit", {"a": "b"})
    assert result.content == [TextContent(type="text", text="done")]
    assert bridge.notes["plugin"]


@pytest.mark.parametrize("structured", [{"a": "text"}, None])
async def test_a_result_that_breaks_its_schema_keeps_its_text(structured: Any, tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    schema = {**make_object(a={"type": "integer"}), "required": ["a"]}
    gateway.offer(describe_tool("count", outputSchema=schema), structured=structured)
    async with connect(gateway.build()) as client:
        result = await client.call_tool("files__count", {"path": "p"})
    finding, text, *data = [block.text for block in result.content if isinstance(block, TextContent)]
    assert result.is_error
    assert result.structured_content is None
    assert finding.startswith("Output validation failed for tool 'files__count'. The tool did run.")
    assert json.loads(text)["params"]["arguments"] == {"path": "p"}
    assert data == ([] if structured is None else ['{"a":"text"}'])
