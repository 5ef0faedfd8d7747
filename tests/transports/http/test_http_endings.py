"""How a served process ends: every call in flight is answered, nothing open holds it, a second signal is final."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp_types import CONNECTION_CLOSED

from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import HTTP_WAYS, HttpWay, make_initialize, make_stateless_request
from tests.kits.http.http_process import HttpServer, run_http_server


def has_no_errors(server: HttpServer) -> bool:
    """Whether the process has logged no error."""
    return not any(word in server.stderr for word in ("Traceback", "ERROR", "Exception"))


async def test_calls_in_flight_are_answered_before_the_shutdown_on_all_transports(tmp_path: Path) -> None:
    answers: list[str] = []

    async def call(server: HttpServer, way: HttpWay) -> None:
        async with way.connect(server.base) as client:
            # Otherwise the client would list after the call, when no new request is accepted.
            await client.list_tools()
            result = await client.session.call_tool("wait", {})
            answers.append(result.content[0].text)  # type: ignore[union-attr]

    async with run_http_server(tmp_path) as server:
        with anyio.fail_after(2 * TIMEOUT):
            async with anyio.create_task_group() as tasks:
                for way in HTTP_WAYS:
                    tasks.start_soon(call, server, way)
                await server.wait_for_stderr("begun", len(HTTP_WAYS))
                server.signal(signal.SIGTERM)
                await server.wait_for_stderr("running calls have 3600 seconds to finish")
                await server.wait_until_draining()
                async with httpx2.AsyncClient(timeout=TIMEOUT) as http:
                    late = await http.post(f"{server.base}/mcp", **make_stateless_request("tools/list"))
                assert late.status_code == 503
                assert "shutting down" in late.json()["error"]["message"]
                assert answers == []
                server.release()
            assert answers == ["released"] * len(HTTP_WAYS)
            assert await server.wait() == 0
        assert has_no_errors(server), server.stderr


async def test_open_streams_do_not_delay_the_shutdown(tmp_path: Path) -> None:
    async with run_http_server(tmp_path) as server, httpx2.AsyncClient(timeout=TIMEOUT) as http:
        listening = make_stateless_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        session_headers = await _session(http, server.base)
        async with (
            http.stream("GET", f"{server.base}/sse") as sse,
            http.stream("GET", f"{server.base}/mcp", headers=session_headers) as get,
            http.stream("POST", f"{server.base}/mcp", **listening) as listen,
        ):
            assert [stream.status_code for stream in (sse, get, listen)] == [200, 200, 200]
            server.signal(signal.SIGTERM)
            remaining_text = "".join([text async for text in listen.aiter_text()])
            # This is the final result, rather than an abrupt end.
            assert '"resultType":"complete"' in remaining_text
            assert await server.wait() == 0
        assert has_no_errors(server), server.stderr


async def _session(http: httpx2.AsyncClient, base: str) -> dict[str, str]:
    answer = await http.post(f"{base}/mcp", json=make_initialize(), headers=HTTP_HEADERS)
    return {**HTTP_HEADERS, "Mcp-Session-Id": answer.headers["mcp-session-id"]}


async def expect_broken_call(server: HttpServer, tool: str) -> None:
    """Call an endless tool, and raise if there is a result."""
    request = make_stateless_request("tools/call", {"name": tool, "arguments": {}})
    async with httpx2.AsyncClient(timeout=TIMEOUT) as http:
        with contextlib.suppress(httpx2.TransportError):
            answer = await http.post(f"{server.base}/mcp", **request)
            assert answer.json()["error"]["code"] == CONNECTION_CLOSED


@pytest.mark.parametrize(("number", "tool"), [(signal.SIGTERM, "wait"), (signal.SIGINT, "block")])
async def test_a_second_signal_ends_at_once(number: int, tool: str, tmp_path: Path) -> None:
    async with run_http_server(tmp_path) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(expect_broken_call, server, tool)
        await server.wait_for_stderr("begun")
        server.signal(number)
        await server.wait_until_draining()
        server.signal(number)
        assert await server.wait() == 0


async def test_an_idle_server_ends_at_the_first_signal(tmp_path: Path) -> None:
    async with run_http_server(tmp_path) as server:
        server.signal(signal.SIGTERM)
        assert await server.wait() == 0
        assert has_no_errors(server), server.stderr


async def test_during_the_shutdown_delay_requests_are_served_until_a_second_signal(tmp_path: Path) -> None:
    delay = "http: {shutdown_delay: 1h}\n"
    async with run_http_server(tmp_path, settings=delay) as server, httpx2.AsyncClient(timeout=TIMEOUT) as http:
        call = make_stateless_request("tools/call", {"name": "there", "arguments": {}}, **{"Mcp-Name": "there"})
        before = await http.post(f"{server.base}/mcp", **call)
        assert "connection" not in before.headers
        server.signal(signal.SIGTERM)
        await server.wait_until_draining()
        during = await http.post(f"{server.base}/mcp", **call)
        assert during.json()["result"] == before.json()["result"]
        # So no further request is on its way when the server ends.
        assert during.headers["connection"] == "close"
        server.signal(signal.SIGTERM)
        assert await server.wait() == 0
        assert has_no_errors(server), server.stderr


async def test_after_the_shutdown_delay_a_server_ends(tmp_path: Path) -> None:
    async with run_http_server(tmp_path, settings="http: {shutdown_delay: 0.2}\n") as server:
        server.signal(signal.SIGTERM)
        assert await server.wait() == 0


IMPATIENT = """
import anyio
from mcp_bridge._app.factory import build_from_file
from pathlib import Path
from mcp_bridge._transports.http import server
from mcp_bridge._transports.http.app import BridgeApp

async def main():
    bridge = build_from_file(Path("tools.py"))
    bound = server.listen("127.0.0.1", 0, has_token=False)
    app = BridgeApp(bridge.endpoint, around=bridge.run_sources)
    said = lambda: print(server.format_address(bound) + "/mcp", file=__import__("sys").stderr, flush=True)
    await server.serve(app, bound, drain=0.2, started=said)

anyio.run(main)
"""


async def test_an_endless_call_is_cancelled_after_the_drain(tmp_path: Path) -> None:
    async with (
        run_http_server(tmp_path, [sys.executable, "-c", IMPATIENT]) as server,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(expect_broken_call, server, "wait")
        await server.wait_for_stderr("begun")
        server.signal(signal.SIGTERM)
        assert await server.wait() == 0


async def test_a_connected_sse_client_finishes_its_calls_during_the_drain(tmp_path: Path) -> None:
    async with run_http_server(tmp_path) as server, HttpWay("sse", "legacy").connect(server.base) as client:
        await client.list_tools()
        answers: list[str] = []

        async def call(tool: str) -> None:
            answers.append((await client.call_tool(tool, {})).content[0].text)  # type: ignore[union-attr]

        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, "wait")
                await server.wait_for_stderr("begun")
                server.signal(signal.SIGTERM)
                await server.wait_until_draining()
                # A rejection would cost the client its stream and the result of `wait`.
                await call("there")
                server.release()
        assert answers == ["there", "released"]
        assert await server.wait() == 0


async def test_a_disconnected_client_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    async with run_http_server(tmp_path) as server:
        for way in HTTP_WAYS:
            if (way.transport, way.mode) == ("http", "legacy"):
                # The call continues on this transport, and no client waits for it.
                continue
            async with anyio.create_task_group() as tasks:

                async def call(way: HttpWay = way) -> None:
                    async with way.connect(server.base) as client:
                        await client.session.call_tool("wait", {})

                before = server.stderr.count("begun")
                tasks.start_soon(call)
                await server.wait_for_stderr("begun", before + 1)
                tasks.cancel_scope.cancel()
        server.signal(signal.SIGTERM)
        assert await server.wait() == 0


async def test_a_process_that_serves_by_the_library_shuts_down_too(tmp_path: Path) -> None:
    program = "from mcp_bridge import serve, ToolRegistry; serve(ToolRegistry(), http='127.0.0.1:0', token='abc')"
    async with run_http_server(tmp_path, [sys.executable, "-c", program]) as server:
        async with httpx2.AsyncClient(timeout=TIMEOUT) as http:
            assert (await http.post(f"{server.base}/mcp", **make_stateless_request("tools/list"))).status_code == 401
            response = await http.post(
                f"{server.base}/mcp", **make_stateless_request("tools/list", Authorization="Bearer abc")
            )
            assert response.json()["result"]["tools"] == []
        server.signal(signal.SIGINT)
        assert await server.wait() == 0
        assert has_no_errors(server), server.stderr
        assert "abc" not in server.stderr
