"""`serve --workers`: several processes serve one address, and each session and call stays with its process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest
from anyio.streams.text import TextReceiveStream
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from mcp_bridge._runtime.platform import system
from tests.client.http_client import HttpClient, HttpSession, connect_over_http, connect_over_sse, open_session
from tests.client.server_process import find_server_pid
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_process import HttpServer, fail_to_start, get_command, run_http_server
from tests.kits.waiting import wait_until_true

pytestmark = pytest.mark.skipif(not system.CAN_PASS_SOCKETS, reason="this system cannot pass connections")

TOOLS = '''
import os
import sys
from pathlib import Path

import anyio

from mcp_bridge import CallContext, tool

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool
def pid(text: str = "") -> str:
    """Return the process id."""
    return str(os.getpid())


@tool
async def wait() -> str:
    """Wait until there is a file named `release`, and return the process id."""
    print("begun", file=sys.stderr, flush=True)
    while not Path("release").exists():
        await anyio.sleep(0.01)
    return str(os.getpid())


@tool
async def greet(ctx: CallContext, text: str = "") -> str:
    """Ask for a name in the middle, and return it with the process ids before and after."""
    before = os.getpid()
    answer = await ctx.ask("Who?", NAME)
    return f"{answer.content['name']} {before} {os.getpid()}"


@tool
async def remember(ctx: CallContext, value: str = "") -> str:
    """Store a value, or return the stored one."""
    if value:
        await ctx.set_state("value", value)
    return f"{await ctx.get_state('value')} {os.getpid()}"
'''
TERMINAL = """
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    os.write(2, os.read(terminal, 1024))
"""
"""A program that runs a command in a terminal, and closes the terminal at its end."""
ELICITATION = {"elicitation": {"form": {}}}
ANSWER = {"action": "accept", "content": {"name": "Ada"}}


@contextlib.asynccontextmanager
async def run_workers(folder: Path, *options: str, settings: str = "", **env: str) -> AsyncIterator[HttpServer]:
    """Yield a server with two workers."""
    (folder / "worker_tools.py").write_text(TOOLS)
    lines = ["limits: {drain: 1h}", "sources: [{type: python, path: worker_tools.py}]", settings]
    (folder / "workers.yaml").write_text("\n".join(lines))
    argv = get_command("workers.yaml", "--http", "127.0.0.1:0", "--workers", "2", *options)
    async with run_http_server(folder, argv, env) as server:
        yield server


@contextlib.asynccontextmanager
async def connect(server: HttpServer, **options: Any) -> AsyncIterator[HttpClient]:
    """Yield a stateless client with connections of its own."""
    async with connect_over_http(server.base, stateless=True, **options) as client:
        yield client


async def call_pid(client: HttpClient, text: str = "") -> int:
    """Return the process that serves a call."""
    result = await client.get_result("tools/call", {"name": "pid", "arguments": {"text": text}})
    return int(result["content"][0]["text"])


async def find_pids(server: HttpServer) -> set[int]:
    """Return the processes that serve the next connections."""
    pids = set()
    for _ in range(4):
        async with connect(server) as client:
            pids.add(await call_pid(client))
    return pids


async def call_in_session(session: HttpSession, tool: str = "pid") -> httpx2.Response:
    """Call a tool in a session of the handshake era."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    return await session.http.post("/mcp", json=message, headers=session.headers)


def read_pid(response: httpx2.Response) -> int:
    """Return the process in the response to a call of `pid` or `wait`."""
    assert response.status_code == 200, response.text
    match = re.search(r'"text":"(\d+)"', response.text)
    assert match is not None, response.text
    return int(match[1])


async def open_sessions(http: httpx2.AsyncClient) -> dict[int, HttpSession]:
    """Open a session at each worker. Return the sessions by the processes."""
    sessions: dict[int, HttpSession] = {}
    while len(sessions) < 2:
        # Each new connection goes to the next worker.
        async with httpx2.AsyncClient(base_url=http.base_url, timeout=TIMEOUT) as opener:
            session = await open_session(opener)
        session.http = http
        sessions[read_pid(await call_in_session(session))] = session
    return sessions


async def test_new_connections_go_to_the_workers_in_turn(tmp_path: Path) -> None:
    async with run_workers(tmp_path) as server, contextlib.AsyncExitStack() as stack:
        counts: Counter[int] = Counter()
        for _ in range(8):
            client = await stack.enter_async_context(connect(server))
            counts[await call_pid(client)] += 1
        assert list(counts.values()) == [4, 4]


@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
async def test_requests_of_several_sessions_on_one_connection_reach_the_processes_of_the_sessions(
    tmp_path: Path, event_loop: str
) -> None:
    async with run_workers(tmp_path, settings=f"event_loop: {event_loop}") as server:
        limits = httpx2.Limits(max_connections=1)
        async with httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT, limits=limits) as http:
            sessions = await open_sessions(http)
            for _ in range(5):
                for pid, session in sessions.items():
                    assert read_pid(await call_in_session(session)) == pid
            for session in sessions.values():
                assert await session.delete() == 200
                assert (await call_in_session(session)).status_code == 404


async def test_a_pipelined_request_of_another_session_is_answered_by_its_process(tmp_path: Path) -> None:
    async with run_workers(tmp_path) as server:
        async with httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT) as http:
            sessions = await open_sessions(http)
        host, port = server.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        first = next(iter(sessions))
        requests = [make_raw_call(sessions[first], server.base, 1)]
        requests += [make_raw_call(session, server.base, number) for number, session in enumerate(sessions.values(), 2)]
        # The first request moves the connection to the process of its session.
        writer.write(requests.pop(0))
        assert (await read_raw_response(reader))[1] == first
        writer.write(b"".join(requests))
        assert [(await read_raw_response(reader))[1] for _ in requests] == list(sessions)
        # A connection cannot move while a further request waits on it.
        writer.write(b"".join(requests))
        assert (await read_raw_response(reader))[0] == 503
        assert (await read_raw_response(reader))[1] == list(sessions)[1]
        writer.close()


def make_raw_call(session: HttpSession, base: str, request_id: int) -> bytes:
    """Return the bytes of a call in a session."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": {"name": "pid", "arguments": {}}}
    body = json.dumps(message).encode()
    headers = {"Host": base.removeprefix("http://"), "Content-Length": str(len(body)), **session.headers}
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


async def read_raw_response(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Return the status of a response, and the process in its body, or 0."""
    async with asyncio.timeout(TIMEOUT):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None, head
        body = await reader.readexactly(int(length[1]))
    pid = re.search(rb'"text":"(\d+)"', body)
    return int(head.split()[1]), int(pid[1]) if pid is not None else 0


async def test_questions_in_a_session_and_their_answers_use_different_connections(tmp_path: Path) -> None:
    async with run_workers(tmp_path) as server:
        for _ in range(2):
            async with connect_over_http(server.base, capabilities=ELICITATION) as client:
                request_id = await client.send_call("greet")
                await client.respond(await client.receive_request(), ANSWER)
                result = (await client.receive_response(request_id))["result"]
                name, before, after = result["content"][0]["text"].split()
                assert (name, before) == ("Ada", after)


async def test_messages_of_legacy_clients_reach_the_process_of_their_stream(tmp_path: Path) -> None:
    async with run_workers(tmp_path) as server:
        for _ in range(2):
            async with connect_over_sse(server.base) as client:
                results = [await client.get_result("tools/call", {"name": "pid", "arguments": {}}) for _ in range(4)]
                assert len({result["content"][0]["text"] for result in results}) == 1


@pytest.mark.parametrize("size", [1, 1_000_000])
async def test_the_next_round_of_a_suspended_call_reaches_its_process_from_any_connection(
    tmp_path: Path, size: int
) -> None:
    params: dict[str, Any] = {"name": "greet", "arguments": {"text": "x" * size}}
    async with run_workers(tmp_path) as server:
        for _ in range(4):
            async with connect(server, capabilities=ELICITATION) as client:
                question = await client.get_result("tools/call", params)
            responses = dict.fromkeys(question["inputRequests"], ANSWER)
            repeated = {**params, "inputResponses": responses, "requestState": question["requestState"]}
            async with connect(server, capabilities=ELICITATION) as client:
                result = await client.get_result("tools/call", repeated)
                name, before, after = result["content"][0]["text"].split()
                assert (name, before) == ("Ada", after)
                # The state was used.
                assert await client.get_error("tools/call", repeated)


async def test_the_state_of_a_principal_is_the_same_at_all_workers(tmp_path: Path) -> None:
    settings = "http: {tokens: {ada: 'env:ADA'}}"
    async with run_workers(tmp_path, settings=settings, ADA="a-long-secret-of-ada") as server:
        texts = []
        for value in ("tea", "", ""):
            async with connect(server) as client:
                client.headers["Authorization"] = "Bearer a-long-secret-of-ada"
                params = {"name": "remember", "arguments": {"value": value}}
                texts.append((await client.get_result("tools/call", params))["content"][0]["text"].split())
        assert [value for value, _ in texts] == ["tea"] * 3
        assert len({pid for _, pid in texts}) == 2


async def test_the_official_client_calls_tools_in_a_session(tmp_path: Path) -> None:
    async with run_workers(tmp_path) as server:
        for _ in range(2):
            async with (
                streamable_http_client(f"{server.base}/mcp") as (read, write, *_),
                ClientSession(read, write) as session,
            ):
                await session.initialize()
                results = [await session.call_tool("pid", {}) for _ in range(4)]
                assert len({result.content[0].text for result in results}) == 1


async def test_a_killed_worker_is_replaced_and_only_its_sessions_end(tmp_path: Path) -> None:
    async with run_workers(tmp_path) as server:
        async with httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT) as http:
            sessions = await open_sessions(http)
            victim, survivor = sessions
            os.kill(victim, signal.SIGKILL)
            await server.wait_for_stderr("a worker has ended")
            await wait_for_pids(server, lambda pids: len(pids) == 2 and victim not in pids)
            assert survivor in await find_pids(server)
        async with httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT) as http:
            for session in sessions.values():
                session.http = http
            assert (await call_in_session(sessions[victim])).status_code == 404
            assert read_pid(await call_in_session(sessions[survivor])) == survivor


async def wait_for_pids(server: HttpServer, are_expected: Callable[[set[int]], bool]) -> None:
    """Wait until the processes that serve are as expected."""
    with anyio.fail_after(TIMEOUT):
        while not are_expected(await find_pids(server)):  # noqa: ASYNC110 - processes have no events
            await anyio.sleep(0.05)


async def test_sighup_replaces_all_workers_and_loses_no_call(tmp_path: Path) -> None:
    # The delay is for proxies, which notice nothing of this.
    async with run_workers(tmp_path, settings="http: {shutdown_delay: 1h}") as server:
        async with httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT) as http:
            sessions = await open_sessions(http)
            is_loaded = True
            counts: Counter[str] = Counter()

            async def call_on_one_connection() -> None:
                async with connect(server) as client:
                    while is_loaded:
                        await call_pid(client)
                        counts["kept"] += 1

            async def call_on_new_connections() -> None:
                while is_loaded:
                    async with connect(server) as client:
                        await call_pid(client)
                        counts["new"] += 1

            async def call_in_sessions() -> None:
                while is_loaded:
                    session = await open_session(http)
                    while is_loaded and (response := await call_in_session(session)).status_code != 404:
                        read_pid(response)
                        counts["session"] += 1

            async def wait_in_session(session: HttpSession, pid: int) -> None:
                assert read_pid(await call_in_session(session, "wait")) == pid

            async with anyio.create_task_group() as waiting:
                for pid, session in sessions.items():
                    waiting.start_soon(wait_in_session, session, pid)
                await server.wait_for_stderr("begun", times=2)
                async with anyio.create_task_group() as load:
                    for call in (call_on_one_connection, call_on_new_connections, call_in_sessions) * 2:
                        load.start_soon(call)
                    await wait_until_true(lambda: len(counts) == 3)
                    server.signal(signal.SIGHUP)
                    await wait_for_pids(server, lambda pids: len(pids) == 2 and pids.isdisjoint(sessions))
                    # The calls of both sessions still wait in the old processes. These accept no new calls.
                    for session in sessions.values():
                        assert (await call_in_session(session)).status_code == 404
                    counts.clear()
                    await wait_until_true(lambda: len(counts) == 3)
                    is_loaded = False
                server.release()
        for pid in sessions:
            await wait_until_true(lambda pid=pid: not psutil.pid_exists(pid))


async def test_all_workers_serve_during_the_delay_of_a_shutdown(tmp_path: Path) -> None:
    async with run_workers(tmp_path, settings="http: {shutdown_delay: 1h}") as server:
        async with httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT) as http:
            sessions = await open_sessions(http)
            server.signal(signal.SIGTERM)
            await server.wait_until_draining()
            assert await find_pids(server) == set(sessions)
            for pid, session in sessions.items():
                assert read_pid(await call_in_session(session)) == pid
        server.signal(signal.SIGINT)
        assert await server.wait() == 0


async def test_sighup_applies_new_settings_and_keeps_the_workers_if_they_have_errors(tmp_path: Path) -> None:
    async with run_workers(tmp_path) as server:
        pids = await find_pids(server)
        settings = (tmp_path / "workers.yaml").read_text()
        (tmp_path / "workers.yaml").write_text("sources: [{type: unknown}]")
        server.signal(signal.SIGHUP)
        await server.wait_for_stderr("a worker cannot be replaced", times=2)
        assert await find_pids(server) == pids
        (tmp_path / "workers.yaml").write_text(f"{settings}\nname: renamed")
        server.signal(signal.SIGHUP)
        await wait_for_pids(server, lambda new_pids: len(new_pids) == 2 and new_pids.isdisjoint(pids))
        async with connect_over_http(server.base) as client:
            assert client.initialize_result["serverInfo"]["name"] == "renamed"


async def test_the_server_ends_when_its_terminal_is_closed(tmp_path: Path) -> None:
    (tmp_path / "worker_tools.py").write_text(TOOLS)
    command = get_command("worker_tools.py", "--http", "127.0.0.1:0", "--workers", "2")
    async with run_http_server(tmp_path, [sys.executable, "-c", TERMINAL, *command]) as server:
        family = psutil.Process(server.pid).children(recursive=True)
        assert {process.pid for process in family} > await find_pids(server)
        server.signal(signal.SIGKILL)
        await wait_until_true(lambda: not any(process.is_running() for process in family))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_running_calls_end_and_stops_all_processes(tmp_path: Path, number: int) -> None:
    async with run_workers(tmp_path) as server:
        pids = await find_pids(server)
        results: list[int] = []

        async def wait(client: HttpClient) -> None:
            result = await client.get_result("tools/call", {"name": "wait", "arguments": {}})
            results.append(int(result["content"][0]["text"]))

        async with connect(server) as first, connect(server) as second, anyio.create_task_group() as tasks:
            tasks.start_soon(wait, first)
            tasks.start_soon(wait, second)
            await server.wait_for_stderr("begun", times=2)
            server.signal(number)
            await server.wait_until_draining()
            server.release()
        assert set(results) == pids
        assert await server.wait() == 0
        assert not any(map(psutil.pid_exists, pids))


async def test_a_second_signal_ends_all_workers_at_once(tmp_path: Path) -> None:
    async with run_workers(tmp_path) as server:
        pids = await find_pids(server)
        async with connect(server) as client:
            request_id = await client.send_call("wait")
            await server.wait_for_stderr("begun")
            server.signal(signal.SIGTERM)
            await server.wait_until_draining()
            server.signal(signal.SIGINT)
            assert "error" in await client.receive_response(request_id)
        assert await server.wait() == 0
        assert not any(map(psutil.pid_exists, pids))


@pytest.mark.parametrize("options", [(), ("--no-guard",)])
async def test_the_workers_end_if_the_supervisor_is_killed(tmp_path: Path, options: tuple[str, ...]) -> None:
    # The path of `tmp_path` is too long for sockets.
    with tempfile.TemporaryDirectory() as folder:
        async with run_workers(tmp_path, *options, TMPDIR=folder) as server:
            pids = await find_pids(server)
            assert os.listdir(folder)
            os.kill(find_server_pid(server.pid), signal.SIGKILL)
            for pid in pids:
                await wait_until_true(lambda pid=pid: not psutil.pid_exists(pid))
        # The supervisors of a server with a guard give it a second for this.
        if "--no-guard" in options:
            assert os.listdir(folder) == []


async def test_health_and_metrics_are_those_of_all_workers(tmp_path: Path) -> None:
    async with run_workers(tmp_path, settings="http: {metrics: true}") as server:
        pids = await find_pids(server)
        assert len(pids) == 2
        async with httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT) as http:
            health = (await http.get("/health")).json()
            assert health["status"] == "ok"
            assert health["workers"] == {"0001": {"status": "ok"}, "0002": {"status": "ok"}}
            for accept in ("text/plain", "application/openmetrics-text"):
                text = (await http.get("/metrics", headers={"Accept": accept})).text
                samples = re.findall(r'^\w+_count\{worker="(\d+)",.*tools/call.* (\S+)$', text, re.MULTILINE)
                assert {worker: float(count) for worker, count in samples} == {"0001": 2.0, "0002": 2.0}
                assert text.count("# TYPE mcp_bridge_info ") == 1
                assert text.endswith("# EOF\n") == (accept != "text/plain")


async def test_a_user_in_a_terminal_approves_the_calls_of_all_workers(tmp_path: Path) -> None:
    settings = "policy: [{approval: {tools: [pid]}}]\napprovals: {terminal: true}"
    async with run_workers(tmp_path, settings=settings) as server:
        command = [sys.executable, "-m", "mcp_bridge", "approvals", "workers.yaml"]
        async with (
            await anyio.open_process(command, cwd=tmp_path, stdout=None) as user,
            anyio.create_task_group() as tasks,
            connect(server) as first,
            connect(server) as second,
        ):
            assert user.stdin is not None
            assert user.stderr is not None
            screen: list[str] = []

            async def read_screen() -> None:
                async for text in TextReceiveStream(user.stderr):
                    screen.append(text)

            tasks.start_soon(read_screen)
            await wait_until_true(lambda: "".join(screen).count("connected to workers") == 2)
            pids = set()
            for number, client in enumerate((first, second), 1):
                request_id = await client.send_call("pid")
                await wait_until_true(lambda number=number: f"[{number}]" in "".join(screen))
                await user.stdin.send(b"y %d\n" % number)
                response = await client.receive_response(request_id)
                pids.add(response["result"]["content"][0]["text"])
            assert len(pids) == 2
            user.kill()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("http: {page: true, workers: 2}", "the page shows the calls of one process"),
        ("http: {workers: 2}\ntasks: {}", "tasks in memory belong to one process"),
    ],
)
def test_settings_that_need_one_process_are_rejected(tmp_path: Path, settings: str, problem: str) -> None:
    (tmp_path / "bridge.yaml").write_text(f"sources: [{{type: python, path: tools.py}}]\n{settings}")
    code, stderr = fail_to_start(tmp_path, "bridge.yaml", "--http", "127.0.0.1:0")
    assert code == 2
    assert f"http.workers: {problem}" in stderr


def test_an_error_of_the_start_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('broken')")
    code, stderr = fail_to_start(tmp_path, "broken.py", "--http", "127.0.0.1:0", "--workers", "2")
    assert code == 1
    assert stderr.count("mcp-bridge: ") == 1, stderr


def test_workers_need_a_folder_for_temporary_files(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    command = ("tools.py", "--http", "127.0.0.1:0", "--workers", "2")
    code, stderr = fail_to_start(tmp_path, *command, TMPDIR=str(folder))
    assert code == 2
    assert "http.workers: workers need temporary files" in stderr
    assert list(folder.iterdir()) == []


def test_workers_need_http(tmp_path: Path) -> None:
    code, stderr = fail_to_start(tmp_path, "tools.py", "--workers", "2")
    assert code == 2
    assert "--workers: workers serve HTTP only" in stderr
