"""The HTTP client: its addresses, its redirects, and its limits."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from mcp_bridge._runtime.http_client.addresses import AddressPolicy, parse_networks
from mcp_bridge._runtime.http_client.client import HttpClient
from mcp_bridge._runtime.http_client.requests import AddressRejected, ApiRequest, ServerUnreachable
from tests.kits.certificates import make_certificate
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.openapi.api_server import ApiServer, Received, Reply, run_api

TLS = ssl.create_default_context()
NAME = "api.test"


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with run_api() as server:
        yield server


@asynccontextmanager
async def open_client(*networks: str, tls: ssl.SSLContext = TLS, max_body: int = 10_000) -> AsyncIterator[HttpClient]:
    client = HttpClient(AddressPolicy(parse_networks(networks)), max_body=max_body, tls=tls)
    try:
        yield client
    finally:
        await client.close()


class NameServer:
    """Resolves api.test: each time to the next of these addresses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *addresses: list[str]) -> None:
        self.addresses = list(addresses)
        self.asked = 0
        original = socket.getaddrinfo

        def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
            if host not in (NAME, NAME.encode()):
                return original(host, port, *args, **kwargs)
            self.asked += 1
            entries = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
            return [entry for request in entries for entry in original(request, port, *args, **kwargs)]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)


def get(url: str, **rest: Any) -> ApiRequest:
    return ApiRequest("GET", url, **rest)


@BOTH_LOOPS
async def test_a_name_is_resolved_once_and_connected_to_the_checked_address(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = NameServer(monkeypatch, ["127.0.0.1"], ["10.255.255.1"])
    port = api.url.rpartition(":")[2]
    async with open_client("loopback") as client:
        response = await client.fetch_response(get(f"http://{NAME}:{port}/x"))
        second_response = await client.fetch_response(get(f"http://{NAME}:{port}/y"))
    assert (response.status, second_response.status, names.asked) == (200, 200, 1)
    assert api.received[0].headers["host"] == f"{NAME}:{port}"


async def test_only_allowed_addresses_of_a_name_are_used(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # No server listens at the second address.
    NameServer(monkeypatch, ["10.255.255.1", "127.0.0.2", "127.0.0.1"])
    async with open_client("127.0.0.0/30") as client:
        assert (await client.fetch_response(get(f"http://{NAME}:{api.url.rpartition(':')[2]}/"))).status == 200


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "0x7f.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0",
     "169.254.169.254", "10.0.0.1", "[fe80::1]"],
)  # fmt: skip
async def test_addresses_that_are_not_public_are_rejected_without_a_connection(host: str, api: ApiServer) -> None:
    port = api.url.rpartition(":")[2]
    async with open_client() as client:
        for scheme in ("http", "https"):
            with pytest.raises(AddressRejected, match="are not public, and the settings do not allow them"):
                await client.fetch_response(get(f"{scheme}://{host}:{port}/"))
    assert api.received == []


async def test_public_addresses_are_only_used_with_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    NameServer(monkeypatch, ["93.184.215.14"])
    async with open_client() as client:
        with pytest.raises(AddressRejected, match="is only reached without encryption"):
            await client.fetch_response(get(f"http://{NAME}/"))


@pytest.mark.parametrize("target", ["http://10.0.0.1/", "http://169.254.169.254/latest", "//[fd00::1]/", "ftp://x/"])
async def test_redirects_are_checked_again(target: str, api: ApiServer) -> None:
    api.reply = Reply(status=302, headers={"location": target})
    async with open_client("loopback") as client:
        with pytest.raises((AddressRejected, ServerUnreachable)):
            await client.fetch_response(get(f"{api.url}/x"))
    assert len(api.received) == 1


async def test_a_redirect_to_another_origin_gets_no_credentials(api: ApiServer) -> None:
    with run_api() as other_api:
        api.reply = lambda received: Reply(
            status=307, headers={"location": "/b" if received.path == "/a" else f"{other_api.url}/c"}
        )
        request = get(
            f"{api.url}/a",
            headers={"accept": "text/plain", "x-user": "ann", "cookie": "a=b"},
            secret_headers={"authorization": "Bearer t", "x-key": "k"},
            secret_query="key=k",
        )
        async with open_client("loopback") as client:
            response = await client.fetch_response(request)
        assert response.url == f"{other_api.url}/c"
        first, second = api.received
        assert first.target == "/a?key=k"
        assert second.headers["authorization"] == first.headers["authorization"] == "Bearer t"
        (foreign,) = other_api.received
    assert foreign.headers["accept"] == "text/plain"
    assert not {"authorization", "x-key", "x-user", "cookie"} & set(foreign.headers)
    assert foreign.target == "/c"


async def test_only_the_same_origin_gets_the_body_again(api: ApiServer) -> None:
    with run_api() as other_api:
        api.reply = lambda received: Reply(
            status=307, headers={"location": "/b" if received.path == "/a" else f"{other_api.url}/c"}
        )
        request = get(f"{api.url}/a", headers={"content-type": "text/plain"}, content=b"query")
        async with open_client("loopback") as client:
            assert (await client.fetch_response(request)).status == 200
        assert [one.body for one in api.received] == [b"query", b"query"]
        (foreign,) = other_api.received
    assert foreign.body == b""
    assert not {"content-length", "content-type"} & set(foreign.headers)


async def test_redirects_of_other_methods_are_not_followed(api: ApiServer) -> None:
    api.reply = Reply(status=307, headers={"location": "/b"})
    async with open_client("loopback") as client:
        response = await client.fetch_response(ApiRequest("POST", f"{api.url}/a", content=b"x"))
    assert (response.status, len(api.received)) == (307, 1)


async def test_slow_requests_leave_connections_for_others() -> None:
    waiting, everyone = list[SocketStream](), anyio.Event()

    async def respond(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            waiting.append(stream)
            if len(waiting) == 120:
                everyone.set()
            await everyone.wait()
            await stream.send(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=256)
    url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/"
    async with listener, open_client("loopback") as client, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, respond)
        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as requests:
                for _ in range(120):
                    requests.start_soon(client.fetch_response, get(url))
        tasks.cancel_scope.cancel()


async def test_the_number_of_redirects_is_limited(api: ApiServer) -> None:
    api.reply = Reply(status=302, headers={"location": "/again"})
    async with open_client("loopback") as client:
        with pytest.raises(ServerUnreachable, match="redirects more than 5 times"):
            await client.fetch_response(get(api.url))


@pytest.mark.parametrize("size", [999, 1000, 1001, 5_000_000])
async def test_a_body_is_read_up_to_the_limit(size: int, api: ApiServer) -> None:
    api.reply = Reply(b"x" * size)
    async with open_client("loopback", max_body=1000) as client:
        response = await client.fetch_response(get(api.url))
        assert (len(response.body), response.is_truncated) == (min(size, 1000), size > 1000)
        api.reply = Reply(b"next")
        assert (await client.fetch_response(get(api.url))).body == b"next"


async def test_proxies_of_the_environment_are_not_used(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    async with open_client("loopback") as client:
        assert (await client.fetch_response(get(api.url))).status == 200


async def test_errors_have_no_url(api: ApiServer) -> None:
    async with open_client("loopback") as client:
        for url in ("http://127.0.0.1:9/secret?key=secret", "http://nowhere.invalid/secret", "http://[/secret"):
            with pytest.raises((AddressRejected, ServerUnreachable)) as caught:
                await client.fetch_response(get(url))
            assert "secret" not in str(caught.value)


async def test_a_cancelled_request_leaves_the_client_usable(api: ApiServer) -> None:
    arrived = anyio.Event()
    token = anyio.lowlevel.current_token()
    import threading

    release = threading.Event()

    def wait(request: Received) -> Reply:
        anyio.from_thread.run_sync(arrived.set, token=token)
        release.wait(60)
        return Reply()

    api.reply = wait
    async with open_client("loopback") as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.fetch_response, get(api.url))
            await arrived.wait()
            tasks.cancel_scope.cancel()
        release.set()
        api.reply = Reply(b"after")
        assert (await client.fetch_response(get(api.url))).body == b"after"


@pytest.mark.parametrize(("name", "is_right"), [(NAME, True), ("other.test", False)])
async def test_tls_is_verified_for_the_name_although_the_connection_goes_to_an_address(
    name: str, is_right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NameServer(monkeypatch, ["127.0.0.1"])
    server_tls, client_tls = make_certificate(tmp_path, name)
    with run_api(server_tls) as server:
        url = f"https://{NAME}:{server.url.rpartition(':')[2]}/x"
        async with open_client("loopback", tls=client_tls) as client:
            if is_right:
                assert (await client.fetch_response(get(url))).status == 200
            else:
                with pytest.raises(ServerUnreachable, match="Hostname mismatch"):
                    await client.fetch_response(get(url))


async def test_a_redirect_never_leads_from_https_to_http(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NameServer(monkeypatch, ["127.0.0.1"])
    server_tls, client_tls = make_certificate(tmp_path, NAME)
    with run_api(server_tls) as server:
        server.reply = Reply(status=302, headers={"location": api.url})
        async with open_client("loopback", tls=client_tls) as client:
            with pytest.raises(ServerUnreachable, match="redirects from https to an address without encryption"):
                await client.fetch_response(get(f"https://{NAME}:{server.url.rpartition(':')[2]}/x"))
    assert api.received == []
