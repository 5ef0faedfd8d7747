"""Several clients share one server. Each question reaches the client of its call, or no client."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from tests.kits.http.http_hosting import HttpWay, serve_http
from tests.kits.upstream.everything_kit import (
    ERAS,
    Host,
    Way,
    build_bridge,
    call_structured,
    wait_for_names,
)
from tests.kits.upstream.upstream_kit import wait_for_tool

pytestmark = pytest.mark.anyio
NAMES = ("Ada", "Bob", "Cleo")


@contextlib.asynccontextmanager
async def connect_all(way: Way, folder: Path, mode: str) -> AsyncIterator[dict[str, Client]]:
    """Connect several clients over HTTP to a bridge in front of one server."""
    with warnings.catch_warnings(), way.run_server() as entry:
        # Sampling and roots are deprecated.
        warnings.simplefilter("ignore")
        async with contextlib.AsyncExitStack() as stack:
            base, _ = await stack.enter_async_context(serve_http(build_bridge(entry, folder)))
            connections = {
                name: HttpWay("http", mode).connect(base, cache=None, **Host(name).options) for name in NAMES
            }
            clients = {name: await stack.enter_async_context(connection) for name, connection in connections.items()}
            await wait_for_tool(clients["Ada"], "ask_form")
            yield clients


async def ask_all(clients: dict[str, Client]) -> dict[str, Any]:
    """Ask questions in the calls of all clients at the same time."""
    answers: dict[str, Any] = {}

    async def ask_until_answered(name: str, client: Client) -> None:
        for _ in range(20):
            result = await client.call_tool("ask_form", {})
            if not result.is_error:
                answers[name] = (result.structured_content or {})["answer"]["content"]["name"]
                return
        answers[name] = "no answer"

    async with anyio.create_task_group() as tasks:
        for name, client in clients.items():
            tasks.start_soon(ask_until_answered, name, client)
    return answers


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    "transport", [Way("http", "handshake"), Way("http", "stateless"), Way("stdio", "dual")], ids=str
)
async def test_questions_on_the_stream_of_a_call_reach_its_client_while_others_wait(
    transport: Way, mode: str, tmp_path: Path
) -> None:
    async with connect_all(transport, tmp_path, mode) as clients:
        assert await ask_all(clients) == {name: name for name in NAMES}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", [Way("stdio", "handshake"), Way("sse", "handshake")], ids=str)
async def test_an_ambiguous_question_is_an_error_and_later_calls_take_turns(
    transport: Way, mode: str, tmp_path: Path
) -> None:
    async with connect_all(transport, tmp_path, mode) as clients:
        assert await ask_all(clients) == {name: name for name in NAMES}


async def test_a_server_is_subscribed_to_from_the_first_client_to_the_last(tmp_path: Path) -> None:
    async with connect_all(Way("stdio", "handshake"), tmp_path, "legacy") as clients:
        for name in NAMES:
            await clients[name].subscribe_resource("note://one")
        assert (await call_structured(clients["Ada"], "show_subscribed"))["names"] == ["note://one"]
        await clients["Ada"].unsubscribe_resource("note://one")
        await clients["Bob"].unsubscribe_resource("note://one")
        assert (await call_structured(clients["Ada"], "show_subscribed"))["names"] == ["note://one"]
        await clients["Cleo"].unsubscribe_resource("note://one")
        await wait_for_names(clients["Ada"], "show_subscribed", lambda names: names == [])


async def test_a_new_connection_to_a_server_has_the_subscriptions_again(tmp_path: Path) -> None:
    async with connect_all(Way("stdio", "handshake"), tmp_path, "legacy") as clients:
        await clients["Ada"].subscribe_resource("note://one")
        with contextlib.suppress(Exception):
            await clients["Ada"].call_tool("end", {})
        await wait_for_names(clients["Ada"], "show_subscribed", lambda names: names == ["note://one"])
