"""A real HTTP API on this machine, and the official client of a bridge with its OpenAPI document."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mcp.client import Client

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._settings import load
from mcp_bridge.testing import connect

Json = dict[str, Any]
OK: Json = {"200": {"description": "ok"}}


@dataclass(frozen=True)
class Received:
    """A request as the server has received it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)


@dataclass(frozen=True)
class Reply:
    """A response of the server."""

    body: bytes = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    extra_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(json.dumps(value).encode(), status, {"content-type": "application/json", **extra_headers})


class ApiServer:
    """A running server. `reply` is its response to every request, or a function of the request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.reply: Reply | Callable[[Received], Reply] = Reply()
        self.received: list[Received] = []


@contextlib.contextmanager
def run_api(tls: ssl.SSLContext | None = None) -> Iterator[ApiServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Received(self.command, self.path, headers, body)
            api.received.append(request)
            reply = api.reply(request) if callable(api.reply) else api.reply
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.status != 204:
                self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            # A client may stop reading.
            with contextlib.suppress(OSError):
                self.wfile.write(b"" if self.command == "HEAD" else reply.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_OPTIONS = do_HEAD = do_PATCH = do_TRACE = handle_any

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    api = ApiServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_document(paths: Json, version: str = "3.1.0", **members: Any) -> Json:
    """Return an OpenAPI document. Operations without responses get a simple one."""
    for item in paths.values():
        for operation in item.values() if isinstance(item, dict) else ():
            if isinstance(operation, dict):
                operation.setdefault("responses", OK)
    return {"openapi": version, "info": {"title": "Test", "version": "1"}, "paths": paths, **members}


def write_settings(folder: Path, content: Json | str, **options: Any) -> Path:
    """Write a document and settings for it. Addresses of this machine are allowed by default."""
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "api.json").write_text(text, encoding="utf-8")
    source = {"type": "openapi", "document": "api.json", "allow_addresses": ["loopback"], **options}
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"sources": [source]}))
    return settings


@contextlib.asynccontextmanager
async def serve_document(folder: Path, content: Json | str, **options: Any) -> AsyncIterator[Client]:
    """Connect the official client to a bridge with a document."""
    bridge = build_from_settings(load(write_settings(folder, content, **options), {}))
    async with connect(bridge, cache=None) as client:
        yield client


async def find_problems(folder: Path, content: Json | str, **options: Any) -> list[str]:
    """Return the problems at the start of a bridge with a document."""
    bridge = build_from_settings(load(write_settings(folder, content, **options), {}))
    async with bridge.run_sources():
        with contextlib.suppress(SourceError):
            await bridge.wait_until_started()
    return [line for lines in bridge.problems.values() for line in lines]


async def list_tools(client: Client) -> dict[str, Any]:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


def get_text(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")
