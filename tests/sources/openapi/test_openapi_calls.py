"""Calls of operations: the requests to the API, and the results for the client."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._settings import load
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.openapi.api_server import (
    ApiServer,
    Json,
    Reply,
    get_text,
    json_reply,
    list_tools,
    make_document,
    serve_document,
)

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


def make_parameter(name: str, place: str, schema: Json | None = None, **members: Any) -> Json:
    return {"name": name, "in": place, "schema": schema or {"type": "string"}, **members}


def make_operation(method: str, path: str, **content: Any) -> Json:
    return make_document({path: {method: {"operationId": "run", **content}}})


def make_body(media_type: str, schema: Json | None = None, **members: Any) -> Json:
    return {"required": True, "content": {media_type: {"schema": schema or {}, **members}}}


@BOTH_LOOPS
async def test_arguments_are_sent_in_the_places_of_the_document(api: ApiServer, tmp_path: Path) -> None:
    parameters = [
        make_parameter("id", "path"),
        make_parameter("tags", "query", {"type": "array"}),
        make_parameter("sort", "query", {"type": "array"}, explode=False),
        make_parameter("filter", "query", {"type": "object"}, style="deepObject"),
        make_parameter("X-Trace", "header", {"type": "integer"}),
        make_parameter("theme", "cookie"),
        {"name": "q", "in": "query", "content": {"application/json": {"schema": {}}}},
    ]
    document = make_operation(
        "post",
        "/items/{id}/parts",
        parameters=parameters,
        requestBody=make_body("application/json", {"type": "object"}),
    )
    async with serve_document(tmp_path, document, server=f"{api.url}/v1/") as client:
        arguments = {
            "id": "a/b ü", "tags": ["x", "y&z"], "sort": ["a", "b"], "filter": {"min": 1, "in": {"deep": True}},
            "X-Trace": 7, "theme": "dark", "q": {"a": [1]}, "body": {"name": "n"},
        }  # fmt: skip
        result = await client.call_tool("run", arguments)
    assert not result.is_error, get_text(result)
    (request,) = api.received
    assert request.method == "POST"
    assert request.path == "/v1/items/a%2Fb%20%C3%BC/parts"
    assert request.query == [
        ("tags", "x"), ("tags", "y&z"), ("sort", "a,b"), ("filter[min]", "1"), ("filter[in][deep]", "true"),
        ("q", '{"a":[1]}'),
    ]  # fmt: skip
    assert request.headers["x-trace"] == "7"
    assert request.headers["cookie"] == "theme=dark"
    assert request.headers["content-type"] == "application/json"
    assert request.body == b'{"name":"n"}'


@pytest.mark.parametrize("value", ["..", ".", "", "%2E%2e", "../x", "a\\..\\b"])
async def test_no_argument_leads_to_another_path(value: str, api: ApiServer, tmp_path: Path) -> None:
    document = make_operation("delete", "/users/{id}/keys", parameters=[make_parameter("id", "path")])
    async with serve_document(tmp_path, document, server=api.url) as client:
        result = await client.call_tool("run", {"id": value})
    if value.startswith("%"):
        assert api.received[0].path == "/users/%252E%252e/keys"
    else:
        assert result.is_error
        assert "$.id: must not" in get_text(result)
        assert api.received == []


async def test_a_header_cannot_contain_another_header(api: ApiServer, tmp_path: Path) -> None:
    document = make_operation("get", "/x", parameters=[make_parameter("X-A", "header")])
    async with serve_document(tmp_path, document, server=api.url) as client:
        for value in ("1\r\nX-Admin: 1", " 1"):
            result = await client.call_tool("run", {"X-A": value})
            assert "$.X-A: a header can only have printable ASCII characters" in get_text(result)
    assert api.received == []


async def test_a_header_of_the_settings_replaces_that_of_the_request(api: ApiServer, tmp_path: Path) -> None:
    headers = {"Accept": "application/vnd.github.raw+json"}
    async with serve_document(tmp_path, make_operation("get", "/x"), server=api.url, headers=headers) as client:
        assert not (await client.call_tool("run", {})).is_error
    assert api.received[0].headers["accept"] == "application/vnd.github.raw+json"


async def test_integers_can_have_more_than_64_bits(api: ApiServer, tmp_path: Path) -> None:
    arguments = {"n": 2**70, "body": {"id": 2**70}}
    parameters = [make_parameter("n", "query", {"type": "integer"})]
    content = {"parameters": parameters, "requestBody": make_body("application/json")}
    source = {"type": "openapi", "document": "api.json", "server": api.url, "allow_addresses": ["loopback"]}
    (tmp_path / "api.json").write_text(json.dumps(make_operation("post", "/x", **content)))
    (tmp_path / "s.json").write_text(json.dumps({"sources": [source]}))
    api.reply = json_reply({"id": 2**70})
    bridge = build_from_settings(load(tmp_path / "s.json", {}))
    async with bridge.run_sources():
        await bridge.wait_until_started()
        result = await bridge.registry.dispatch(ToolCall(id="1", name="run", arguments=arguments), RunningCall())
    assert result.success, result.error_text
    assert api.received[0].query == [("n", "1180591620717411303424")]
    assert api.received[0].body == b'{"id":1180591620717411303424}'
    assert result.output == {"id": 2**70}


async def test_a_path_can_have_a_query_and_a_fragment_of_its_own(api: ApiServer, tmp_path: Path) -> None:
    document = make_operation("get", "/x?action=list#first", parameters=[make_parameter("n", "query")])
    async with serve_document(tmp_path, document, server=api.url) as client:
        assert not (await client.call_tool("run", {"n": "1"})).is_error
    assert api.received[0].target == "/x?action=list&n=1"


async def test_arguments_are_validated_before_a_request(api: ApiServer, tmp_path: Path) -> None:
    document = make_operation(
        "get", "/x/{n}", parameters=[make_parameter("n", "path", {"type": "integer", "maximum": 9})]
    )
    async with serve_document(tmp_path, document, server=api.url) as client:
        for arguments in ({}, {"n": 10}, {"n": 1, "other": 1}):
            assert (await client.call_tool("run", arguments)).is_error
    assert api.received == []


async def test_forms_are_encoded_by_their_encoding(api: ApiServer, tmp_path: Path) -> None:
    media = "application/x-www-form-urlencoded"
    encoding = {"expand": {"style": "deepObject", "explode": True}, "ids": {"explode": False}}
    body = {"name": "a b&c", "ids": [1, 2], "many": ["x", "y"], "expand": ["owner"], "meta": {"k": 1}, "none": None}
    document = make_operation("post", "/x", requestBody=make_body(media, {"type": "object"}, encoding=encoding))
    async with serve_document(tmp_path, document, server=api.url) as client:
        assert not (await client.call_tool("run", {"body": body})).is_error
    (request,) = api.received
    assert request.headers["content-type"] == media
    assert request.body == b"name=a+b%26c&ids=1,2&many=x&many=y&expand%5B0%5D=owner&meta=%7B%22k%22%3A1%7D"


async def test_files_are_parts_of_a_multipart_body(api: ApiServer, tmp_path: Path) -> None:
    binary = {"type": "string", "format": "binary", "description": "The picture."}
    properties = {"title": {"type": "string"}, "image": binary, "more": {"type": "array", "items": binary}, "meta": {}}
    schema = {"type": "object", "properties": properties, "required": ["image"]}
    document = make_operation("post", "/x", requestBody=make_body("multipart/form-data", schema))
    file = {"data": base64.b64encode(PNG).decode(), "filename": 'a"b.png', "media_type": "image/png"}
    async with serve_document(tmp_path, document, server=api.url) as client:
        tool = (await list_tools(client))["run"]
        assert tool.input_schema["properties"]["body"]["properties"]["image"]["required"] == ["data"]
        body = {"title": "T", "image": file, "more": [{"data": "QQ=="}], "meta": {"k": [1]}}
        assert not (await client.call_tool("run", {"body": body})).is_error
        wrong = await client.call_tool("run", {"body": {"image": {"data": "?"}}})
        unsafe = await client.call_tool("run", {"body": {"image": {"data": "QQ==", "media_type": "image/png\r\nX: 1"}}})
    assert "$.body.image.data: expected base64" in get_text(wrong)
    assert "$.body.image.media_type: expected a media type" in get_text(unsafe)
    (request,) = api.received
    media_type, _, boundary = request.headers["content-type"].partition("; boundary=")
    assert media_type == "multipart/form-data"
    parts = [piece.strip(b"\r\n") for piece in request.body.split(f"--{boundary}".encode())][1:-1]
    assert parts[0].endswith(b"\r\n\r\nT")
    assert b'name="image"; filename="a%22b.png"\r\nContent-Type: image/png\r\n\r\n' + PNG.rstrip(b"\r\n") in parts[1]
    assert parts[2].endswith(b"application/octet-stream\r\n\r\nA")
    assert parts[3].endswith(b'application/json\r\n\r\n{"k":[1]}')


@pytest.mark.parametrize(
    ("media_type", "argument", "body"),
    [
        ("text/plain", "häß", "häß".encode()),
        ("application/xml", "<a/>", b"<a/>"),
        ("application/octet-stream", base64.b64encode(PNG).decode(), PNG),
        ("application/merge-patch+json", {"a": None}, b'{"a":null}'),
        ("*/*", {"a": 1}, b'{"a":1}'),
    ],
)
async def test_other_bodies_are_text_or_base64(
    media_type: str, argument: Any, body: bytes, api: ApiServer, tmp_path: Path
) -> None:
    document = make_operation("put", "/x", requestBody=make_body(media_type))
    async with serve_document(tmp_path, document, server=api.url) as client:
        assert not (await client.call_tool("run", {"body": argument})).is_error
    assert api.received[0].body == body
    assert api.received[0].headers["content-type"] == media_type.replace("*/*", "application/json")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (json_reply({"a": 1}), {"type": "text", "text": '{"a":1}'}),
        (json_reply([1, 2]), {"type": "text", "text": "[1,2]"}),
        (Reply(b"h\xe9", headers={"content-type": "text/plain; charset=latin-1"}), {"type": "text", "text": "hé"}),
        (Reply(b"h", headers={"content-type": "text/plain; charset=undefined"}), {"type": "text", "text": "h"}),
        (Reply(b"a-" + b"z" * 500_000, headers={"content-type": "text/plain; charset=Punycode"}), {"type": "text"}),
        (Reply(b"{", headers={"content-type": "application/json"}), {"type": "text", "text": "{"}),
        (Reply(b"<a/>", headers={"content-type": "application/xml"}), {"type": "text", "text": "<a/>"}),
        (Reply(b"plain", headers={}), {"type": "text", "text": "plain"}),
        (Reply(b"", 204, {}), {"type": "text", "text": "HTTP status 204 No Content"}),
        (Reply(PNG, headers={"content-type": "image/png"}), {"type": "image", "mimeType": "image/png"}),
        (Reply(b"ID3", headers={"content-type": "audio/mpeg"}), {"type": "audio", "mimeType": "audio/mpeg"}),
        (Reply(b"PK\0", headers={"content-type": "application/zip"}), {"type": "resource"}),
        (Reply(b"\xff\xfe\0", headers={}), {"type": "resource"}),
    ],
)  # fmt: skip
async def test_responses_become_content_of_their_kind(
    reply: Reply, expected: Json, api: ApiServer, tmp_path: Path
) -> None:
    api.reply = reply
    async with serve_document(tmp_path, make_operation("get", "/x"), server=api.url) as client:
        result = await client.call_tool("run", {})
    assert not result.is_error
    block = result.content[0].model_dump(by_alias=True, exclude_none=True)
    assert {key: block[key] for key in expected} == expected
    if block["type"] == "resource":
        assert base64.b64decode(block["resource"]["blob"]) == reply.body
        assert block["resource"]["uri"] == f"{api.url}/x"
    if block["type"] in ("image", "audio"):
        assert base64.b64decode(block["data"]) == reply.body


async def test_a_response_of_head_has_its_headers(api: ApiServer, tmp_path: Path) -> None:
    api.reply = Reply(b"12345", headers={"etag": '"7"', "content-type": "text/plain"})
    async with serve_document(tmp_path, make_operation("head", "/x"), server=api.url) as client:
        text = get_text(await client.call_tool("run", {}))
    assert text.splitlines() == ["HTTP status 200 OK", "content-type: text/plain", "content-length: 5", 'etag: "7"']


async def test_an_error_contains_the_response_of_the_server(api: ApiServer, tmp_path: Path) -> None:
    api.reply = json_reply({"detail": "no such user"}, 404)
    async with serve_document(tmp_path, make_operation("get", "/x"), server=api.url) as client:
        result = await client.call_tool("run", {})
        assert result.is_error
        assert result.structured_content is None
        assert get_text(result) == 'HTTP status 404 Not Found\n{"detail": "no such user"}'
        api.reply = Reply(b"x" * 100_000, 500, {"content-type": "text/html"})
        text = get_text(await client.call_tool("run", {}))
        assert text == f"HTTP status 500 Internal Server Error\n{'x' * 2000} [truncated]"
        api.reply = Reply(b"\0\1", 502, {"content-type": "application/octet-stream"})
        assert get_text(await client.call_tool("run", {})) == "HTTP status 502 Bad Gateway"


async def test_rate_limits_and_pages_are_reported(api: ApiServer, tmp_path: Path) -> None:
    parameters = [make_parameter("page-no", "query"), make_parameter("size", "query")]
    link = f'<{api.url}/x?page-no=1>; rel="prev", <{api.url}/x?page-no=3&size=10&token=t>; rel="next"'
    document = make_operation("get", "/x", parameters=parameters)
    async with serve_document(tmp_path, document, server=api.url) as client:
        api.reply = json_reply([1], link=link, x_ratelimit_remaining="41", ratelimit_reset="30", x_ratelimit_limit="60")
        result = await client.call_tool("run", {})
        assert [block.text for block in result.content] == [
            "[1]", "There are more results. For the next page, call again with page-no=3, size=10.",
        ]  # fmt: skip
        http = result.meta["mcp-bridge/http"]
        assert http["status"] == 200
        assert http["rateLimit"] == {"limit": "60", "remaining": "41", "reset": "30"}
        api.reply = json_reply({}, 429, retry_after="17")
        response = await client.call_tool("run", {})
    assert get_text(response) == "HTTP status 429 Too Many Requests\n{}\nRetry after 17 seconds."
    assert response.meta["mcp-bridge/http"]["retry-after"] == "17"


@pytest.mark.parametrize("page", ["https://x.example/n", "https://["])
async def test_a_next_page_without_known_arguments_is_reported(page: str, api: ApiServer, tmp_path: Path) -> None:
    api.reply = Reply(b"rows", headers={"content-type": "text/csv", "link": f"<{page}>; rel=next"})
    async with serve_document(tmp_path, make_operation("get", "/x"), server=api.url) as client:
        result = await client.call_tool("run", {})
    assert [block.text for block in result.content] == ["rows", "There are more results on a next page."]


async def test_a_redirect_to_an_invalid_url_is_reported(api: ApiServer, tmp_path: Path) -> None:
    api.reply = Reply(b"", 302, {"location": "https://["})
    async with serve_document(tmp_path, make_operation("post", "/x"), server=api.url) as client:
        result = await client.call_tool("run", {})
    assert "The server redirects to another path" in get_text(result)


@pytest.mark.parametrize("link", ["<" * 60_000, "<>;" * 20_000])
async def test_a_long_link_takes_no_time(link: str, api: ApiServer, tmp_path: Path) -> None:
    api.reply = json_reply([], link=link)
    async with serve_document(tmp_path, make_operation("get", "/x"), server=api.url) as client:
        # Backtracking over all beginnings of `<...>` would take minutes.
        with anyio.fail_after(TIMEOUT):
            assert get_text(await client.call_tool("run", {})) == "[]"


async def test_a_response_that_is_too_long_is_an_error_also_when_it_is_compressed(
    api: ApiServer, tmp_path: Path
) -> None:
    body = gzip.compress(b"[" + b"0," * 6_000_000 + b"0]")
    api.reply = Reply(body, headers={"content-type": "application/json", "content-encoding": "gzip"})
    async with serve_document(tmp_path, make_operation("get", "/x"), server=api.url) as client:
        result = await client.call_tool("run", {})
    assert result.is_error
    assert get_text(result).startswith("the response has more than 10485760 bytes. The call did run.")


async def test_a_response_with_too_many_values_is_not_parsed(api: ApiServer, tmp_path: Path) -> None:
    async with serve_document(tmp_path, make_operation("get", "/x"), server=api.url) as client:
        api.reply = Reply(b"[" + b"{}," * 300_000 + b"{}]", headers={"content-type": "application/json"})
        result = await client.call_tool("run", {})
        assert result.is_error
        assert get_text(result).startswith("the response has more than 250000 values. The call did run.")
        api.reply = json_reply(["{,[" * 100_000])
        assert not (await client.call_tool("run", {})).is_error


async def test_hints_are_only_guarantees_of_the_method(tmp_path: Path) -> None:
    methods = ("get", "head", "post", "put", "patch", "delete")
    item = {method: {"operationId": method} for method in methods}
    async with serve_document(tmp_path, make_document({"/x": item}), server="https://api.example") as client:
        tools = await list_tools(client)
    hints = {name: tool.annotations.model_dump(exclude_none=True) for name, tool in tools.items()}
    world = {"open_world_hint": True}
    assert hints["get"] == hints["head"] == {"read_only_hint": True, **world}
    assert hints["delete"] == {"destructive_hint": True, "idempotent_hint": True, **world}
    assert hints["post"] == hints["put"] == hints["patch"] == world


async def test_cookies_of_responses_are_not_stored(api: ApiServer, tmp_path: Path) -> None:
    api.reply = Reply(headers={"content-type": "application/json", "set-cookie": "session=other-user"})
    async with serve_document(tmp_path, make_operation("get", "/x"), server=api.url) as client:
        await client.call_tool("run", {})
        await client.call_tool("run", {})
    assert [request.headers.get("cookie") for request in api.received] == [None, None]


async def test_a_server_that_is_down_is_an_error_without_its_url(tmp_path: Path) -> None:
    async with serve_document(tmp_path, make_operation("get", "/x?"), server="http://127.0.0.1:9") as client:
        result = await client.call_tool("run", {})
    assert result.is_error
    assert get_text(result) == "The API did not respond: the server cannot be reached: All connection attempts failed."
