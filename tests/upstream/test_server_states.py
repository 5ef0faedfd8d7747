"""The states of servers are visible to clients, operators and users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from mcp_bridge._app.serve import asgi_app
from mcp_bridge.testing import connect
from tests.kits.cli.cli_running import run
from tests.kits.constants import TIMEOUT
from tests.kits.upstream.upstream_kit import (
    build_gateway,
    call_text,
    connect_gateway,
    list_names,
    write_command,
    write_settings,
)

UNSET = {"command": "server", "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}}
MISSING = {"command": "no-such-program-anywhere"}
NOT_FOUND = "the program 'no-such-program-anywhere' was not found. Install it, or give its full path"


async def read_status(client: Client) -> dict[str, dict[str, Any]]:
    """Read the status resource, and return its sources by name."""
    result = await client.read_resource("bridge://status")
    (content,) = result.contents
    return {row["name"]: row for row in json.loads(content.text)["sources"]}


async def test_a_client_reads_which_servers_are_missing_and_why(tmp_path: Path) -> None:
    servers = {"good": write_command(), "missing": MISSING, "unset": UNSET}
    async with connect_gateway(tmp_path, servers) as client:
        assert "bridge://status" in [str(item.uri) for item in (await client.list_resources()).resources]
        rows = await read_status(client)
    assert rows["good"]["state"] == "ready"
    assert rows["good"]["tools"] == 1
    assert rows["good"]["server"]
    assert (rows["missing"]["state"], rows["missing"]["reason"]) == ("broken", NOT_FOUND)
    assert rows["missing"]["failures"] > 0
    assert rows["unset"]["state"] == "broken"
    assert "the environment variable NOT_SET_ANYWHERE is not set" in rows["unset"]["reason"]


async def test_a_bridge_without_servers_has_no_status(tmp_path: Path) -> None:
    async with connect_gateway(tmp_path, {}, name="empty") as client:
        assert [str(item.uri) for item in (await client.list_resources()).resources] == []


async def test_health_has_the_states_without_reasons(tmp_path: Path) -> None:
    app = asgi_app(build_gateway(tmp_path, {"good": write_command(), "missing": MISSING}))
    async with app.lifespan(), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        with anyio.fail_after(TIMEOUT):
            address = "http://127.0.0.1/health"
            while (health := (await http.get(address)).json())["sources"]["good"] != "ready":  # noqa: ASYNC110 - polled
                await anyio.sleep(0.02)
    assert health == {"status": "ok", "sources": {"good": "ready", "missing": "broken"}}


async def test_health_has_no_names_of_servers_for_clients_without_a_token(tmp_path: Path) -> None:
    app = asgi_app(build_gateway(tmp_path, {"missing": MISSING}), token="a-token-of-this-test")
    async with app.lifespan(), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        assert (await http.get("http://127.0.0.1/health")).json() == {"status": "ok"}


async def test_the_status_has_no_secrets(tmp_path: Path) -> None:
    bridge = build_gateway(
        tmp_path, {"one": {"command": "no-such-program-s3cr3t-value", "env": {"API_KEY": "s3cr3t-value"}}}
    )
    async with connect(bridge) as client:
        assert "s3cr3t-value" not in str(await read_status(client))


def test_doctor_reports_each_server_once(tmp_path: Path) -> None:
    file = write_settings(tmp_path, {"good": write_command(), "missing": MISSING})
    process = run("doctor", file, cwd=tmp_path)
    assert process.code == 1
    assert "ok   server 'good': ready, plain 1.5, 1 tool\n" in process.out
    assert process.out.count(NOT_FOUND) == 1
    assert f"FAIL server 'missing': broken: {NOT_FOUND}" in process.out


def write_slow_command(seconds: float) -> dict[str, Any]:
    """Return the entry of a server with a start of this duration."""
    entry = write_command()
    command = [entry["command"], *entry["args"]]
    script = f"import time, subprocess, sys; time.sleep({seconds}); sys.exit(subprocess.call({command!r}))"
    return {"command": entry["command"], "args": ["-c", script]}


@pytest.mark.parametrize(("options", "tool"), [({}, "slow__echo"), ({"prefix": ""}, "echo")])
async def test_a_call_waits_for_a_server_that_is_still_starting(
    options: dict[str, Any], tool: str, tmp_path: Path
) -> None:
    async with connect_gateway(tmp_path, {"slow": {**write_slow_command(2), **options}}) as client:
        assert await list_names(client) == []
        assert await call_text(client, tool) == "hello"
        with pytest.raises(MCPError, match="Unknown tool: misspelled"):
            await client.call_tool("misspelled", {})


@pytest.mark.parametrize("listing", ["all", "search"])
async def test_a_call_to_a_server_that_never_started_fails_with_the_reason(tmp_path: Path, listing: str) -> None:
    servers = {"good": write_command(), "missing": MISSING, "unset": UNSET}
    async with connect_gateway(tmp_path, servers, tool_search={"above": 0 if listing == "search" else 9}) as client:
        missing = await call_by_name(client, listing, "missing__echo")
        assert missing == f"The server 'missing' is not available: {NOT_FOUND}. Retry later."
        assert "the environment variable NOT_SET_ANYWHERE is not set" in await call_by_name(
            client, listing, "unset__echo"
        )
        with pytest.raises(MCPError, match="Unknown tool: good__other"):
            await client.call_tool("good__other", {})


async def call_by_name(client: Client, listing: str, name: str) -> str:
    """Call a tool directly, or through a search; return the text of the error."""
    called = {"name": name, "arguments": {}}
    result = await client.call_tool(*(("call_tool", called) if listing == "search" else (name, {})))
    assert result.is_error
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def test_commands_wait_for_servers_that_start_slowly(tmp_path: Path) -> None:
    file = write_settings(tmp_path, {"slow": write_slow_command(2), "missing": MISSING})
    assert "slow__echo" in run("list", file, cwd=tmp_path).out
    call = run("call", file, "slow__echo", "text=hello", cwd=tmp_path)
    assert call.out == "hello\n"
    assert NOT_FOUND in call.err
    # A slow start is not an error.
    assert "still starting" not in call.err
    assert "slow__echo" in run("export", "tools", "openai", file, cwd=tmp_path).out


def test_doctor_does_not_report_a_chain_that_waited_for_its_server(tmp_path: Path) -> None:
    settings = {
        "sources": [{"type": "mcp", "name": "slow", **write_slow_command(2)}],
        "chains": {"greet": {"steps": [{"tool": "slow__echo", "input": {"text": {"value": "hello"}}}]}},
    }
    (tmp_path / "b.json").write_text(json.dumps(settings))
    process = run("doctor", "b.json", cwd=tmp_path)
    assert "ok   server 'slow': ready" in process.out
    assert "FAIL" not in process.out
    assert process.code == 0
