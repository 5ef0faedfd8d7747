"""Programs in a sandbox reach the hosts of the settings, and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpcore2
import psutil
import pytest
from mcp.client import Client

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.egress.script import PORT
from tests.kits.certificates import make_certificate
from tests.kits.cli.cli_running import RunningCommand
from tests.kits.commands.command_kit import build_bridge, connect_commands
from tests.kits.constants import TIMEOUT
from tests.kits.openapi.api_server import ApiServer, Reply, run_api
from tests.kits.packaging.packaging_kit import skip_or_fail
from tests.kits.processes.processes_kit import find_processes, make_token, wait_until_gone
from tests.kits.sandbox.sandbox_kit import needs_bubblewrap
from tests.kits.survival.survival_kit import FIRST_WAY, run_server
from tests.kits.upstream.upstream_kit import call_text, run_source, wait_for_state, write_command
from tests.kits.waiting import wait_until
from tests.kits.wire.speaking import call, get_text

pytestmark = needs_bubblewrap

COMMIT = "0123456789abcdef0123456789abcdef01234567"
URLLIB = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
"""
HTTPX = f"""
import sys
sys.path.append({str(Path(httpcore2.__file__).parent.parent)!r})
import httpx2
print(httpx2.get(sys.argv[1], timeout=60).text)
"""
CONNECT = """
import socket, sys
host, _, port = sys.argv[-1].rpartition(":")
socket.create_connection((host, int(port)), 30)
print("connected")
"""
HOLD = """
import socket, sys, time
tunnel = socket.create_connection(("127.0.0.1", 3128))
tunnel.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n".encode())
print(tunnel.recv(1000).decode(), file=sys.stderr, flush=True)
time.sleep(600)
"""
WORKER_TOOL = """
import urllib.request
from mcp_bridge import tool

@tool
def fetch(url: str) -> str:
    return urllib.request.urlopen(url, timeout=60).read().decode()
"""
CLIENTS = {
    "curl": ["curl", "-sS", "{url}"],
    "git": ["git", "ls-remote", "{url}"],
    "urllib": [sys.executable, "-c", URLLIB, "{url}"],
    "httpx": [sys.executable, "-c", HTTPX, "{url}"],
    "connect": [sys.executable, "-c", CONNECT, "{url}"],
}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with run_api() as running:
        yield running


def get_port(server: ApiServer) -> str:
    return server.url.rpartition(":")[2]


def check_client(client: str, config: pytest.Config) -> None:
    """Skip the test if a client is not installed."""
    if not shutil.which(CLIENTS[client][0]):
        skip_or_fail(config, f"NOT TESTED, {client} is not installed")


@contextlib.asynccontextmanager
async def connect_client(
    folder: Path, client: str, *hosts: str, env: dict[str, str] | None = None, **sandbox: Any
) -> AsyncIterator[Client]:
    """Serve a program of CLIENTS, in a sandbox in which these hosts can be reached."""
    tool = {"command": CLIENTS[client], "parameters": {"url": "string"}}
    sandbox = {"network": list(hosts), **sandbox}
    async with connect_commands(folder, {"t": tool}, env=env or {}, sandbox=sandbox) as connected:
        yield connected


@pytest.mark.parametrize("client", ["curl", "git", "urllib", "httpx"])
async def test_a_client_of_https_reaches_a_listed_host_and_no_other(
    client: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    check_client(client, pytestconfig)
    tls, _ = make_certificate(tmp_path, "localhost")
    certificate = str(tmp_path / "certificate.pem")
    env = {"SSL_CERT_FILE": certificate, "CURL_CA_BUNDLE": certificate, "GIT_SSL_CAINFO": certificate}
    with run_api(tls) as server:
        server.reply = Reply(f"{COMMIT}\trefs/heads/main\n".encode())
        port = get_port(server)
        options: dict[str, Any] = {"read": ["certificate.pem"], "allow_addresses": ["loopback"]}
        async with connect_client(tmp_path, client, f"localhost:{port}", env=env, **options) as connected:
            assert COMMIT in get_text(await call(connected, "t", url=f"https://localhost:{port}/"))
            count = len(server.received)
            result = await call(connected, "t", url=f"https://evil.example:{port}/")
            assert result["isError"]
            assert "403" in get_text(result)
            assert f"evil.example:{port} is not listed in the sandbox's network setting" in get_text(result)
        assert len(server.received) == count > 0


@pytest.mark.parametrize("client", ["curl", "urllib", "httpx"])
async def test_a_denied_http_request_is_explained(client: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    check_client(client, pytestconfig)
    async with connect_client(tmp_path, client, "*.example.com") as connected:
        text = get_text(await call(connected, "t", url="http://evil.example/?key=secret"))
    assert "evil.example:80 is not listed in the sandbox's network setting" in text
    assert "secret" not in text


async def test_case_and_a_dot_at_the_end_of_a_name_do_not_matter(tmp_path: Path, server: ApiServer) -> None:
    port = get_port(server)
    async with connect_client(tmp_path, "urllib", f"LOCALHOST.:{port}", allow_addresses=["loopback"]) as connected:
        for host in ("localhost", "LocalHost", "localhost."):
            assert get_text(await call(connected, "t", url=f"http://{host}:{port}/")) == "{}"


async def test_a_listed_address_is_reached_by_its_number(tmp_path: Path, server: ApiServer) -> None:
    async with connect_client(tmp_path, "urllib", f"127.0.0.1:{get_port(server)}") as connected:
        assert get_text(await call(connected, "t", url=f"{server.url}/")) == "{}"


async def test_a_listed_name_leads_to_this_machine_only_if_the_settings_allow_it(
    tmp_path: Path, server: ApiServer
) -> None:
    url = f"http://localhost:{get_port(server)}/"
    async with connect_client(tmp_path, "urllib", f"localhost:{get_port(server)}") as connected:
        text = get_text(await call(connected, "t", url=url))
    assert "the addresses of localhost" in text
    assert "are not public" in text
    assert server.received == []


async def test_connections_that_bypass_the_proxy_fail(tmp_path: Path, server: ApiServer) -> None:
    port = get_port(server)
    options: dict[str, Any] = {"allow_addresses": ["loopback"]}
    async with connect_client(tmp_path, "connect", f"localhost:{port}", **options) as connected:
        assert "refused" in get_text(await call(connected, "t", url=f"127.0.0.1:{port}"))
        assert "unreachable" in get_text(await call(connected, "t", url="192.0.2.1:443"))
        assert "gaierror" in get_text(await call(connected, "t", url="example.com:443"))
        assert get_text(await call(connected, "t", url=f"127.0.0.1:{PORT}")) == "connected"


async def test_a_program_has_no_network_after_its_proxy_was_killed(tmp_path: Path) -> None:
    script = f"""
import os, time
print("started", flush=True)
while not os.path.exists("killed"):
    time.sleep(0.02)
{CONNECT}
"""
    token, result = make_token(), dict[str, Any]()
    command = [sys.executable, "-c", script.replace("{", "{{").replace("}", "}}"), token, f"127.0.0.1:{PORT}"]
    tools, sandbox = {"t": {"command": command, "stream": "progress"}}, {"network": ["example.com"]}
    start = anyio.Event()

    async def receive(progress: float, total: float | None, message: str | None) -> None:
        start.set()

    with anyio.fail_after(TIMEOUT):
        async with connect_commands(tmp_path, tools, sandbox=sandbox) as connected, anyio.create_task_group() as tasks:

            async def call_tool() -> None:
                response = await connected.call_tool("t", {}, progress_callback=receive)
                result["text"] = str(response.content)

            tasks.start_soon(call_tool)
            await start.wait()
            (proxy,) = find_proxies(token)
            proxy.kill()
            await anyio.to_thread.run_sync(wait_until, lambda: not find_proxies(token))
            (tmp_path / "killed").touch()
    assert "refused" in result["text"]


def find_proxies(token: str) -> list[psutil.Process]:
    """Return the running proxies. Supervisors have the command line of a proxy in theirs."""
    proxies = []
    for pid in find_processes(token):
        # A process may end in the meantime.
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.cmdline()[4] == "outside":
                proxies.append(process)
    return proxies


async def test_many_connections_at_once_are_served(tmp_path: Path, server: ApiServer) -> None:
    script = """
import sys, urllib.request
from concurrent.futures import ThreadPoolExecutor

def fetch(number):
    return len(urllib.request.urlopen("%s/%d" % (sys.argv[1], number), timeout=60).read())

with ThreadPoolExecutor(100) as pool:
    print(sum(pool.map(fetch, range(300))))
"""
    tool = {"command": [sys.executable, "-c", script, server.url]}
    sandbox = {"network": [server.url.removeprefix("http://")]}
    async with connect_commands(tmp_path, {"t": tool}, sandbox=sandbox) as connected:
        assert get_text(await call(connected, "t")) == "600"
    assert {request.path for request in server.received} == {f"/{number}" for number in range(300)}


def write_holder(server: ApiServer, token: str) -> dict[str, Any]:
    """Return a tool that holds a tunnel open."""
    return {"command": [sys.executable, "-c", HOLD, f"127.0.0.1:{get_port(server)}", token], "stream": "progress"}


async def test_a_cancelled_call_ends_the_program_and_its_proxy(tmp_path: Path, server: ApiServer) -> None:
    token = make_token()
    tools, sandbox = {"t": write_holder(server, token)}, {"network": [server.url.removeprefix("http://")]}
    start = anyio.Event()

    async def receive(progress: float, total: float | None, message: str | None) -> None:
        if message is not None and "200 Connection established" in message:
            start.set()

    with anyio.fail_after(TIMEOUT):
        async with connect_commands(tmp_path, tools, sandbox=sandbox) as connected, anyio.create_task_group() as tasks:

            async def call_tool() -> None:
                await connected.call_tool("t", {}, progress_callback=receive)

            tasks.start_soon(call_tool)
            await start.wait()
            assert find_proxies(token)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(wait_until_gone, token)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_proxy_ends_with_the_bridge(number: signal.Signals, tmp_path: Path, server: ApiServer) -> None:
    token = make_token()
    sandbox = {"network": [server.url.removeprefix("http://")]}
    build_bridge(tmp_path, {"t": write_holder(server, token)}, sandbox=sandbox)
    command = RunningCommand("call", "settings.json", "t", cwd=tmp_path)
    command.wait_for("200 Connection established")
    assert find_proxies(token)
    command.process.send_signal(number)
    wait_until_gone(token)
    command.process.communicate()


async def test_a_sandbox_cannot_take_the_place_of_the_modules_of_the_proxy(tmp_path: Path, server: ApiServer) -> None:
    # The working directory of the bridge and the root of the tools may be writable for a tool.
    for module in ("h11", "asyncio", "mcp_bridge", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text("open('imported', 'w')")
    env = {"PYTHONPATH": str(tmp_path)}
    async with connect_client(tmp_path, "urllib", server.url.removeprefix("http://"), env=env) as connected:
        with contextlib.chdir(tmp_path):
            assert get_text(await call(connected, "t", url=f"http://127.0.0.1:{get_port(server)}/")) == "{}"
    assert "imported" not in os.listdir(tmp_path)


def test_workers_reach_listed_hosts_and_denials_are_logged(tmp_path: Path, server: ApiServer) -> None:
    isolation = {"sandbox": {"network": [server.url.removeprefix("http://")]}, "workers": 1}
    source = {"type": "python", "path": "own_tools.py", "isolation": isolation}
    with run_server(FIRST_WAY, tmp_path, WORKER_TOOL, {"sources": [source]}) as bridge:
        for _ in range(2):
            assert bridge.get_text("fetch", url=f"{server.url}/") == "{}"
        assert bridge.get_result("fetch", url="https://evil.example/")["isError"]
        bridge.wait_for_stderr("evil.example:443 is not listed in the sandbox's network setting")


async def test_mcp_servers_have_a_proxy_in_their_sandbox(tmp_path: Path, server: ApiServer) -> None:
    entry = write_command(sandbox={"network": ["api.example.com"]})
    async with run_source(entry, tmp_path) as (source, client):
        await wait_for_state(source, "ready")
        assert "refused" in await call_text(client, "echo", f"connect {get_port(server)}")
        assert await call_text(client, "echo", f"connect {PORT}") == "connected"


@pytest.mark.parametrize(
    ("sandbox", "problem"),
    [
        ({"network": ["https://example.com"]}, "without https:// and paths; found 'https://example.com'"),
        ({"network": ["example.com"], "allow_addresses": ["home"]}, "found 'home'"),
    ],
)
def test_settings_that_name_no_host_or_network_are_rejected(
    sandbox: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem):
        build_bridge(tmp_path, {"t": {"command": CLIENTS["curl"][:1]}}, sandbox=sandbox)


async def test_an_empty_list_is_no_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with connect_client(tmp_path, "connect") as connected:
            assert "refused" in get_text(await call(connected, "t", url=address))
            assert "refused" in get_text(await call(connected, "t", url=f"127.0.0.1:{PORT}"))
