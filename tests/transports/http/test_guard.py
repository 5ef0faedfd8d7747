"""Who may come in: Host, Origin and bearer token, alike for every path, before anything else is looked at."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from mcp_bridge._transports.http.access import Access, is_loopback
from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import (
    IN_EVERY_HTTP_WAY,
    HttpWay,
    build_registry,
    make_entry,
    make_initialize,
    make_stateless_request,
    serve_http,
    serve_http_in_thread,
)

TOKEN = "s3cret-tokén"
PATHS = [("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/sse"), ("POST", "/messages?session_id=0"), ("GET", "/health")]
EVERY_PATH = pytest.mark.parametrize(("method", "path"), PATHS, ids=lambda value: value.partition("?")[0])


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """Serve a bridge that accepts two further host names and an origin."""
    access = Access.for_host("127.0.0.1", hosts=["Bridge.Example", "[fd00::1]"], origins=["https://App.example/"])
    with serve_http_in_thread(build_registry(make_entry("there")), access=access) as url:
        yield url


@pytest.fixture(scope="module")
def guarded_url() -> Iterator[str]:
    """Serve a bridge with a token."""
    with serve_http_in_thread(
        build_registry(make_entry("there")), access=Access.for_host("127.0.0.1", token=TOKEN)
    ) as url:
        yield url


def send_raw_request(base: str, method: str, path: str, **headers: Any) -> httpx2.Response:
    """Send a request, and return the head of the response, and its body if it ends."""
    with httpx2.Client(timeout=TIMEOUT) as http, http.stream(method, base + path, headers=headers) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer.read()
        return answer


def let_in(answer: httpx2.Response) -> bool:
    """Whether the guard has passed a request, whatever the endpoint's response."""
    return answer.status_code not in {401, 403, 421}


def send_without_host(base: str, method: str, path: str) -> bytes:
    """Return the status line of the response to a request without a host, as HTTP/1.0 allows."""
    name, _, port = base.removeprefix("http://").rpartition(":")
    with socket.create_connection((name, int(port)), timeout=TIMEOUT) as raw:
        raw.sendall(f"{method} {path} HTTP/1.0\r\nContent-Length: 0\r\n\r\n".encode())
        return raw.recv(4096).partition(b"\r\n")[0]


@EVERY_PATH
def test_every_path_is_guarded_in_the_same_way(base: str, method: str, path: str) -> None:
    assert send_raw_request(base, method, path, Host="evil.example").status_code == 421
    assert send_raw_request(base, method, path, Origin="https://evil.example").status_code == 403
    assert b" 421 " in send_without_host(base, method, path)
    assert let_in(send_raw_request(base, method, path, Host="BRIDGE.example:443", Origin="https://app.example"))


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "localhost@evil.example",
        "evil@127.0.0.1",
        "evil:pass@localhost:80",
        "//localhost",
        "localhost/",
        "localhost:x",
        "[::2]",
        "[",
        ":80",
    ],
)
def test_an_unknown_host_is_rejected_with_421_and_the_name_of_the_setting(base: str, host: str) -> None:
    answer = send_raw_request(base, "POST", "/mcp", Host=host)
    assert answer.status_code == 421
    assert "http.allowed_hosts" in answer.json()["error"]["message"]
    assert host not in answer.text or host == "["


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:1", "127.0.0.1:65535", "[::1]", "[::1]:8808", "bridge.example", "BRIDGE.example:443",
     "[fd00::1]:8808"],
)  # fmt: skip
def test_a_known_host_is_accepted_with_any_port_and_case(base: str, host: str) -> None:
    assert let_in(send_raw_request(base, "GET", "/health", Host=host))


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost.evil.example", "http://[", "file://localhost", "localhost",
     "https://app.example.evil", "http://app.example", "https://app.example:444", "http://evil@localhost"],
)  # fmt: skip
def test_an_unknown_origin_is_rejected_with_403(base: str, origin: str) -> None:
    answer = send_raw_request(base, "POST", "/mcp", Origin=origin)
    assert answer.status_code == 403
    assert "http.allowed_origins" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "origin", ["https://app.example", "http://localhost", "http://127.0.0.1:6274", "https://[::1]:3000"]
)
def test_an_origin_of_this_machine_or_of_the_settings_is_accepted(base: str, origin: str) -> None:
    assert let_in(send_raw_request(base, "POST", "/mcp", Origin=origin))


SENT = [
    None, "", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, f"Bearer{TOKEN}",
    "Bearer \u00ff\u00fe",
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "token"),
    [*(("POST", "/mcp", token) for token in SENT), *((method, path, "Bearer wrong") for method, path in PATHS[1:-1])],
)
def test_requests_without_a_valid_token_are_rejected(
    guarded_url: str, method: str, path: str, token: str | None
) -> None:
    headers = {} if token is None else {"Authorization": token.encode("utf-8")}
    answer = send_raw_request(guarded_url, method, path, **headers)
    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert ("invalid_token" in challenge) == (str(token).startswith("Bearer "))
    assert TOKEN not in answer.text


@pytest.mark.parametrize("scheme", ["Bearer", "bEARER"])
def test_a_valid_token_is_accepted_with_a_scheme_in_any_case(guarded_url: str, scheme: str) -> None:
    request = make_stateless_request("tools/list")
    request["headers"] = {**request["headers"], "Authorization": f"{scheme} {TOKEN}".encode()}
    answer = httpx2.post(f"{guarded_url}/mcp", **request)
    assert answer.status_code == 200
    assert [tool["name"] for tool in answer.json()["result"]["tools"]] == ["there"]


@IN_EVERY_HTTP_WAY
async def test_the_official_client_needs_the_token(way: HttpWay) -> None:
    async with serve_http(build_registry(make_entry("there")), access=Access.for_host("127.0.0.1", token="abc")) as (
        base,
        _,
    ):
        async with way.connect(base, token="abc") as client:
            assert (await client.call_tool("there", {})).content[0].text == "there"  # type: ignore[union-attr]
        with pytest.raises(Exception) as error:
            async with way.connect(base, token="abd") as client:
                await client.list_tools()
        assert any(word in str(list_exceptions(error.value)) for word in ("401", "bearer token"))


def list_exceptions(error: BaseException) -> list[BaseException]:
    """Yield the exceptions inside a group, or the exception itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in list_exceptions(inner)]


@pytest.mark.parametrize("path", ["/health", "/health/"])
def test_health_is_open_to_those_without_a_token(guarded_url: str, path: str) -> None:
    answer = send_raw_request(guarded_url, "GET", path)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/mcp/health", "/sse/health", "/messages/health", "/unhealth"])
def test_no_other_path_becomes_open_by_ending_like_health(guarded_url: str, path: str) -> None:
    assert send_raw_request(guarded_url, "GET", path).status_code in {401, 404}


def test_a_request_for_options_needs_the_token(guarded_url: str) -> None:
    assert send_raw_request(guarded_url, "OPTIONS", "/mcp").status_code == 401


def test_host_and_origin_are_checked_before_the_token(guarded_url: str) -> None:
    assert send_raw_request(guarded_url, "GET", "/sse", Host="evil.example").status_code == 421
    assert send_raw_request(guarded_url, "GET", "/sse", Origin="https://evil.example").status_code == 403


def test_a_guessed_token_is_not_confirmed_by_the_logs(guarded_url: str, caplog: pytest.LogCaptureFixture) -> None:
    guess = "Bearer guessed-secret"
    with caplog.at_level(logging.DEBUG):
        send_raw_request(guarded_url, "POST", "/mcp", Authorization=guess)
        request = make_stateless_request("tools/list")
        request["headers"] = {**request["headers"], "Authorization": f"Bearer {TOKEN}".encode()}
        assert httpx2.post(f"{guarded_url}/mcp", **request).status_code == 200
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("httpcore2")]
    assert "guessed-secret" not in "\n".join(ours)
    assert "s3cret" not in "\n".join(ours)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.8.9.10", True), ("::1", True), ("[::1]", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.1", False), ("", False), ("example.org", False)],
)  # fmt: skip
def test_only_addresses_of_this_machine_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_bridge_without_allowed_origins_sends_no_cors_headers(guarded_url: str) -> None:
    answer = send_raw_request(guarded_url, "GET", "/health", Origin="http://localhost:3000")
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def send_preflight(base: str, origin: str) -> httpx2.Response:
    """Send the preflight request of a browser for an MCP message."""
    request_headers = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "mcp-session-id, mcp-method",
    }
    return httpx2.options(f"{base}/mcp", headers={"Origin": origin, **request_headers})


def test_a_preflight_of_a_configured_origin_is_answered(base: str) -> None:
    answer = send_preflight(base, "https://app.example")
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["access-control-allow-methods"].split(", "))
    assert "mcp-method" in answer.headers["access-control-allow-headers"]


def test_a_preflight_of_another_origin_is_rejected(base: str) -> None:
    answer = send_preflight(base, "https://evil.example")
    assert answer.status_code == 400
    assert "access-control-allow-origin" not in answer.headers


def test_a_configured_origin_may_read_the_mcp_headers(base: str) -> None:
    headers = {**HTTP_HEADERS, "Origin": "https://app.example"}
    answer = httpx2.post(f"{base}/mcp", json=make_initialize(), headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    exposed = answer.headers["access-control-expose-headers"].lower()
    assert {"mcp-session-id", "mcp-protocol-version", "www-authenticate"} <= set(exposed.split(", "))
