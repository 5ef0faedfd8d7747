"""The two eras as bytes: how a request is written and a response is read."""

from dataclasses import dataclass
from enum import StrEnum

import orjson

from benchmarks.workloads import NUMBER

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Era(StrEnum):
    """Which protocol a session speaks."""

    MODERN = "modern"
    HANDSHAKE = "handshake"

    @property
    def version(self):
        return "2026-07-28" if self is Era.MODERN else "2025-11-25"


class WrongResponse(Exception):
    """A response does not belong to the request, or is an error."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is ready to be sent: its method, the value of the header Mcp-Name (or ""), its JSON."""

    method: str
    name: str
    body: bytes


def make_request(era, number, method, params=None):
    """Return a request of `era` with `number` as its id."""
    params = dict(params or {})
    name = params.get("name") or params.get("uri", "")
    if era is Era.MODERN:
        params["_meta"] = META
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return Message(method, name, orjson.dumps(body))


def make_initialize(number):
    """Return the first request of the handshake era."""
    params = {
        "protocolVersion": Era.HANDSHAKE.version,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }
    return make_request(Era.HANDSHAKE, number, "initialize", params)


def make_initialized():
    """Return the notification that ends the handshake."""
    return Message("notifications/initialized", "", b'{"jsonrpc":"2.0","method":"notifications/initialized"}')


class Requests:
    """The requests of one workload. Only the number differs, so writing one is cheap."""

    def __init__(self, era, workload):
        message = make_request(era, NUMBER, workload.method, workload.params)
        self.method, self.name = message.method, message.name
        self._workload = workload
        # A value that is NUMBER alone, such as the id, becomes a number.
        self._template = message.body.decode().replace(f'"{NUMBER}"', NUMBER)

    def make_body(self, number):
        """Return the JSON of request `number`."""
        return (self._template % {"number": number}).encode()

    def check_response(self, response):
        """Return the number of the request that `response` belongs to.

        Raises WrongResponse if it is an error, or if its result is that of another request.
        """
        try:
            number, result = response["id"], response["result"]
            value = result
            for key in self._workload.path:
                value = value[key]
            is_right = value == self._workload.expected % {"number": number} and not result.get("isError")
        except (LookupError, TypeError):
            is_right = False
        if not is_right:
            excerpt = orjson.dumps(response)[:400].decode(errors="replace")
            raise WrongResponse(f"unexpected response to {self.method} {self.name}: {excerpt}")
        return number


def get_result(response):
    """Return the result in `response`. Raises WrongResponse if it is an error."""
    if "result" not in response:
        raise WrongResponse(f"an error instead of a result: {orjson.dumps(response)[:400].decode(errors='replace')}")
    return response["result"]


def make_http_head(era, path, host, session=""):
    """Return the header lines of every POST of a session."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"MCP-Protocol-Version: {era.version}",
    ]
    if session:
        lines.append(f"Mcp-Session-Id: {session}")
    return "\r\n".join(lines)


def make_http_post(era, head, method, name, body):
    """Return a complete POST. In the modern era, headers repeat the method and the name."""
    routing = ""
    if era is Era.MODERN:
        routing = f"\r\nMcp-Method: {method}"
        if name:
            routing += f"\r\nMcp-Name: {name}"
    return f"{head}{routing}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def parse_http_body(content_type, body):
    """Return the JSON-RPC messages in the body of an HTTP response, a JSON document or an event stream."""
    if not body:
        return []
    if not content_type.startswith("text/event-stream"):
        return [orjson.loads(body)]
    messages = []
    for line in body.splitlines():
        data = line[5:].strip()
        if line.startswith(b"data:") and data:
            messages.append(orjson.loads(data))
    return messages
