"""A resource is the same in each spelling of its URI: to read it, to subscribe to it, and to complete its variables."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge.sources import ResourceEntry, ResourceTemplate
from mcp_bridge.testing import connect
from tests.kits.waiting import wait_until_true


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.resources.add(ResourceEntry("docs://caf%C3%A9", lambda data: data["uri"], name="index"))
    template = ResourceTemplate(
        "docs://café/{name}", lambda data: data["name"], name="page", completions={"name": ["menu"]}
    )
    registry.templates.add(template)
    return registry


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("docs://café", "docs://caf%C3%A9"),
        ("docs://caf%c3%a9", "docs://caf%C3%A9"),
        ("DOCS://café", "docs://caf%C3%A9"),
        ("docs://caf%C3%A9/menu", "menu"),
        ("docs://café/cr%C3%A8me", "crème"),
        ("docs://café/crème br%C3%BBl%C3%A9e", "crème brûlée"),
        ("docs://café/a%2520b", "a%20b"),
    ],
)
async def test_each_spelling_is_read(registry: ToolRegistry, uri: str, text: str) -> None:
    async with connect(Bridge(registry)) as client:
        [contents] = (await client.read_resource(uri)).contents
    assert contents.text == text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("items://fruit", "items://fruit"),
        ("items://fruit?x=1", "items://fruit"),
        ("items://fruit?page-size=2&tags=a%2Cb,c&x=1#top", "items://fruit?tags=a%2Cb,c&page-size=2"),
        ("items://fruit?%74ags=a&tags=b&page-size=2&page-size=3", "items://fruit?tags=a&page-size=2"),
    ],
)
async def test_a_server_that_reads_the_variables_itself_gets_what_policies_see(uri: str, text: str) -> None:
    registry = ToolRegistry()
    template = ResourceTemplate("items://{kind}{?tags,page-size}", lambda data: data["uri"], is_opaque=True)
    registry.templates.add(template)
    assert registry.finder.find_resource(uri).uri == text
    async with connect(Bridge(registry)) as client:
        [contents] = (await client.read_resource(uri)).contents
    assert contents.text == text  # type: ignore[union-attr]


@pytest.mark.parametrize("uri", ["docs://café/{name}", "docs://caf%C3%A9/{name}"])
async def test_variables_of_a_template_are_completed_in_each_spelling(registry: ToolRegistry, uri: str) -> None:
    async with connect(Bridge(registry)) as client:
        reference = types.ResourceTemplateReference(type="ref/resource", uri=uri)
        result = await client.complete(reference, {"name": "name", "value": "m"})
    assert result.completion.values == ["menu"]


@pytest.mark.filterwarnings("ignore:resources/")
async def test_an_update_is_notified_with_the_uri_that_was_subscribed_to(registry: ToolRegistry) -> None:
    updates: list[str] = []

    async def receive(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.append(str(message.params.uri))

    async with connect(Bridge(registry), mode="legacy", message_handler=receive) as client:
        await client.subscribe_resource("docs://caf%C3%A9/menu")
        registry.resource_updated("docs://café/menu")
        await wait_until_true(lambda: updates == ["docs://caf%C3%A9/menu"])
        await client.unsubscribe_resource("docs://café/menu")
        registry.resource_updated("docs://café/menu")
        await client.list_tools()
    assert updates == ["docs://caf%C3%A9/menu"]
