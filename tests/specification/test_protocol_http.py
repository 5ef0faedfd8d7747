"""Streamable HTTP in both eras, and the legacy transport."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.client.http_client import HttpClient
from tests.client.raw_client import Json
from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import Connected, over

HTTP = over("http")


async def post(raw: HttpClient, message: Any, **headers: str) -> httpx2.Response:
    """Post a message with further headers, and return the HTTP response."""
    return await raw.http.post(raw.url, json=message, headers={**raw.make_headers(message), **headers})


@proves("http/endpoint", "http/content-type")
@HTTP
async def test_one_endpoint_answers_each_request_with_json_or_a_stream(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for tool, arguments in (("echo", {"text": "hi"}), ("steps", {"values": [1]})):
            number = await raw.send_call(tool, arguments, meta={"progressToken": "t"})
            await raw.receive_response(number)
            media_type = raw.responses[number].headers["content-type"].partition(";")[0]
            assert media_type in {"application/json", "text/event-stream"}
            assert raw.responses[number].status == 200
        if not connected.stateless:
            assert raw.responses["GET"].headers["content-type"].startswith("text/event-stream")


@proves("http/origin")
@over("http", "sse")
async def test_an_unknown_origin_is_rejected_on_every_endpoint(connected: Connected) -> None:
    async with connected.raw_client() as raw, httpx2.AsyncClient(base_url=connected.base, timeout=TIMEOUT) as http:
        request = raw.make_request("tools/list")
        for method, path in (
            ("POST", "/mcp"),
            ("GET", "/mcp"),
            ("DELETE", "/mcp"),
            ("GET", "/sse"),
            ("POST", "/messages"),
        ):
            json = request if method == "POST" else None
            for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example"):
                answer = await http.request(method, path, json=json, headers={**HTTP_HEADERS, "Origin": origin})
                assert answer.status_code == 403, (method, path, origin)
            answer = await http.request(method, path, json=json, headers={**HTTP_HEADERS, "Host": "evil.example"})
            assert 400 <= answer.status_code < 500
        if isinstance(raw, HttpClient):
            assert (await post(raw, request, Origin="http://localhost:3000")).status_code == 200


@proves("http/loopback", "http/authentication")
def test_the_server_listens_on_loopback_and_on_other_interfaces_only_with_a_token(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        'from mcp_bridge import tool\n\n@tool\ndef hi() -> str:\n    "x"\n    return "hi"\n'
    )
    command = [sys.executable, "-m", "mcp_bridge", "serve", str(tmp_path / "tools.py"), "--http"]
    with subprocess.Popen([*command, "0"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        announced = next(line for line in process.stderr if "http://" in line)
        process.terminate()
        process.stderr.read()
    assert "http://127.0.0.1:" in announced
    process = subprocess.run([*command, "0.0.0.0:0"], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert process.returncode == 2
    assert "token" in process.stderr


@proves("http/authentication", "tools/access-control")
@over("http", "sse")
@pytest.mark.parametrize("http", [{"token": "secret"}], ids=["token"])
async def test_requests_without_the_token_are_rejected(connected: Connected) -> None:
    async with httpx2.AsyncClient(base_url=connected.base, timeout=TIMEOUT) as http:
        for header in ("", "Bearer guess", "Basic secret", "Bearer", "bearer secrets"):
            for method, path in (
                ("POST", "/mcp"),
                ("GET", "/mcp"),
                ("GET", "/sse"),
                ("POST", "/messages?session_id=0"),
            ):
                answer = await http.request(method, path, headers={**HTTP_HEADERS, "Authorization": header})
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"].startswith("Bearer")


@proves("http/notification-accepted")
@HTTP
async def test_a_notification_is_accepted_without_a_body(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        message = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 99, **get_default_params(raw)},
        }
        answer = await post(raw, message)
        assert (answer.status_code, answer.content) == (202, b"")


@proves("http/notification-refused")
@HTTP
async def test_an_invalid_notification_is_rejected(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for message in ({"jsonrpc": "1.0", "method": "notifications/cancelled"}, {"jsonrpc": "2.0"}, "text", 7, None):
            answer = await raw.http.post(
                raw.url, json=message, headers={**raw.make_headers({}), **get_version_header(raw)}
            )
            assert 400 <= answer.status_code < 500, message
            assert "result" not in answer.json()


@proves("http/one-message")
@HTTP
async def test_a_batch_is_rejected(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for batch in (
            [],
            [raw.make_request("tools/list")],
            [raw.make_request("tools/list"), raw.make_request("tools/list")],
        ):
            answer = await raw.http.post(
                raw.url, json=batch, headers={**raw.make_headers({}), **get_version_header(raw)}
            )
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] in {-32600, -32602}


@proves("http/stream-ends", "http/unbuffered")
@HTTP
async def test_a_stream_ends_with_its_answer_and_is_not_buffered(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        number = await raw.send_call("steps", {"values": [1, 2]}, meta={"progressToken": "t"})
        await raw.receive_response(number)
        reply = raw.responses[number]
        with anyio.fail_after(TIMEOUT):
            await reply.ended.wait()
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["x-accel-buffering"] == "no"
        assert '"result"' in [event.data for event in reply.events if event.data][-1]


@proves("http/legacy-endpoints")
@over("sse")
async def test_the_legacy_endpoints_are_served_in_addition_to_the_mcp_endpoint(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert raw.address.startswith("/messages?session_id=")
        assert (await raw.call("echo", {"text": "hi"}))["content"][0]["text"] == "hi"
        answer = await raw.http.post(f"{connected.base}/mcp", content=b"{", headers=HTTP_HEADERS)
        assert answer.json()["error"]["code"] == -32700


def get_default_params(raw: HttpClient) -> Json:
    """Return the default params of a message in this era."""
    meta = raw.make_request("any").get("params", {})
    return dict(meta)


def get_version_header(raw: HttpClient) -> dict[str, str]:
    """Return the version header of this era, for a message without a version."""
    return {"MCP-Protocol-Version": "2026-07-28"} if raw.stateless else {}
