"""The start of serving, and its rejected configurations: addresses, ports and tokens."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters

from mcp_bridge import asgi_app
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._app.serve import serve_http, split_address, to_bridge
from mcp_bridge._contracts.source import Publish, Source
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.app import HttpOptions
from mcp_bridge._transports.http.server import format_address, listen
from mcp_bridge.errors import ConfigError
from mcp_bridge.sources import Offer
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import HTTP_WAYS, HttpWay, build_registry, make_entry, make_stateless_request
from tests.kits.http.http_process import fail_to_start, get_command, run_http_server


@pytest.fixture
def used_port() -> Iterator[int]:
    """Yield a port in use."""
    with socket.create_server(("127.0.0.1", 0)) as bound_socket:
        yield bound_socket.getsockname()[1]


def test_an_address_that_others_can_reach_needs_a_token(tmp_path: Path) -> None:
    code, stderr = fail_to_start(tmp_path, "tools.py", "--http", "0.0.0.0:0")
    assert code == 2
    assert "--token-env" in stderr
    assert "Traceback" not in stderr
    with pytest.raises(ConfigError, match="token"):
        listen("::", 0, has_token=False)


def test_settings_that_open_the_server_to_others_need_a_token_too(tmp_path: Path) -> None:
    (tmp_path / "open.yaml").write_text("http: {host: 0.0.0.0, port: 0}\nsources: [{type: python, path: tools.py}]\n")
    code, stderr = fail_to_start(tmp_path, "open.yaml", "--http", "settings")
    assert (code, "--token-env" in stderr) == (2, True)


async def test_with_a_token_any_address_is_served_and_the_token_is_never_logged(tmp_path: Path) -> None:
    token = "only-in-the-environment"
    argv = get_command("tools.py", "--http", "0.0.0.0:0", "--token-env", "MY_TOKEN", "--log-level", "debug")
    async with run_http_server(tmp_path, argv, {"MY_TOKEN": token}) as server:
        base = server.base.replace("0.0.0.0", "127.0.0.1")
        async with HttpWay("http", "auto").connect(base, token=token) as client:
            assert (await client.call_tool("there", {})).content[0].text == "there"  # type: ignore[union-attr]
        async with httpx2.AsyncClient(timeout=TIMEOUT) as http:
            answer = await http.post(f"{base}/mcp", **make_stateless_request("tools/list"))
        assert answer.status_code == 401
        assert token not in answer.text
        assert token not in server.stderr


def test_the_error_for_a_port_in_use_names_it(used_port: int, tmp_path: Path) -> None:
    code, stderr = fail_to_start(tmp_path, "tools.py", "--http", f"127.0.0.1:{used_port}")
    assert code == 2
    assert str(used_port) in stderr
    assert "another port" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("value", [None, ""])
def test_the_error_for_an_unset_token_variable_names_it(value: str | None, tmp_path: Path) -> None:
    env = {} if value is None else {"NO_SUCH_TOKEN": value}
    code, stderr = fail_to_start(tmp_path, "tools.py", "--http", "127.0.0.1:0", "--token-env", "NO_SUCH_TOKEN", **env)
    assert code == 2
    assert "NO_SUCH_TOKEN" in stderr


def test_the_error_for_an_invalid_address_has_an_example(tmp_path: Path) -> None:
    code, stderr = fail_to_start(tmp_path, "tools.py", "--http", "somewhere")
    assert (code, "--http 8808" in stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(8808, ("127.0.0.1", 8808)), ("8808", ("127.0.0.1", 8808)), (":0", ("127.0.0.1", 0)),
     ("localhost:1", ("localhost", 1)), ("[::1]:8808", ("::1", 8808))],
)  # fmt: skip
def test_addresses_are_parsed_in_every_usual_form(text: str | int, expected: tuple[str, int]) -> None:
    assert split_address(text) == expected


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "localhost:http", "1.5", "-1"])
def test_invalid_addresses_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        split_address(text)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".example", "256.0.0.1"])
def test_an_unknown_host_is_an_error_in_the_settings(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        listen(host, 0, has_token=True)


def test_an_invalid_port_is_an_error_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="70000"):
        listen("127.0.0.1", 70000, has_token=False)


def test_an_ipv6_address_is_served_and_written_in_brackets() -> None:
    try:
        bound = listen("::1", 0, has_token=False)
    except ConfigError:
        pytest.skip("this machine has no IPv6")
    with bound:
        assert format_address(bound) == f"http://[::1]:{bound.getsockname()[1]}"


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not for Windows")
async def test_all_transports_are_served_on_uvloop(tmp_path: Path) -> None:
    (tmp_path / "uvloop.yaml").write_text("event_loop: uvloop\nsources: [{type: python, path: tools.py}]\n")
    async with run_http_server(tmp_path, get_command("uvloop.yaml", "--http", "127.0.0.1:0")) as server:
        for way in HTTP_WAYS:
            async with way.connect(server.base) as client:
                assert (await client.call_tool("there", {})).content[0].text == "there"  # type: ignore[union-attr]


class Twice(Source):
    """A source with an existing name."""

    async def run(self, publish: Publish) -> None:
        publish(Offer(tools=[make_entry("same")]))
        await anyio.sleep_forever()


async def test_a_failed_start_raises_and_releases_the_port() -> None:
    bridge = Bridge(sources=[AttachedSource(source=Twice("one")), AttachedSource(source=Twice("two"))])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with anyio.fail_after(TIMEOUT), pytest.raises(ConfigError, match="same"):
        await serve_http(bridge, "127.0.0.1", port, HttpOptions(access=Access()), lambda url: None)
    with listen("127.0.0.1", port, has_token=False):
        pass


async def test_cancelled_serving_ends_cleanly_and_releases_the_port() -> None:
    bridge = Bridge(build_registry(make_entry("there")))
    urls: list[str] = []
    up = anyio.Event()

    def announce(url: str) -> None:
        urls.append(url)
        up.set()

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_http, bridge, "127.0.0.1", 0, HttpOptions(), announce)
            await up.wait()
            async with httpx2.AsyncClient(timeout=TIMEOUT) as http, http.stream("GET", f"{urls[0]}/sse") as stream:
                assert stream.status_code == 200
                tasks.cancel_scope.cancel()
                with contextlib.suppress(anyio.get_cancelled_exc_class()):
                    await anyio.sleep_forever()
    with listen("127.0.0.1", int(urls[0].rpartition(":")[2]), has_token=False):
        pass


async def test_without_http_the_library_serves_stdio(tmp_path: Path) -> None:
    program = (
        "from mcp_bridge import ToolEntry, ToolRegistry, serve\n"
        "registry = ToolRegistry()\n"
        "registry.register(ToolEntry('there', 'Be there.', lambda data: 'there', {'type': 'object'}))\n"
        "serve(registry)\n"
    )
    server = StdioServerParameters(command=sys.executable, args=["-c", program], env=dict(os.environ), cwd=tmp_path)
    with anyio.fail_after(TIMEOUT):
        async with Client(server) as client:
            assert (await client.call_tool("there", {})).content[0].text == "there"  # type: ignore[union-attr]


def test_a_bridge_or_a_registry_can_be_served() -> None:
    registry = build_registry(make_entry("there"))
    bridge = Bridge(registry)
    assert to_bridge(bridge) is bridge
    assert to_bridge(registry).registry is registry
    assert asgi_app(bridge).endpoint is bridge.endpoint
