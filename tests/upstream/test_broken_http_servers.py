"""A broken server over HTTP affects only its tools."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import httpx2
import pytest

from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._upstream import remote, stream_retries
from mcp_bridge._upstream.remote import find_own_redirect
from mcp_bridge._upstream.stream_retries import MAX_SHORT_STREAMS, StreamRetries
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.upstream.plain_server import NO_STREAMS, POLL_INTERVAL, POLLS
from tests.kits.upstream.upstream_kit import (
    Json,
    call_text,
    connect_gateway,
    find_free_port,
    list_names,
    run_http_server,
    run_source,
    wait_for_state,
    wait_for_tool,
)

pytestmark = pytest.mark.anyio
SHORT = {"timeout": "2s"}
NEVER_READY = {
    "hanging": "did not start within 2 seconds",
    "500": "HTTP status 500",
    "redirect": "redirects to http://127.0.0.1:9/secret (HTTP status 307)",
}
GOOD = ("redirects within", "texts as ids", "byte order mark", "byte order mark in events", "huge retry")
"""Peculiarities that a client accepts."""
AT_CALLS = {
    "endless body": "something else than the response",
    "endless event": "ended during the call",
    "garbage events": "the response has ended early",
    "floods events": "did not finish within 2 seconds",
    "cut": "ended during the call",
    "wrong ids": "something else than the response",
    "crash in call": "ended during the call",
    "hang in call": "something else than the response",
}
SSE = {
    "hanging": "did not start within 2 seconds",
    "500": "500",
    "no endpoint": "did not start within 2 seconds",
    "foreign endpoint": "no endpoint on its own host",
    "invalid endpoint": "no endpoint on its own host",
}


def write_url(address: str, **options: object) -> Json:
    return {"url": f"{address}/mcp", "start_timeout": 2, **options}


@pytest.mark.parametrize("fault", [*NEVER_READY, *AT_CALLS])
async def test_a_good_server_is_served_next_to_a_broken_one(fault: str, tmp_path: Path) -> None:
    with run_http_server() as good, run_http_server(fault) as broken:
        servers = {"good": write_url(good), "broken": write_url(broken)}
        async with connect_gateway(tmp_path, servers, limits=SHORT) as client:
            assert await call_text(client, "good__echo") == "hello"
            if fault in AT_CALLS:
                await wait_for_tool(client, "broken__echo")
                assert AT_CALLS[fault] in await call_text(client, "broken__echo")
            for _ in range(10):
                assert await call_text(client, "good__echo") == "hello"


@pytest.mark.parametrize("peculiarity", GOOD)
async def test_peculiar_responses_that_clients_accept_are_accepted(peculiarity: str, tmp_path: Path) -> None:
    with run_http_server(peculiarity) as address:
        async with run_source(write_url(address, start_timeout=20), tmp_path) as (_, client):
            await wait_for_tool(client, "echo")
            assert await call_text(client, "echo") == "hello"


async def test_an_address_in_an_error_has_no_secrets(tmp_path: Path) -> None:
    response = httpx2.Response(
        302,
        headers={"location": "https://user:secret@other.example/mcp?key=secret#secret"},
        request=httpx2.Request("POST", "https://own.example/mcp"),
    )
    assert "redirects to https://other.example/mcp (HTTP status 302)" in remote.describe_status(response)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/mcp/", "https://own.example/mcp/"),
        ("https://own.example:443/mcp/", "https://own.example/mcp/"),
        ("http://own.example/mcp/", None),
        ("https://own.example:8443/mcp/", None),
        ("//other.example/mcp", None),
        ("https://own.example@other.example/", None),
        ("https://[", None),
    ],
)
def test_a_redirect_is_followed_on_the_same_server_only(location: str, target: str | None) -> None:
    request = httpx2.Request("POST", "https://own.example/mcp")
    response = httpx2.Response(308, headers={"location": location}, request=request)
    assert find_own_redirect(response) == target


@pytest.mark.parametrize("fault", NO_STREAMS)
async def test_requests_for_a_stream_end_if_the_server_has_none(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "RETRY_INTERVAL", 0.0)
    with run_http_server(fault) as address:
        async with run_source(write_url(address), tmp_path) as (_, client):
            await wait_for_tool(client, "echo")
            with anyio.fail_after(TIMEOUT):
                while await call_text(client, "echo", "streams") != str(MAX_SHORT_STREAMS):
                    pass
            for _ in range(20):
                assert await call_text(client, "echo", "streams") == str(MAX_SHORT_STREAMS)


async def test_pauses_before_a_stream_is_opened_again_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def note_pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(stream_retries.anyio, "sleep", note_pause)
    retries = StreamRetries()
    retries.start_stream()
    while await retries.pause(1.0):
        retries.start_stream()
    assert pauses == [1, 2, 4, 8, 16, 32, 60]
    assert await retries.pause(1.0, has_worked=True)
    assert pauses[-1] == 1


@pytest.mark.parametrize("fault", NEVER_READY)
async def test_the_status_has_the_reason_why_a_server_does_not_work(fault: str, tmp_path: Path) -> None:
    with run_http_server(fault) as address:
        async with run_source(write_url(address), tmp_path) as (source, client):
            assert NEVER_READY[fault] in (await wait_for_state(source, "broken")).reason
            assert await list_names(client) == []


@pytest.mark.parametrize("fault", SSE)
async def test_the_status_has_the_reason_why_a_server_over_sse_does_not_work(fault: str, tmp_path: Path) -> None:
    entry = {"transport": "sse", "start_timeout": 2}
    with run_http_server(fault) as address:
        async with run_source({"url": f"{address}/sse", **entry}, tmp_path) as (source, _):
            assert SSE[fault] in (await wait_for_state(source, "broken")).reason


@BOTH_LOOPS
async def test_a_server_that_is_started_later_is_used(tmp_path: Path, anyio_backend: str) -> None:
    port = find_free_port()
    registry, is_published = ToolRegistry(), anyio.Event()
    registry.watch(is_published.set)
    entry = write_url(f"http://127.0.0.1:{port}")
    async with run_source(entry, tmp_path, registry=registry) as (source, client):
        assert "cannot be reached" in (await wait_for_state(source, "broken")).reason
        with run_http_server(port=port):
            with anyio.fail_after(TIMEOUT):
                await is_published.wait()
            assert await call_text(client, "echo") == "hello"


@BOTH_LOOPS
async def test_a_server_that_comes_back_is_used_by_the_next_call(tmp_path: Path, anyio_backend: str) -> None:
    port = find_free_port()
    entry = write_url(f"http://127.0.0.1:{port}")
    with run_http_server(port=port):
        async with run_source(entry, tmp_path) as (source, client):
            assert await call_text(client, "echo") == "hello"
            assert "ended during the call" in await call_text(client, "echo", "crash")
            # The first call may still find an open connection.
            with anyio.fail_after(TIMEOUT):
                while "is not available: the server cannot be reached" not in await call_text(client, "echo"):
                    pass
            assert source.status.state != "ready"
            assert await list_names(client) == ["echo"]
            with run_http_server(port=port):
                assert await call_text(client, "echo") == "hello"
                assert (await wait_for_state(source, "ready")).reason == ""


@pytest.mark.parametrize("fault", ["session lost", "session lost, status 400"])
async def test_a_call_in_a_lost_session_is_sent_again_in_a_new_one(fault: str, tmp_path: Path) -> None:
    with run_http_server(fault) as address:
        async with run_source(write_url(address), tmp_path) as (_, client):
            assert [await call_text(client, "echo", text) for text in ("a", "b", "c")] == ["a", "b", "c"]


async def test_the_stream_of_a_cancelled_call_is_closed(tmp_path: Path) -> None:
    with run_http_server() as address:
        async with run_source(write_url(address), tmp_path) as (_, client):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call_text, client, "echo", "wait")
                with anyio.fail_after(TIMEOUT):
                    while await call_text(client, "echo", "count") != "1":
                        pass
                tasks.cancel_scope.cancel()
            with anyio.fail_after(TIMEOUT):
                while await call_text(client, "echo", "count") != "0":
                    pass


async def test_the_initialized_notification_arrives_before_requests(tmp_path: Path) -> None:
    with run_http_server("initialized late") as address:
        async with run_source(write_url(address), tmp_path) as (source, client):
            assert await call_text(client, "echo") == "hello"
            assert source.status.failures == 0


async def test_long_calls_do_not_block_other_calls(tmp_path: Path) -> None:
    with run_http_server() as address:
        async with run_source(write_url(address), tmp_path) as (_, client), anyio.create_task_group() as tasks:
            for _ in range(120):
                tasks.start_soon(call_text, client, "echo", "wait")
            with anyio.fail_after(TIMEOUT):
                while await call_text(client, "echo", "count") != "120":
                    pass
            tasks.cancel_scope.cancel()


async def test_a_server_may_let_the_bridge_poll_for_a_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RETRY_INTERVAL", 0.001)
    with run_http_server("polls") as address:
        async with run_source(write_url(address), tmp_path) as (_, client):
            began = time.monotonic()
            assert await call_text(client, "echo") == "hello"
            assert time.monotonic() - began >= POLLS * POLL_INTERVAL / 1000


async def test_a_server_of_the_older_transport_that_comes_back_is_used(tmp_path: Path) -> None:
    port = find_free_port()
    entry = {"url": f"http://127.0.0.1:{port}/sse", "transport": "sse"}
    with run_http_server(port=port):
        async with run_source(entry, tmp_path) as (source, client):
            assert await call_text(client, "echo") == "hello"
            assert "ended during the call" in await call_text(client, "echo", "crash")
            with run_http_server(port=port):
                assert await call_text(client, "echo") == "hello"
                await wait_for_state(source, "ready")
