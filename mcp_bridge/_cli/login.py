"""`login`: lets the user sign in to a server over HTTP in the browser.

The authorization server redirects the browser to a listener on this machine, with the code (RFC 8252, section 7.3).
"""

from __future__ import annotations

import os
import threading
import webbrowser
from typing import Any
from urllib.parse import parse_qs

import anyio
from anyio.abc import SocketAttribute, SocketStream

from mcp_bridge._cli.options import LoginOptions
from mcp_bridge._cli.output import print_lines, report
from mcp_bridge._cli.server_address import check_url, is_url
from mcp_bridge._cli.target import find_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._engine.plugins import load_source_type
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._settings import load, parse_options
from mcp_bridge._sources.upstream.options import UpstreamOptions
from mcp_bridge._sources.upstream.source import UpstreamSource

MAX_REQUEST = 16 * 1024
"""The maximum number of bytes of a request that the listener reads."""
SIGN_IN_TIMEOUT = 300.0
"""Seconds in which the user has to sign in."""
_PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nYou can close this page.\n"


def sign_in_to_server(options: LoginOptions) -> None:
    """Let the user sign in to a server at a URL or of the settings. Raises ConfigError and SourceError."""
    server = _find_server(options)
    place = anyio.run(_sign_in, server, options.keyring)
    if place:
        print_lines(f"signed in to {options.server}; the tokens are in {place}")
    else:
        print_lines(f"{options.server} can be used without signing in")


def _find_server(options: LoginOptions) -> UpstreamOptions:
    if is_url(options.server):
        check_url(options.server)
        return UpstreamOptions(url=options.server, auth="oauth")
    file = find_settings(options.file, "the URL of the server, or its name and the settings file")
    servers: dict[str, UpstreamOptions] = {}
    for source in load(file, os.environ).sources:
        if load_source_type(source.type) is UpstreamSource:
            upstream = parse_options(UpstreamOptions, source)
            servers[source.name or UpstreamSource.choose_name(upstream)] = upstream
    server = servers.get(options.server)
    if server is None:
        names = ", ".join(sorted(servers)) or "none"
        raise ConfigError(f"there is no server '{options.server}'", path=str(file), hint=f"Servers: {names}")
    if server.auth is None or server.url is None:
        hint = "Set `auth: oauth`, which works for servers with a `url`"
        raise ConfigError(f"the server '{options.server}' does not use OAuth", path=str(file), hint=hint)
    return server


async def _sign_in(server: UpstreamOptions, use_keyring: bool) -> str:
    from mcp_bridge._upstream.oauth import sign_in

    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener:
        port = listener.extra_attributes[SocketAttribute.local_port]()

        async def receive_code() -> dict[str, str]:
            return await _receive_code(listener)

        return await sign_in(
            server.url or "",
            f"http://127.0.0.1:{port}/callback",
            _open_page,
            receive_code,
            transport=server.transport,
            use_keyring=use_keyring,
        )


async def _open_page(url: str) -> None:
    report("Sign in on this page:", f"  {url}")
    # Some browsers return only when the user has signed in, and meanwhile the callback has to be served.
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


async def _receive_code(listener: Any) -> dict[str, str]:
    """Return the query of the authorization server's redirect to the callback."""
    queries: list[dict[str, str]] = []

    async def handle(stream: SocketStream) -> None:
        async with stream:
            query = await _read_query(stream)
            await stream.send(_PAGE)
        if query.keys() & {"code", "error"}:
            queries.append(query)
            tasks.cancel_scope.cancel()

    with anyio.fail_after(SIGN_IN_TIMEOUT):
        async with anyio.create_task_group() as tasks:
            await listener.serve(handle, tasks)
    return queries[0]


async def _read_query(stream: SocketStream) -> dict[str, str]:
    """Return the query of a request to the callback, or an empty one for any other request."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < MAX_REQUEST:
        try:
            data += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return {}
    words = data.partition(b"\r\n")[0].decode("latin-1").split(" ")
    url = split_url(words[1] if len(words) == 3 else "")
    # Browsers also ask for other pages, such as an icon.
    if url.path != "/callback":
        return {}
    return {name: values[0] for name, values in parse_qs(url.query).items()}
