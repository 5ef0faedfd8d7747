"""Resources and prompts as tools, for clients with support for tools only."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest
from mcp_types import ElicitResult

from mcp_bridge import CallContext, ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.content import EmbeddedResource, Message
from mcp_bridge._contracts.errors import ResourceNotFound
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.listing import ToolListing
from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.middleware import Pipeline
from mcp_bridge.testing import connect
from tests.kits.call_recorder import CallRecorder
from tests.kits.constants import EVERY_ERA
from tests.kits.questions.asking_kit import get_code, get_text

PIXEL = b"\x89PNG"


def build_bridge(*middleware: Any, resources: bool = True, prompts: bool = True, **identity: Any) -> Bridge:
    """Build a bridge with two resources, a template and a prompt."""
    registry = ToolRegistry(pipeline=Pipeline(middleware))
    registry.resources.add(ResourceEntry("notes://today", lambda data: "buy milk", "today", mime_type="text/plain"))
    registry.resources.add(ResourceEntry("notes://pixel", lambda data: PIXEL, "pixel", mime_type="image/png"))
    registry.resources.add(ResourceEntry("notes://disk", lambda data: b"\0\1", "disk"))

    def find_user(variables: Mapping[str, str]) -> str:
        if variables["id"] == "0":
            raise ResourceNotFound("There is no user 0.")
        return f"user {variables['id']}"

    registry.templates.add(ResourceTemplate("users://{id}", find_user, "user", "A user by id."))

    async def review(data: Mapping[str, str], ctx: CallContext) -> list[Message]:
        return [Message(f"Review {data['file']}."), Message("Gladly.", "assistant")]

    arguments = [PromptArgument("file", "What to review.", required=True)]
    registry.prompts.add(PromptEntry("review", review, "Review a file.", arguments))
    listing = ToolListing(resources=resources, prompts=prompts)
    return Bridge(registry, identity=Identity(listing=listing, **identity))


async def test_the_built_in_tools_are_listed_only_with_their_setting() -> None:
    for resources, prompts, expected in [
        (True, True, ["get_prompt", "list_prompts", "list_resources", "read_resource"]),
        (True, False, ["list_resources", "read_resource"]),
        (False, True, ["get_prompt", "list_prompts"]),
        (False, False, []),
    ]:
        async with connect(build_bridge(resources=resources, prompts=prompts)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == expected


@EVERY_ERA
async def test_resources_and_templates_are_listed_and_read(mode: str) -> None:
    async with connect(build_bridge(), mode=mode) as client:
        listing = (await client.call_tool("list_resources", {})).structured_content
        text = await client.call_tool("read_resource", {"uri": "notes://today"})
        image = await client.call_tool("read_resource", {"uri": "notes://pixel"})
        second_result = await client.call_tool("read_resource", {"uri": "notes://disk"})
        user = await client.call_tool("read_resource", {"uri": "users://7"})
    assert listing is not None
    assert listing["resources"][2] == {"uri": "notes://today", "name": "today", "mimeType": "text/plain"}
    assert listing["resourceTemplates"] == [
        {"uriTemplate": "users://{id}", "name": "user", "description": "A user by id."}
    ]
    assert get_text(text) == "buy milk"
    assert (image.content[0].type, image.content[0].data) == ("image", base64.b64encode(PIXEL).decode())
    assert second_result.content[0].type == "resource"
    assert get_text(user) == "user 7"


async def test_long_lists_have_pages() -> None:
    async with connect(build_bridge(page=2)) as client:
        first = (await client.call_tool("list_resources", {})).structured_content
        assert first is not None
        remainder = (await client.call_tool("list_resources", {"cursor": first["nextCursor"]})).structured_content
        wrong = await client.call_tool("list_resources", {"cursor": "3"})
    assert [resource["uri"] for resource in first["resources"]] == ["notes://disk", "notes://pixel"]
    assert remainder == {"resources": [{"uri": "notes://today", "name": "today", "mimeType": "text/plain"}]}
    assert get_code(wrong) == "invalid_arguments"


@EVERY_ERA
async def test_prompts_are_listed_and_got(mode: str) -> None:
    async with connect(build_bridge(), mode=mode) as client:
        listing = await client.call_tool("list_prompts", {})
        got = await client.call_tool("get_prompt", {"name": "review", "arguments": {"file": "a.py"}})
    argument = {"name": "file", "description": "What to review.", "required": True}
    assert listing.structured_content == {
        "prompts": [{"name": "review", "description": "Review a file.", "arguments": [argument]}]
    }
    assert got.structured_content == {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Review a.py."}},
            {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
        ]
    }


async def test_policies_see_the_resource_and_the_prompt() -> None:
    recorder = CallRecorder()
    async with connect(build_bridge(recorder)) as client:
        await client.call_tool("read_resource", {"uri": "users://7"})
        await client.call_tool("get_prompt", {"name": "review", "arguments": {"file": "a.py"}})
    assert [(call.kind, call.name, call.arguments) for call in recorder.calls] == [
        ("resource", "users://7", {"id": "7"}),
        ("prompt", "review", {"file": "a.py"}),
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "text"),
    [
        ("read_resource", {"uri": "notes://gone"}, "resource_not_found", "notes://gone"),
        ("read_resource", {"uri": "users://0"}, "resource_not_found", "There is no user 0."),
        ("read_resource", {"uri": "users://.."}, "resource_not_found", "users://.."),
        ("read_resource", {"url": "notes://today"}, "invalid_arguments", "$.uri: required field missing"),
        ("get_prompt", {"name": "reviews"}, "prompt_not_found", "list_prompts"),
        ("get_prompt", {"name": "review"}, "invalid_arguments", "$.arguments.file: required field missing"),
        ("get_prompt", {"name": "review", "arguments": {"file": 3}}, "invalid_arguments", "$.arguments.file"),
        ("get_prompt", {"prompt": "review"}, "invalid_arguments", "$.name: required field missing"),
    ],
)
async def test_mistakes_are_errors_that_a_model_can_fix(
    tool: str, arguments: dict[str, Any], code: str, text: str
) -> None:
    async with connect(build_bridge()) as client:
        result = await client.call_tool(tool, arguments)
    assert get_code(result) == code
    assert text in get_text(result)


async def test_the_rest_of_a_truncated_result_is_read() -> None:
    bridge = build_bridge(result=100)
    bridge.registry.register(ToolEntry("long", "", lambda data: "x" * 150, {"type": "object"}))
    async with connect(bridge) as client:
        result = await client.call_tool("long", {})
        links = [block for block in result.content if block.type == "resource_link"]
        remainder = await client.call_tool("read_resource", {"uri": links[0].uri})
    assert get_text(remainder) == "x" * 50


@EVERY_ERA
async def test_a_resource_asks_the_user_through_the_tool(mode: str) -> None:
    async def read_secret(data: Any, ctx: CallContext) -> EmbeddedResource:
        answer = await ctx.ask("Show it?")
        return EmbeddedResource("notes://secret", f"shown: {bool(answer)}")

    async def accept_question(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={})

    bridge = build_bridge()
    bridge.registry.resources.add(ResourceEntry("notes://secret", read_secret))
    async with connect(bridge, mode=mode, elicitation_callback=accept_question) as client:
        result = await client.call_tool("read_resource", {"uri": "notes://secret"})
    assert get_text(result) == "shown: True"
