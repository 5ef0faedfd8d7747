"""Streamable HTTP: what goes over it in either era, and the legacy transport beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.protocol.protocol_http import HttpWire
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import Connected, over
from tests.kits.protocol.protocol_wire import Json

HTTP = over("http")


async def sent(wire: HttpWire, message: Any, **headers: str) -> httpx2.Response:
    """The plain answer to a POST."""
    return await wire.http.post(wire.url, json=message, headers={**wire.headers(message), **headers})


@proves("http/endpoint", "http/content-type")
@HTTP
async def test_one_endpoint_answers_each_request_with_json_or_a_stream(connected: Connected) -> None:
    async with connected.wire() as wire:
        for tool, arguments in (("echo", {"text": "hi"}), ("steps", {"values": [1]})):
            number = await wire.begin(tool, arguments, meta={"progressToken": "t"})
            await wire.answer(number)
            kind = wire.replies[number].headers["content-type"].partition(";")[0]
            assert kind in {"application/json", "text/event-stream"}
            assert wire.replies[number].status == 200
        if not connected.stateless:
            assert wire.replies["GET"].headers["content-type"].startswith("text/event-stream")


@proves("http/origin")
@over("http", "sse")
async def test_a_strange_origin_is_refused_everywhere(connected: Connected) -> None:
    async with connected.wire() as wire, httpx2.AsyncClient(base_url=connected.base, timeout=TIMEOUT) as http:
        request = wire.request("tools/list")
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
        if isinstance(wire, HttpWire):
            assert (await sent(wire, request, Origin="http://localhost:3000")).status_code == 200


@proves("http/loopback", "http/authentication")
def test_it_listens_on_loopback_and_elsewhere_only_with_a_token(tmp_path: Path) -> None:
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
    refused = subprocess.run([*command, "0.0.0.0:0"], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert refused.returncode == 2
    assert "token" in refused.stderr


@proves("http/authentication", "tools/access-control")
@over("http", "sse")
@pytest.mark.parametrize("http", [{"token": "secret"}], ids=["token"])
async def test_with_a_token_nobody_else_is_let_in(connected: Connected) -> None:
    async with httpx2.AsyncClient(base_url=connected.base, timeout=TIMEOUT) as http:
        for given in ("", "Bearer guess", "Basic secret", "Bearer", "bearer secrets"):
            for method, path in (
                ("POST", "/mcp"),
                ("GET", "/mcp"),
                ("GET", "/sse"),
                ("POST", "/messages?session_id=0"),
            ):
                answer = await http.request(method, path, headers={**HTTP_HEADERS, "Authorization": given})
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"].startswith("Bearer")


@proves("http/notification-accepted")
@HTTP
async def test_a_notification_is_accepted_without_a_word(connected: Connected) -> None:
    async with connected.wire() as wire:
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99, **meta_of(wire)}}
        answer = await sent(wire, message)
        assert (answer.status_code, answer.content) == (202, b"")


@proves("http/notification-refused")
@HTTP
async def test_a_notification_that_is_none_is_refused(connected: Connected) -> None:
    async with connected.wire() as wire:
        for message in ({"jsonrpc": "1.0", "method": "notifications/cancelled"}, {"jsonrpc": "2.0"}, "text", 7, None):
            answer = await wire.http.post(wire.url, json=message, headers={**wire.headers({}), **versioned(wire)})
            assert 400 <= answer.status_code < 500, message
            assert "result" not in answer.json()


@proves("http/one-message")
@HTTP
async def test_a_batch_is_refused(connected: Connected) -> None:
    async with connected.wire() as wire:
        for batch in ([], [wire.request("tools/list")], [wire.request("tools/list"), wire.request("tools/list")]):
            answer = await wire.http.post(wire.url, json=batch, headers={**wire.headers({}), **versioned(wire)})
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] in {-32600, -32602}


@proves("http/stream-ends", "http/unbuffered")
@HTTP
async def test_a_stream_ends_with_its_answer_and_is_not_buffered(connected: Connected) -> None:
    async with connected.wire() as wire:
        number = await wire.begin("steps", {"values": [1, 2]}, meta={"progressToken": "t"})
        await wire.answer(number)
        reply = wire.replies[number]
        with anyio.fail_after(TIMEOUT):
            await reply.ended.wait()
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["x-accel-buffering"] == "no"
        assert '"result"' in [event.data for event in reply.events if event.data][-1]


@proves("http/legacy-endpoints")
@over("sse")
async def test_the_legacy_endpoints_are_beside_the_mcp_endpoint(connected: Connected) -> None:
    async with connected.wire() as wire:
        assert wire.address.startswith("/messages?session_id=")
        assert (await wire.call("echo", {"text": "hi"}))["content"][0]["text"] == "hi"
        answer = await wire.http.post(f"{connected.base}/mcp", content=b"{", headers=HTTP_HEADERS)
        assert answer.json()["error"]["code"] == -32700


def meta_of(wire: HttpWire) -> Json:
    """The params that a message of this era has anyway."""
    meta = wire.request("any").get("params", {})
    return dict(meta)


def versioned(wire: HttpWire) -> dict[str, str]:
    """The version header of this era, for a message that has no version itself."""
    return {"MCP-Protocol-Version": "2026-07-28"} if wire.stateless else {}
