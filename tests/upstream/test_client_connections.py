"""With `sessions`, each client has a separate connection to a server, and so a separate state there."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from mcp.client import Client

from mcp_bridge._sources.upstream import client_sessions
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.bearer import Authenticator, StaticTokens
from tests.kits.constants import STATELESS, TIMEOUT
from tests.kits.http.http_hosting import HttpWay, serve_http
from tests.kits.upstream.everything_kit import Host, Way, build_bridge, call_structured
from tests.kits.upstream.upstream_kit import Json, call_text, run_http_server, wait_for_tool
from tests.upstream.test_several_clients import NAMES

pytestmark = pytest.mark.anyio
COUNTER = Path(__file__).parents[1] / "kits/upstream/counter_server.py"
ENTRY = {"command": sys.executable, "args": ["-I", "-S", str(COUNTER)], "sessions": "client"}


@contextlib.asynccontextmanager
async def serve_bridge(entry: Json, folder: Path, access: Access | None = None) -> AsyncIterator[str]:
    """Serve a bridge in front of one server over HTTP; yield its address once it is connected."""
    async with serve_http(build_bridge(entry, folder), access=access) as (base, _):
        yield base


def connect(base: str, mode: str = "legacy", **options: Any) -> contextlib.AbstractAsyncContextManager[Client]:
    """Connect a client."""
    return HttpWay("http", mode).connect(base, cache=None, **options)


async def count(client: Client, **arguments: Any) -> tuple[int, int]:
    """Call the counter; return how often it was called, and its process."""
    result = await call_structured(client, "count", arguments)
    return result["count"], result["pid"]


async def wait_until_ended(pid: int) -> None:
    """Wait until a process is gone."""
    with anyio.fail_after(TIMEOUT):
        while is_running(pid):  # noqa: ASYNC110 - a process of another parent
            await anyio.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_each_client_has_a_separate_state(tmp_path: Path) -> None:
    async with serve_bridge(ENTRY, tmp_path) as base, connect(base) as ada, connect(base) as bob:
        await wait_for_tool(ada, "count")
        counts = [await count(client) for client in (ada, ada, bob, ada)]
    assert [number for number, _ in counts] == [1, 2, 1, 3]
    assert len({pid for _, pid in counts}) == 2


async def test_clients_of_a_shared_server_share_its_state(tmp_path: Path) -> None:
    async with (
        serve_bridge({**ENTRY, "sessions": "shared"}, tmp_path) as base,
        connect(base) as ada,
        connect(base) as bob,
    ):
        await wait_for_tool(ada, "count")
        assert [(await count(client))[0] for client in (ada, bob)] == [1, 2]


async def test_clients_without_a_session_share_the_first_connection(tmp_path: Path) -> None:
    async with serve_bridge(ENTRY, tmp_path) as base, connect(base, STATELESS) as ada, connect(base, STATELESS) as bob:
        await wait_for_tool(ada, "count")
        assert [(await count(client))[0] for client in (ada, bob)] == [1, 2]


async def test_the_process_of_a_client_ends_when_it_disconnects(tmp_path: Path) -> None:
    async with serve_bridge(ENTRY, tmp_path) as base, connect(base) as ada:
        await wait_for_tool(ada, "count")
        _, remaining_pid = await count(ada)
        async with connect(base) as bob:
            _, old_pid = await count(bob)
        await wait_until_ended(old_pid)
        assert is_running(remaining_pid)
        assert (await count(ada)) == (2, remaining_pid)


async def test_an_idle_connection_ends_and_the_next_call_opens_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_sessions, "IDLE_TIMEOUT", 0.2)
    async with serve_bridge(ENTRY, tmp_path) as base, connect(base) as ada:
        await wait_for_tool(ada, "count")
        _, old_pid = await count(ada)
        await wait_until_ended(old_pid)
        number, pid = await count(ada)
        assert number == 1
        assert pid != old_pid


async def test_another_client_ends_the_connection_that_is_idle_longest(tmp_path: Path) -> None:
    async with serve_bridge({**ENTRY, "sessions": 1}, tmp_path) as base, connect(base) as ada, connect(base) as bob:
        await wait_for_tool(ada, "count")
        _, first = await count(ada)
        assert (await count(bob))[0] == 1
        assert not is_running(first)
        assert (await count(ada))[0] == 1


async def test_a_user_with_many_clients_does_not_use_all_connections(tmp_path: Path) -> None:
    access = Access(authenticator=Authenticator(StaticTokens(named={"ada": "a" * 32, "bob": "b" * 32})))
    async with serve_bridge({**ENTRY, "sessions": 4}, tmp_path, access) as base, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(base, token="a" * 32)) for _ in range(4)]
        await wait_for_tool(clients[0], "count")
        pids = [(await count(client))[1] for client in clients]
        # Ada exceeds her share, so she loses a connection.
        await wait_until_ended(pids[0])
        bob = await stack.enter_async_context(connect(base, token="b" * 32))
        assert (await count(bob))[0] == 1
        assert all(is_running(pid) for pid in pids[1:])


async def test_a_crash_in_the_process_of_a_client_affects_no_other(tmp_path: Path) -> None:
    async with serve_bridge(ENTRY, tmp_path) as base, connect(base) as ada, connect(base) as bob:
        await wait_for_tool(ada, "count")
        await count(ada)
        await count(bob)
        assert (await ada.call_tool("count", {"crash": True})).is_error
        assert [(await count(client))[0] for client in (ada, bob)] == [1, 2]


async def test_all_processes_of_clients_end_with_the_bridge(tmp_path: Path) -> None:
    async with serve_bridge(ENTRY, tmp_path) as base, connect(base) as ada, connect(base) as bob:
        await wait_for_tool(ada, "count")
        pids = [(await count(client))[1] for client in (ada, bob)]
    assert [pid for pid in pids if is_running(pid)] == []


async def test_a_tool_with_another_definition_in_a_second_process_is_not_called(tmp_path: Path) -> None:
    entry = {**ENTRY, "args": [*ENTRY["args"], str(tmp_path / "started")]}
    async with serve_bridge(entry, tmp_path) as base, connect(base) as ada:
        await wait_for_tool(ada, "count")
        result = await ada.call_tool("count", {})
    assert result.is_error
    assert result.meta == {"mcp-bridge/code": "definition_changed"}
    assert "differs from the published one" in result.content[0].text  # type: ignore[union-attr]


async def test_definitions_of_second_processes_are_not_compared_if_changes_are_ignored(tmp_path: Path) -> None:
    entry = {**ENTRY, "args": [*ENTRY["args"], str(tmp_path / "started")], "changes": "ignore"}
    async with serve_bridge(entry, tmp_path) as base, connect(base) as ada:
        await wait_for_tool(ada, "count")
        assert (await count(ada))[0] == 1


async def test_a_client_that_disconnects_while_its_connection_opens_releases_it(tmp_path: Path) -> None:
    opening = anyio.Event()
    with run_http_server() as server:
        async with forward_connections(server, opening) as address:
            entry = {"url": f"{address}/sse", "transport": "sse", "sessions": "client"}
            entry |= {"sessions": 1, "start_timeout": 1000}
            async with serve_bridge(entry, tmp_path) as base, connect(base) as bob:
                await wait_for_tool(bob, "echo")
                async with connect(base) as ada, anyio.create_task_group() as tasks:
                    tasks.start_soon(ada.call_tool, "echo", {"text": "never"})
                    await opening.wait()
                    tasks.cancel_scope.cancel()
                assert await call_text(bob, "echo") == "hello"


@contextlib.asynccontextmanager
async def forward_connections(server: str, opening: anyio.Event) -> AsyncIterator[str]:
    """Forward connections to a server; yield the address. The second event stream never gets a response."""
    streams = 0

    async def forward(client: SocketStream) -> None:
        nonlocal streams
        async with client:
            head = await client.receive()
            streams += head.startswith(b"GET /sse")
            if streams == 2 and head.startswith(b"GET /sse"):
                opening.set()
                await anyio.sleep_forever()
            await pass_on(client, head)

    async def pass_on(client: SocketStream, head: bytes) -> None:
        async with await anyio.connect_tcp("127.0.0.1", int(server.rpartition(":")[2])) as target:
            await target.send(head)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(copy_bytes, client, target)
                await copy_bytes(target, client)
                tasks.cancel_scope.cancel()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, forward)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


async def copy_bytes(source: SocketStream, target: SocketStream) -> None:
    """Copy bytes from one end to the other, until one of them closes."""
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            await target.send(await source.receive())


async def test_questions_over_stdio_reach_several_clients_concurrently(tmp_path: Path) -> None:
    answers: dict[str, Any] = {}
    with warnings.catch_warnings(), Way("stdio", "handshake").run_server() as entry:
        # Sampling and roots are deprecated.
        warnings.simplefilter("ignore")
        async with (
            serve_bridge({**entry, "sessions": "client"}, tmp_path) as base,
            contextlib.AsyncExitStack() as stack,
        ):
            clients = {name: await stack.enter_async_context(connect(base, **Host(name).options)) for name in NAMES[:2]}
            await wait_for_tool(clients["Ada"], "ask_form")

            async def ask(name: str) -> None:
                # An error result raises here.
                result = await call_structured(clients[name], "ask_form")
                answers[name] = result["answer"]["content"]["name"]

            async with anyio.create_task_group() as tasks:
                for name in clients:
                    tasks.start_soon(ask, name)
                    tasks.start_soon(ask, name)
    assert answers == {name: name for name in clients}
