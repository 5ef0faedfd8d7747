"""Plain HTTP at the endpoints: sizes, methods, content types, malformed bodies and wrong headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from mcp_bridge._transports.http import event_stream
from tests.client.http_client import open_session
from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import (
    Gate,
    build_registry,
    make_entry,
    make_initialize,
    make_stateless_request,
    serve_http,
    serve_http_in_thread,
)

LIMIT = 2000


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """Serve a bridge with a low limit for requests."""
    with serve_http_in_thread(build_registry(make_entry("there")), body=LIMIT) as url:
        yield url


@pytest.fixture
def http(base: str) -> Iterator[httpx2.Client]:
    """Yield a plain HTTP client of the bridge."""
    with httpx2.Client(base_url=base, timeout=TIMEOUT) as client:
        yield client


def stream_body(size: int) -> Iterator[bytes]:
    """Yield a body in parts, which is sent without a Content-Length."""
    for _ in range(size // 100):
        yield b" " * 100


@pytest.mark.parametrize("path", ["/mcp", "/messages?session_id=0"])
@pytest.mark.parametrize("body", [b" " * (LIMIT + 1), stream_body(LIMIT + 100)], ids=["declared", "streamed"])
def test_a_body_over_the_limit_is_rejected_with_413_and_the_setting(http: httpx2.Client, path: str, body: Any) -> None:
    body = stream_body(LIMIT + 100) if not isinstance(body, bytes) else body
    response = http.post(path, content=body, headers=HTTP_HEADERS)
    assert response.status_code == 413
    assert "limits.arguments" in response.json()["error"]["message"]


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_a_body_as_large_as_the_limit_is_accepted(http: httpx2.Client, size: int) -> None:
    request = make_stateless_request("tools/list")
    content = httpx2.Request("POST", "http://there", json=request["json"]).content
    padded = content + b" " * (size - len(content))
    answer = http.post("/mcp", content=padded, headers=request["headers"])
    assert answer.status_code == (200 if size == LIMIT else 413)


@pytest.mark.parametrize(
    ("era", "body"),
    [
        ("handshake", b"{"),
        *(("stateless", body) for body in (b"{", b"", b"\xff", b"[" * 1500, b'{"id": ' + b"9" * 1500)),
    ],
    ids=range(6),
)
def test_malformed_json_is_a_parse_error(http: httpx2.Client, era: str, body: bytes) -> None:
    headers = make_stateless_request("tools/list")["headers"] if era == "stateless" else HTTP_HEADERS
    answer = http.post("/mcp", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32700


@pytest.mark.parametrize("body", ["{}", "1", '[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]'])
def test_json_without_a_request_is_rejected(http: httpx2.Client, body: str) -> None:
    answer = http.post("/mcp", content=body, headers=make_stateless_request("tools/list")["headers"])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/mcp", "text/plain"),
        ("/mcp", "application/x-www-form-urlencoded"),
        ("/mcp", "multipart/form-data"),
        ("/mcp", "application/jsonlines"),
        ("/messages?session_id=00000000000000000000000000000000", "text/plain"),
    ],
)
def test_a_content_type_of_a_web_form_is_rejected(http: httpx2.Client, path: str, content_type: str) -> None:
    answer = http.post(path, json=make_initialize(), headers={**HTTP_HEADERS, "Content-Type": content_type})
    assert 400 <= answer.status_code < 500


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON ;charset=utf-8"])
def test_a_content_type_may_have_parameters(http: httpx2.Client, media_type: str) -> None:
    request = make_stateless_request("tools/list", **{"Content-Type": media_type})
    assert http.post("/mcp", **request).status_code == 200


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200),
        ("application/*;q=0.5, text/*", 200),
        ("text/html;q=0, Application/JSON ; q=0.1, text/event-stream", 200),
        ("*/*;q=0, application/json, text/event-stream", 200),
        ("application/json", 406),
        ("*/*; q=0.000", 406),
        ("application/json;q=0, */*", 406),
        ("application/json, text/event-stream;q=0", 406),
    ],
)
def test_both_kinds_of_responses_must_be_acceptable(http: httpx2.Client, accept: str, status: int) -> None:
    assert http.post("/mcp", **make_stateless_request("tools/list", Accept=accept)).status_code == status


def test_an_unknown_method_is_not_found(http: httpx2.Client) -> None:
    answer = http.post("/mcp", **make_stateless_request("tools/eat"))
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == -32601


@pytest.mark.parametrize(
    "lie",
    [{"Mcp-Method": "tools/call"}, {"Mcp-Name": "elsewhere"}, {"MCP-Protocol-Version": "2099-01-01"}],
    ids=lambda lie: next(iter(lie)),
)
def test_headers_that_do_not_match_the_body_are_rejected(http: httpx2.Client, lie: dict[str, str]) -> None:
    request = make_stateless_request("tools/call", {"name": "there", "arguments": {}}, **{"Mcp-Name": "there"})
    assert http.post("/mcp", **request).status_code == 200
    lying = {**request, "headers": {**request["headers"], **lie}}
    if "Mcp-Method" in lie:
        lying["headers"]["Mcp-Method"] = "tools/list"
    answer = http.post("/mcp", **lying)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in {-32020, -32022}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("PUT", path) for path in ("/sse", "/messages", "/mcp")),
        *((method, "/mcp") for method in ("PATCH", "DELETE", "HEAD", "OPTIONS")),
        ("HEAD", "/sse"),
        ("DELETE", "/messages"),
    ],
)
def test_other_methods_are_rejected(http: httpx2.Client, method: str, path: str) -> None:
    answer = http.request(method, path, headers=HTTP_HEADERS)
    assert 400 <= answer.status_code < 500


@pytest.mark.parametrize(("method", "path", "allow"), [("POST", "/sse", "GET"), ("GET", "/messages", "POST")])
def test_the_halves_of_sse_name_the_method_they_take(http: httpx2.Client, method: str, path: str, allow: str) -> None:
    answer = http.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_stateless_era_is_post_only(http: httpx2.Client, method: str) -> None:
    headers = make_stateless_request("tools/list")["headers"]
    answer = http.request(method, "/mcp", headers=headers)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_an_unsupported_version_is_named_whatever_the_method(http: httpx2.Client, method: str) -> None:
    headers = {**HTTP_HEADERS, "MCP-Protocol-Version": "2025-11-26"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if method == "POST" else None
    answer = http.request(method, "/mcp", json=body, headers=headers)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["data"]["requested"]) == (-32022, "2025-11-26")


@pytest.mark.parametrize("path", ["/", "/mcp/more", "/ssex", "//mcp"])
def test_other_paths_are_not_found_and_the_error_names_the_right_ones(http: httpx2.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 404
    assert "/mcp" in answer.json()["error"]["message"]


def test_a_slash_at_the_end_changes_nothing(http: httpx2.Client) -> None:
    assert http.post("/mcp/", **make_stateless_request("tools/list")).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_reports_only_the_status(http: httpx2.Client, method: str) -> None:
    answer = http.request(method, "/health")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert "server" not in answer.headers
    if method == "GET":
        assert answer.json() == {"status": "ok"}


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_requests_without_an_initialization_leave_no_session(http: httpx2.Client, method: str) -> None:
    response = http.request(method, "/mcp", headers=HTTP_HEADERS)
    assert response.status_code >= 400
    session = {**HTTP_HEADERS, "Mcp-Session-Id": response.headers.get("mcp-session-id", "none")}
    assert http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=session).status_code == 404


def test_a_bad_cursor_is_an_invalid_parameter(http: httpx2.Client) -> None:
    answer = http.post("/mcp", **make_stateless_request("tools/list", {"cursor": "invented"}))
    assert answer.json()["error"]["code"] == -32602


async def test_a_call_that_is_silent_for_long_becomes_a_stream_that_is_kept_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "PING_INTERVAL", 0.05)
    gate = Gate()
    request = make_stateless_request("tools/call", {"name": "wait", "arguments": {}})
    async with (
        serve_http(build_registry(make_entry("wait", gate))) as (base, _),
        httpx2.AsyncClient(timeout=TIMEOUT) as http,
        http.stream("POST", f"{base}/mcp", **request) as answer,
    ):
        assert answer.headers["content-type"] == "text/event-stream"
        lines = answer.aiter_lines()
        assert [await anext(lines) for _ in range(4)] == [": ping", "", ": ping", ""]
        gate.release.set()
        assert "released" in "".join([line async for line in lines])


async def test_a_silent_standalone_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PING_INTERVAL", 0.05)
    async with serve_http(build_registry()) as (base, _), httpx2.AsyncClient(base_url=base, timeout=TIMEOUT) as http:
        session = await open_session(http)
        async with session.open_stream() as answer:
            lines = answer.aiter_lines()
            while await anext(lines) != ": ping":
                pass
