"""The headers of stateless requests over HTTP: they repeat values of the body, or the request is rejected."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import pytest

from mcp_bridge import Header, tool
from tests.client.http_client import HttpClient, HttpResponse, encode_header
from tests.client.raw_client import Json
from tests.kits.constants import HANDSHAKE, META_PREFIX, STATELESS
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import Connected, over

STATELESS_HTTP = over("http", stateless=True)
MISMATCH = (400, -32020)
CALL: Json = {"name": "echo", "arguments": {"text": "hi"}}


def encode_base64(text: str) -> str:
    """Return a header value in Base64 between sentinels."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


async def post(raw: HttpClient, method: str, params: Json, *, meta: Any = None, **headers: str) -> tuple[int, Any]:
    """Post a request with these headers, without the empty ones; return the status and the error code, or None."""
    request = raw.make_request(method, params, meta=meta)
    all_headers = {**raw.make_headers(request), **{key.replace("_", "-"): value for key, value in headers.items()}}
    answer = await raw.http.post(
        raw.url, json=request, headers={key: value for key, value in all_headers.items() if value}
    )
    raw.responses[request["id"]] = HttpResponse(answer.status_code, answer.headers)
    media_type, body = answer.headers["content-type"], answer.text
    if media_type.startswith("text/event-stream"):
        return answer.status_code, None if '"result"' in body else body
    return answer.status_code, answer.json().get("error", {}).get("code")


@proves("http/version-header", "base/required-meta")
@STATELESS_HTTP
async def test_the_version_header_and_the_body_agree(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert await post(raw, "tools/list", {}) == (200, None)
        meta = {f"{META_PREFIX}protocolVersion": HANDSHAKE}
        assert await post(raw, "tools/list", {}, meta=meta, MCP_Protocol_Version=STATELESS) == MISMATCH
        status, code = await post(raw, "tools/list", {}, MCP_Protocol_Version="2099-01-01")
        assert (status, code) in {(400, -32020), (400, -32022)}
        for earlier in ("", HANDSHAKE):
            assert await post(raw, "tools/list", {}, MCP_Protocol_Version=earlier) == MISMATCH


@proves("http/unsupported-version")
@STATELESS_HTTP
async def test_a_version_that_is_not_supported_is_rejected(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        new = {f"{META_PREFIX}protocolVersion": "2099-01-01"}
        assert await post(raw, "tools/list", {}, meta=new) == (400, -32022)


@proves("http/unknown-method")
@STATELESS_HTTP
async def test_an_unknown_method_is_not_found(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for method in ("tools/eat", "initialize", "ping", "logging/setLevel", "resources/subscribe"):
            assert await post(raw, method, {"uri": "test://text", "level": "info"}) == (404, -32601), method


@proves("http/standard-headers")
@STATELESS_HTTP
async def test_the_headers_of_method_and_name_are_required_and_match_the_body(connected: Connected) -> None:
    requests: list[tuple[str, Json]] = [
        ("tools/call", CALL),
        ("resources/read", {"uri": "test://text"}),
        ("prompts/get", {"name": "greeting"}),
    ]
    async with connected.raw_client() as raw:
        assert await post(raw, "tools/list", {}, Mcp_Method="") == MISMATCH
        assert await post(raw, "tools/list", {}, Mcp_Method="prompts/list") == MISMATCH
        for method, params in requests:
            assert await post(raw, method, params) == (200, None)
            assert await post(raw, method, params, Mcp_Name="") == MISMATCH
            assert await post(raw, method, params, Mcp_Name="another") == MISMATCH
            assert await post(raw, method, params, Mcp_Method="") == MISMATCH


@proves("http/encoded-names")
@STATELESS_HTTP
async def test_encoded_values_are_decoded_before_they_are_compared(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert await post(raw, "tools/call", CALL, Mcp_Name=encode_base64("echo")) == (200, None)
        assert await post(raw, "tools/call", CALL, Mcp_Name=encode_base64("crash")) == MISMATCH
        for broken in ("=?base64?***?=", "=?base64?ZWNobw?=", "=?BASE64?ZWNobw==?=", "=?base64?ZWNobw=="):
            assert await post(raw, "tools/call", CALL, Mcp_Name=broken) == MISMATCH, broken
        place = {"name": "place", "arguments": {"region": "wörld " + "=?base64?"}}
        assert await post(raw, "tools/call", place, Mcp_Param_Region=encode_header("wörld =?base64?")) == (
            200,
            None,
        )


@proves("http/param-headers")
@STATELESS_HTTP
async def test_param_headers_agree_with_the_arguments(connected: Connected) -> None:
    place = {"name": "place", "arguments": {"region": "us-west1", "level": 7}}
    good = {"Mcp_Param_Region": "us-west1", "Mcp_Param_Level": "7"}
    async with connected.raw_client() as raw:
        assert await post(raw, "tools/call", place, **good) == (200, None)
        for wrong in (
            {"Mcp_Param_Region": ""},
            {"Mcp_Param_Region": "us-west2"},
            {"Mcp_Param_Region": "US-WEST1"},
            {"Mcp_Param_Region": encode_base64("us-west2")},
            {"Mcp_Param_Region": "=?base64?***?="},
            {"Mcp_Param_Level": ""},
            {"Mcp_Param_Level": "8"},
            {"Mcp_Param_Level": "seven"},
        ):
            assert await post(raw, "tools/call", place, **{**good, **wrong}) == MISMATCH, wrong


@proves("http/absent-params")
@STATELESS_HTTP
async def test_an_argument_that_is_absent_or_null_needs_no_header(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        absent = {"name": "place", "arguments": {"region": "x"}}
        assert await post(raw, "tools/call", absent, Mcp_Param_Region="x") == (200, None)
        null = {"name": "place", "arguments": {"region": "x", "level": None}}
        assert await post(raw, "tools/call", null, Mcp_Param_Region="x") == (200, None)
        nothing = {"name": "place", "arguments": {}}
        assert await post(raw, "tools/call", nothing) == (200, None)


@proves("http/integer-params")
@STATELESS_HTTP
async def test_integers_are_compared_as_numbers(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        place = {"name": "place", "arguments": {"region": "x", "level": 42}}
        for written in ("42", "42.0"):
            status = await post(raw, "tools/call", place, Mcp_Param_Region="x", Mcp_Param_Level=written)
            assert status == (200, None), written


@proves("http/header-names")
@STATELESS_HTTP
async def test_names_of_headers_are_case_insensitive_and_values_are_case_sensitive(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        request = raw.make_request("tools/call", CALL)
        shouted = {key.upper(): value for key, value in raw.make_headers(request).items()}
        assert (await raw.http.post(raw.url, json=request, headers=shouted)).status_code == 200
        assert await post(raw, "tools/call", CALL, Mcp_Method="Tools/Call") == MISMATCH
        assert await post(raw, "tools/call", CALL, Mcp_Name="Echo") == MISMATCH


@proves("http/no-sessions")
@STATELESS_HTTP
async def test_stateless_requests_have_no_sessions(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert await post(raw, "tools/list", {}, Mcp_Session_Id="made-up", Last_Event_ID="7") == (200, None)
        assert all("mcp-session-id" not in reply.headers for reply in raw.responses.values())
        for method in ("GET", "DELETE"):
            headers = {"MCP-Protocol-Version": STATELESS, "Accept": "text/event-stream"}
            assert (await raw.http.request(method, raw.url, headers=headers)).status_code == 405


@proves("tools/header-annotation")
@over("memory", "http", stateless=True)
async def test_annotated_parameters_are_listed_as_such(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        schemas = {each["name"]: each["inputSchema"] for each in (await raw.get_result("tools/list"))["tools"]}
        region, level = (schemas["place"]["properties"][name] for name in ("region", "level"))
        assert (region["x-mcp-header"], region["type"]) == ("Region", "string")
        assert (level["x-mcp-header"], level["type"]) == ("Level", "integer")
    async with connected.client() as client:
        result = await client.call_tool("place", {"region": "wörld", "level": 3})
        assert result.content[0].text == "wörld 3"  # type: ignore[union-attr]


def spaced(place: Annotated[str, Header("a b")]) -> None: ...
def empty(place: Annotated[str, Header("")]) -> None: ...
def broken(place: Annotated[str, Header("a\r\nb")]) -> None: ...
def real(place: Annotated[float, Header("Place")]) -> None: ...
def several(place: Annotated[list[str], Header("Place")]) -> None: ...
def twice(one: Annotated[str, Header("Place")], other: Annotated[str, Header("PLACE")]) -> None: ...
def secret(password: Annotated[str, Header("Place")]) -> None: ...
def key(place: Annotated[str, Header("Api-Key")]) -> None: ...


@proves("tools/header-annotation", "tools/header-secrets")
@pytest.mark.parametrize("function", [spaced, empty, broken, real, several, twice, secret, key])
def test_an_invalid_header_annotation_is_rejected_by_the_decorator(function: Any) -> None:
    with pytest.raises(TypeError):
        tool(function)
