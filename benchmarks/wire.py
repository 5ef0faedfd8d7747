"""The two eras as bytes: how a request is written and a reply is read."""

from dataclasses import dataclass
from enum import StrEnum

import orjson

from benchmarks.servers.offer import ECHO

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


class WrongAnswer(Exception):
    """A reply that is not the one the request asked for."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message ready to send: its method, the name it calls (or ""), its JSON."""

    method: str
    name: str
    body: bytes


def request(era, number, method, params=None):
    """A request of `era` with `number` as its id."""
    params = dict(params or {})
    if era is Era.MODERN:
        params["_meta"] = META
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return Message(method, params.get("name", ""), orjson.dumps(body))


def initialize(number):
    """The first request of the handshake era."""
    params = {
        "protocolVersion": Era.HANDSHAKE.version,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }
    return request(Era.HANDSHAKE, number, "initialize", params)


def initialized():
    """The notification that ends the handshake."""
    return Message("notifications/initialized", "", b'{"jsonrpc":"2.0","method":"notifications/initialized"}')


class EchoCalls:
    """Writes tools/call requests for `echo` cheaply: only id and text differ."""

    def __init__(self, era):
        params = {"name": ECHO, "arguments": {"text": "@"}}
        template = request(era, 0, "tools/call", params).body.decode()
        head, rest = template.split('"id":0', 1)
        middle, tail = rest.split('"@"', 1)
        self._head, self._middle, self._tail = head + '"id":', middle + '"', '"' + tail

    def body(self, number):
        return f"{self._head}{number}{self._middle}{text_of(number)}{self._tail}".encode()


def text_of(number):
    """The text that call `number` carries, so that a reply to another call is noticed."""
    return f"the text of call {number}"


def check_echo(reply):
    """The id of the call that `reply` answers.

    Raises WrongAnswer when it is an error or carries another call's text.
    """
    try:
        number, result = reply["id"], reply["result"]
        right = result["content"][0]["text"] == text_of(number) and not result.get("isError")
    except (KeyError, IndexError, TypeError):
        right = False
    if not right:
        raise WrongAnswer(f"not the answer to an echo call: {orjson.dumps(reply)[:400].decode()}")
    return number


def result_of(reply):
    """The result that `reply` carries. Raises WrongAnswer when it is an error."""
    if "result" not in reply:
        raise WrongAnswer(f"an error where a result was due: {orjson.dumps(reply)[:400].decode()}")
    return reply["result"]


def http_head(era, path, host, session=""):
    """The header lines that every POST of a session shares."""
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


def http_post(era, head, method, name, body):
    """One POST in full; the modern era mirrors method and name in headers."""
    routing = ""
    if era is Era.MODERN:
        routing = f"\r\nMcp-Method: {method}" + (f"\r\nMcp-Name: {name}" if name else "")
    return f"{head}{routing}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def replies_in(content_type, body):
    """The JSON-RPC messages in the body of an HTTP reply, a JSON document or an event stream."""
    if not content_type.startswith("text/event-stream"):
        return [orjson.loads(body)] if body else []
    data = (line[5:].strip() for line in body.splitlines() if line.startswith(b"data:"))
    return [orjson.loads(line) for line in data if line]
