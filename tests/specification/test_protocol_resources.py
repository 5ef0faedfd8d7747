"""Resources, in both eras."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.client.raw_client import RawClient
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_tools import PNG, SECRET
from tests.kits.protocol.protocol_ways import HANDSHAKE_ONLY, STATELESS_ONLY, Connected

TRAVERSALS = (
    "../../etc/passwd", "a/../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "%2E%2E%2Fetc",
    "..", "a/../..", "..\\..\\etc", "..%5c..%5cetc", "/etc/passwd", "%2fetc%2fpasswd",
    "a%00b", "C:%5cwindows", "C:/windows", "%5cetc", "c:windows",
)  # fmt: skip
NO_URIS = ("", "text", "no uri at all", "test:// text", "test://text\n", "://text", "1test://text", "test://t\u00e9xt")


async def read(raw: RawClient, uri: str) -> list[Any]:
    """Read a resource, and return its contents."""
    contents: list[Any] = (await raw.get_result("resources/read", {"uri": uri}))["contents"]
    return contents


@proves("resources/list", "resources/templates")
async def test_resources_and_templates_are_listed(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        resources = {resource["uri"]: resource for resource in (await raw.get_result("resources/list"))["resources"]}
        assert resources["test://text"]["mimeType"] == "text/plain"
        assert (resources["test://text"]["name"], resources["test://text"]["title"]) == ("text", "A text")
        templates = (await raw.get_result("resources/templates/list"))["resourceTemplates"]
        assert {resource["uriTemplate"] for resource in templates} == {
            "test://people/{name}/notes/{number}",
            "test://files/{+path}",
        }
        assert all(resource["name"] for resource in templates)


@proves("resources/contents")
async def test_contents_are_text_or_base64_at_their_uri(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert await read(raw, "test://text") == [
            {"uri": "test://text", "mimeType": "text/plain", "text": "héllo 世界"}
        ]
        (binary,) = await read(raw, "test://bytes")
        assert (binary["uri"], binary["mimeType"], "text" in binary) == ("test://bytes", "image/png", False)
        assert base64.b64decode(binary["blob"], validate=True) == PNG
        first, second = await read(raw, "test://several")
        assert (first["uri"], first["text"]) == ("test://several/1", "one")
        assert (second["uri"], base64.b64decode(second["blob"])) == ("test://several/2", b"2")


@proves("resources/templates")
async def test_a_resource_of_a_template_is_read(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        (note,) = await read(raw, "test://people/ann%20b/notes/7")
        assert note["text"] == "note 7 of ann b"
        assert note["uri"] == "test://people/ann%20b/notes/7"
        assert (await read(raw, "test://files/a/b..c.txt"))[0]["text"] == "the file a/b..c.txt"
    async with connected.client() as client:
        contents = (await client.read_resource("test://people/bob/notes/1")).contents
        assert contents[0].text == "note 1 of bob"  # type: ignore[union-attr]


@proves("resources/not-found", "resources/no-empty-contents")
async def test_a_missing_resource_is_an_error_with_its_uri(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for uri in ("test://nothing", "test://people/ann", "other://text", "file:///etc/passwd"):
            error = await raw.get_error("resources/read", {"uri": uri})
            assert (error["code"], error["data"]["uri"]) == (-32602, uri)
    async with connected.client() as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("test://nothing")
        assert caught.value.error.code == -32602


@proves("resources/uris-validated")
async def test_an_invalid_or_unmatched_uri_reads_nothing(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for uri in (*NO_URIS, "test://people/ann/notes/many", "test://people/ann/notes/1/2", "x" * 10_000):
            assert (await raw.get_error("resources/read", {"uri": uri}))["code"] == -32602, uri


@proves("resources/no-traversal")
async def test_paths_cannot_leave_the_folder_of_the_template(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        answers = {path: await raw.request("resources/read", {"uri": f"test://files/{path}"}) for path in TRAVERSALS}
        assert {path: answer for path, answer in answers.items() if "result" in answer} == {}
        assert {answer["error"]["code"] for answer in answers.values()} == {-32602}


@proves("resources/internal-errors")
async def test_a_read_that_fails_inside_is_an_internal_error(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        error = await raw.get_error("resources/read", {"uri": "test://crash"})
        assert error["code"] == -32603
        assert SECRET not in json.dumps(error)


@proves("resources/subscribe")
@HANDSHAKE_ONLY
async def test_a_subscriber_is_notified_of_updates_until_it_unsubscribes(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        await raw.get_result("resources/subscribe", {"uri": "test://watched"})
        await raw.call("touch", {"uri": "test://text"})
        await raw.call("touch", {"uri": "test://watched"})
        notification = await raw.receive_message("notifications/resources/updated")
        assert notification["params"]["uri"] == "test://watched"
        assert (await read(raw, "test://watched"))[0]["text"] == "version 2"
        await raw.get_result("resources/unsubscribe", {"uri": "test://watched"})
        await raw.get_result("resources/subscribe", {"uri": "test://text"})
        await raw.call("touch", {"uri": "test://watched"})
        await raw.call("touch", {"uri": "test://text"})
        assert (await raw.receive_message("notifications/resources/updated"))["params"]["uri"] == "test://text"
        assert len(raw.list_notifications("notifications/resources/updated")) == 2


@proves("resources/updates")
@STATELESS_ONLY
async def test_a_listener_is_notified_of_updates_of_its_resources(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        await raw.send_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["test://watched"]}})
        await raw.receive_message("notifications/subscriptions/acknowledged")
        await raw.call("touch", {"uri": "test://text"})
        await raw.call("touch", {"uri": "test://watched"})
        assert (await raw.receive_message("notifications/resources/updated"))["params"]["uri"] == "test://watched"
        assert len(raw.list_notifications("notifications/resources/updated")) == 1
        assert (await read(raw, "test://watched"))[0]["text"] == "version 2"
