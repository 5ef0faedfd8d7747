"""A server over HTTP that requires tokens, and its authorization server, in one process.

`/mcp` is Streamable HTTP, `/sse` the older transport.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

TOOL = {"name": "read", "description": "Read.", "inputSchema": {"type": "object"}}


@dataclass
class OAuthServer:
    """The issued tokens and received requests of the server.

    `lifetime` is that of new tokens. With `is_open`, no token is needed. `challenge` is the header of responses with
    the status 401.
    """

    base: str = ""
    lifetime: int = 3600
    is_open: bool = False
    challenge: str = "Bearer"
    rejects_refreshes: bool = False
    refreshes: int = 0
    paths: list[str] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    authorizations: list[str] = field(default_factory=list)
    events: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)

    def respond(self, path: str, body: bytes, authorization: str) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and JSON."""
        self.paths.append(path)
        url = urlsplit(path)
        if url.path.startswith("/.well-known/oauth-protected-resource"):
            path = url.path.removeprefix("/.well-known/oauth-protected-resource") or "/mcp"
            return 200, {}, {"resource": f"{self.base}{path}", "authorization_servers": [self.base]}
        if url.path.startswith("/.well-known/oauth-authorization-server"):
            places = {name: f"{self.base}/auth/{name}" for name in ("authorize", "token", "register")}
            return 200, {}, {
                "issuer": self.base,
                "authorization_endpoint": places["authorize"],
                "token_endpoint": places["token"],
                "registration_endpoint": places["register"],
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }  # fmt: skip
        if url.path == "/auth/register":
            return 201, {}, {**json.loads(body), "client_id": "bridge", "token_endpoint_auth_method": "none"}
        if url.path == "/auth/authorize":
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            return 302, {"location": f"{query['redirect_uri']}?{urlencode({'code': 'c', 'state': query['state']})}"}, {}
        if url.path == "/auth/token":
            grant = parse_qs(body.decode())["grant_type"][0]
            if grant == "refresh_token" and self.rejects_refreshes:
                return 400, {}, {"error": "invalid_grant"}
            return 200, {}, self.issue_token(grant)
        if url.path == "/mcp":
            return self.respond_to_client(json.loads(body), authorization)
        if url.path == "/messages":
            status, headers, data = self.respond_to_client(json.loads(body), authorization)
            if status == 200:
                self.events.put(f"event: message\ndata: {json.dumps(data)}\n\n")
            return (202 if status == 200 else status), headers, {}
        return 404, {}, {}

    def issue_token(self, grant: str) -> dict[str, Any]:
        """Return new tokens; the old ones are not valid any more."""
        self.refreshes += grant == "refresh_token"
        token = f"issued-token-{len(self.issued)}-f81c"
        self.issued.append(token)
        self.valid = {token}
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime, "refresh_token": "again-77"}

    def respond_to_client(self, request: dict[str, Any], authorization: str) -> tuple[int, dict[str, str], Any]:
        """Serve MCP to clients with a valid token."""
        self.authorizations.append(authorization)
        if not self.is_open and authorization.removeprefix("Bearer ") not in self.valid:
            return 401, {"www-authenticate": self.challenge}, {}
        info = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "o", "version": "1"},
        }
        results = {"initialize": info, "tools/list": {"tools": [TOOL]}, "ping": {}}
        results["tools/call"] = {"content": [{"type": "text", "text": json.dumps({"authorization": authorization})}]}
        if "id" not in request:
            return 202, {}, {}
        head = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] not in results:
            return 200, {}, {**head, "error": {"code": -32601, "message": "unknown"}}
        return 200, {}, {**head, "result": results[request["method"]]}


@contextlib.contextmanager
def run_oauth_server() -> Iterator[OAuthServer]:
    """Run the server in a thread."""
    state = OAuthServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, headers, data = state.respond(self.path, body, self.headers.get("authorization") or "")
            text = json.dumps(data).encode()
            self.send_response(status)
            for name, value in {**headers, "content-type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            if self.path == "/mcp":
                self.send_error(405)
            elif self.path == "/sse":
                self.send_events()
            else:
                self.do_POST()

        def send_events(self) -> None:
            authorization = self.headers.get("authorization") or ""
            if authorization.removeprefix("Bearer ") not in state.valid:
                self.send_response(401)
                self.send_header("www-authenticate", "Bearer")
                self.send_header("content-length", "0")
                self.end_headers()
                return
            state.events = queue.SimpleQueue()
            state.events.put("event: endpoint\ndata: /messages\n\n")
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(state.events.get().encode())

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    state.base = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
