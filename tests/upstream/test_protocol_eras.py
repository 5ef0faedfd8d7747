"""Questions of a server work through a gateway as they do directly, in both eras of the client."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import StdioServerParameters, stdio_client
from mcp.client import Client
from mcp_types import ElicitResult

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.upstream.everything_kit import ERAS, Host, Way, connect_to
from tests.kits.upstream.upstream_kit import Json, build_source, find_free_port, wait_for_state, wait_for_tool
from tests.kits.waiting import wait_until_true

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parents[1] / "kits/upstream/asking_server.py"
ORDER = {"mail": "ada@example.com", "count": 3}


class Customer(Host):
    """A host that fills in only fields without a default, like a user who accepts a form."""

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        if not hasattr(params, "requested_schema"):
            return ElicitResult(action="accept")
        properties = params.requested_schema["properties"]
        defaults = {name: field["default"] for name, field in properties.items() if "default" in field}
        return ElicitResult(action="accept", content={**defaults, **(ORDER if "mail" in properties else {})})


def serve(*arguments: object) -> list[str]:
    """Return the command of a bridge over stdio."""
    return [sys.executable, "-m", "mcp_bridge", "serve", *map(str, arguments), "--log-level", "error"]


def write_gateway(folder: Path, name: str, entry: Json) -> Path:
    """Write the settings of a gateway in front of one server."""
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps({"sources": [{"type": "mcp", "name": "asking", "prefix": "", **entry}]}))
    return file


def build_command(way: str, folder: Path) -> list[str]:
    """Return the command of the server, of a bridge with its file, or of gateways in front of it."""
    direct = [sys.executable, str(SERVER)]
    if way == "direct":
        return direct
    if way == "file":
        return serve(SERVER)
    gateway = serve(write_gateway(folder, "inner", {"command": direct[0], "args": direct[1:]}))
    if way == "gateway":
        return gateway
    return serve(write_gateway(folder, "outer", {"command": gateway[0], "args": gateway[1:]}))


@contextlib.asynccontextmanager
async def connect_command(command: list[str], mode: Any, host: Host) -> AsyncIterator[Client]:
    """Connect the official client to a command, and wait until its tools are there."""
    server = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    async with Client(server, mode=mode, cache=None, log_level="info", **host.options) as client:
        await wait_for_tool(client, "fill_form", 60)
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool and return its text."""
    result = await client.call_tool(tool, arguments)
    return "".join(block.text for block in result.content if block.type == "text")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", ["direct", "file", "gateway", "gateway of a gateway"])
async def test_questions_of_a_handshake_server_reach_clients_of_both_eras(
    transport: str, mode: str, tmp_path: Path
) -> None:
    if transport == "direct" and mode != "legacy":
        pytest.skip("the SDK itself cannot ask in this way in 2026-07-28")
    host, steps, started = Customer(), [], anyio.Event()

    async def note_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async def note_start(*_: object) -> None:
        started.set()

    async with connect_command(build_command(transport, tmp_path), mode, host) as client:
        order = json.loads(await call(client, "fill_form"))
        assert await call(client, "open_link") == "accept"
        assert await call(client, "ask_model") == "Hello from Ada"
        assert await call(client, "list_roots") == "file:///Ada"
        await client.call_tool("report", {}, progress_callback=note_progress)
        await wait_until_true(lambda: len(steps) == 2 and len(host.logged) == 1)
        async with anyio.create_task_group() as tasks:

            async def wait_for_ever() -> None:
                await client.call_tool("wait", {"label": "gone"}, progress_callback=note_start)

            tasks.start_soon(wait_for_ever)
            await started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(TIMEOUT):
            while await call(client, "show_cancelled") != "gone":  # noqa: ASYNC110 - what the server has noted
                await anyio.sleep(0.02)
    defaults = {"name": "Bob", "weight": 1.5, "gift": True, "colour": "blue", "extras": ["card"]}
    assert order == {**defaults, **ORDER}
    assert steps == [(1, 2, "step 1"), (2, 2, "step 2")]
    assert [(item.level, item.data) for item in host.logged] == [("warning", "careful")]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Run the server, and return its URL."""
    port = find_free_port()
    with subprocess.Popen([sys.executable, SERVER, "http", str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def connect_url(url: str, folder: Path, mode: str, **options: Any) -> AsyncIterator[Client]:
    """Connect to a bridge in front of a server at a URL, after the server has started."""
    source = build_source({"url": url, **options}, folder)
    async with connect(
        Bridge(None, [AttachedSource(source=source)]), cache=None, mode=mode, **Customer().options
    ) as client:
        await wait_for_state(source, "ready", 60)
        yield client


async def test_a_server_at_a_url_is_called_in_the_era_of_each_client(address: str, tmp_path: Path) -> None:
    async with connect_url(address, tmp_path, "legacy") as client:
        assert json.loads(await call(client, "fill_form"))["name"] == "Bob"
        assert await call(client, "ask_model") == "Hello from Ada"
    async with connect_url(address, tmp_path, "2026-07-28") as client:
        assert await call(client, "ask_by_result") == "accept"


async def test_a_question_that_cannot_be_asked_in_one_era_is_asked_in_the_next_call(
    address: str, tmp_path: Path
) -> None:
    async with connect_url(address, tmp_path, "2026-07-28") as client:
        assert "Retry the call" in await call(client, "fill_form")
        assert json.loads(await call(client, "fill_form"))["name"] == "Bob"


@pytest.mark.parametrize("mode", ERAS)
async def test_the_protocol_of_a_server_can_be_set(address: str, mode: str, tmp_path: Path) -> None:
    async with connect_url(address, tmp_path, mode, protocol="handshake") as client:
        assert await call(client, "ask_model") == "Hello from Ada"
    async with connect_url(address, tmp_path, mode, protocol="stateless") as client:
        assert await call(client, "ask_by_result") == "accept"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_program_that_speaks_only_2026_07_28_is_connected(mode: str, tmp_path: Path) -> None:
    with Way("stdio", "stateless").run_server() as entry:
        async with connect_to(entry, tmp_path, mode) as client:
            assert not (await client.call_tool("measure", {})).is_error
