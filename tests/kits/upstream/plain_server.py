"""An MCP server in plain Python, which starts fast and has the fault named by its argument, or none.

`plain_server.py stdio FAULT [TOKEN]` serves over its standard streams, `plain_server.py http FAULT PORT` over HTTP.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
PARTS = {"hang in prompts": {"prompts": {}}, "capability without parts": {"resources": True}}
LISTS = {"resources/list": "resources", "prompts/list": "prompts", "resources/templates/list": "resourceTemplates"}
FOREVER = 10_000
POLLS, POLL_INTERVAL = 12, 50
"""How often a client has to reconnect for a response, and how many milliseconds it has to wait each time."""
MALFORMED: dict[str, Any] = {
    "text": "a text",
    "null": None,
    "number in content": {"content": 5},
    "text in content": {"content": "a text"},
    "list as meta": {"content": [], "_meta": [1]},
    "unknown block": {"content": [{"type": "smell"}]},
    "empty": {},
    "number as questions": {"resultType": "input_required", "inputRequests": 5},
}
"""Results that no tool call may have."""
NO_JSON = {
    "content": [{"type": "text", "text": "an emoj\ud83d"}],
    "structuredContent": {"n": float("nan"), "s": "\udc00"},
}
"""A result with values that some programs write although JSON does not allow them: lone surrogates and NaN."""
RAW = {
    "number that is too large": b'{"content": [], "structuredContent": {"n": 1e400}}',
    "raw tab": b'{"content": [{"type": "text", "text": "a\tb"}]}',
    "null as text": b'{"content": [{"type": "text", "text": null}]}',
    "missing brace": b'{"content": []',
    "unknown escape": b'{"content": [{"type": "text", "text": "\\x41"}]}',
    "large and unknown escape": b'{"content": [{"type": "text", "text": "' + b"x" * 500_000 + b'\\x41"}]}',
}
"""Results of servers that write JSON without a library."""


def make_bombs() -> list[Json]:
    """Return tools with expensive or impossible schemas, and a good one."""
    deep: Json = {"type": "string"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}}
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)} | {
        "d60": {"type": "string"}
    }
    schemas: Json = {
        "deep": deep,
        "doubling": {"type": "object", "$defs": doubling, "properties": {"a": {"$ref": "#/$defs/d0"}}},
        "remote": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
        "file": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        "wide": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(50_000)}},
        "cycle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        "list": [1],
        "text": "object",
        "type": {"type": 5},
        "repeated": {"type": "object", "properties": {"a": {"pattern": "(x{1,1000}){1,1000}"}}},
    }
    meta = make_tool("meta", _meta={"a": deep}, annotations={"a": deep}, icons=[deep])
    return [{"name": name, "inputSchema": schema} for name, schema in schemas.items()] + [meta, make_tool("echo")]


def make_tool(name: str, **more: Any) -> Json:
    return {"name": name, "description": "Return the text.", "inputSchema": TEXT, **more}


class Server:
    """Replies to messages, with one fault."""

    def __init__(self, fault: str, token: str) -> None:
        self.fault = fault
        self.token = token
        self.first_method = ""

    def reply(self, message: Json) -> Any:
        """Return the response to a message. It is None for a notification, and for a fault without a response."""
        method, number = message.get("method"), message.get("id")
        if number is None or method is None:
            return None
        self.first_method = self.first_method or method
        if (method == "initialize" and self.fault == "hang at start") or (
            method == "tools/list" and self.fault == "hang in list"
        ):
            return None
        if method == "server/discover" and self.fault == "ignores discover":
            return None
        result = self._make_result(method, message.get("params") or {})
        if result == "unknown":
            error = {"code": -32601, "message": f"Method not found: {method}"}
            return {"jsonrpc": "2.0", "id": number, "error": error}
        if result == "nothing":
            return None
        if self.fault == "wrong ids" and method == "tools/call":
            number += 1000
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _make_result(self, method: str, params: Json) -> Any:
        if method == "initialize":
            version = params["protocolVersion"]
            info = {"name": "plain", "version": "1.5"}
            lists: Json = {"tools": {"listChanged": True}, **PARTS.get(self.fault, {})}
            return {"protocolVersion": version, "capabilities": lists, "serverInfo": info}
        if method == "ping":
            return {}
        if method == "tools/list":
            more = {"nextCursor": "next"} if self.fault == "repeats its page" else {}
            return {"tools": self._list_tools(), **more} if self.fault != "malformed list" else {"tools": "none"}
        if method == "prompts/list" and self.fault == "hang in prompts":
            return "nothing"
        return self._call(params["name"], params.get("arguments") or {}) if method == "tools/call" else "unknown"

    def _list_tools(self) -> list[Json]:
        if self.fault == "schema bombs":
            return make_bombs()
        if self.fault == "pattern":
            pattern = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}
            return [make_tool("echo", outputSchema=pattern)]
        if self.fault == "other tools":
            starts = Path(self.token)
            count = len(starts.read_text()) + 1 if starts.exists() else 1
            starts.write_text("x" * count)
            return [make_tool("echo"), make_tool(f"tool_{count}")]
        return [make_tool("echo")]

    def _call(self, name: str, arguments: Json) -> Any:
        text = arguments.get("text", "")
        if text == "crash" or self.fault == "crash in call":
            os._exit(4)
        if self.fault == "hang in call":
            return "nothing"
        if self.fault == "malformed results":
            return MALFORMED.get(text, NO_JSON)
        if self.fault == "long line" and text == "long":
            text = "x" * 50 * 1024 * 1024
        if text == "environment":
            text = json.dumps(dict(os.environ))
        elif text == "process":
            text = json.dumps({"pid": os.getpid(), "group": os.getpgid(0)})
        elif text == "first method":
            text = self.first_method
        text = access(text)
        if self.fault == "pattern":
            return {"content": [], "structuredContent": {"text": text}}
        return {"content": [{"type": "text", "text": text}]}


def access(text: str) -> str:
    """Read or write a file or connect to a port, depending on the text. Return the outcome."""
    action, _, name = text.partition(" ")
    try:
        if action == "read":
            return Path(name).read_text()
        if action == "write":
            Path(name).write_text("written")
            return "written"
        if action == "connect":
            import socket

            socket.create_connection(("127.0.0.1", int(name)), 5).close()
            return "connected"
    except OSError as error:
        return str(error)
    return text


# -- stdio ---------------------------------------------------------------------------------------------------


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_forever(data: bytes) -> None:
    while True:
        write(data)


def notify(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"


def spawn_stubborn(token: str) -> None:
    """Start a process in a new session that ignores SIGTERM."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    null = subprocess.DEVNULL
    subprocess.Popen([sys.executable, "-S", "-c", code, token], start_new_session=True, stdin=null, stdout=null)


def ask_often(times: int) -> int:
    """Send this many questions to the client, then return the number of errors."""
    form = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {}}}
    count = ({"jsonrpc": "2.0", "id": n, "method": "elicitation/create", "params": form} for n in range(times))
    write(b"".join(json.dumps(item).encode() + b"\n" for item in count))
    return sum("error" in json.loads(sys.stdin.buffer.readline()) for _ in range(times))


PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
AT_START: dict[str, Callable[[], object]] = {
    "crash at start": lambda: sys.exit(3),
    "never reads": lambda: time.sleep(FOREVER),
    "closes output": lambda: (os.close(1), time.sleep(FOREVER)),
    "endless garbage": lambda: write_forever(os.urandom(65536)),
}
"""Faults that replace the whole server."""
FLOODS = {
    "floods notifications": notify("notifications/message", level="info", data="x" * 100),
    "floods list changes": notify("notifications/tools/list_changed"),
    "floods requests": json.dumps(PING).encode() + b"\n",
    "floods replies": b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n',
}
"""What a server writes without pause after its first call, by fault."""


def serve_stdio(fault: str, token: str) -> None:
    if fault == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        spawn_stubborn(token)
    if fault == "family":
        spawn_stubborn(token)
    if fault in AT_START:
        AT_START[fault]()
    server, is_flooding = Server(fault, token), False
    for line in sys.stdin.buffer:
        message = json.loads(line)
        response = server.reply(message)
        if fault == "malformed results" and message.get("method") == "tools/call":
            text = message["params"]["arguments"]["text"]
            if text in RAW:
                write(b'{"jsonrpc": "2.0", "id": %d, "result": %b}\n' % (message["id"], RAW[text]))
                continue
        if fault == "texts as ids" and response is not None:
            response["id"] = str(response["id"])
        if fault == "byte order mark" and response is not None:
            write(b"\xef\xbb\xbf")
        if fault == "asks a lot" and message.get("method") == "tools/call":
            response = server.reply({**message, "params": {"name": "echo", "arguments": {"text": str(ask_often(150))}}})
        if fault == "garbage":
            write(b"Starting up...\n\xff\xfe\x00 not UTF-8\n{]\n[]\n5\n\n")
        if fault == "endless line" and message.get("method") == "tools/call":
            write_forever(b"x" * 65536)
        if response is not None:
            write(json.dumps(response).encode() + b"\n")
            if fault == "duplicate replies":
                write(json.dumps(response).encode() + b"\n")
        if fault in FLOODS and message.get("method") == "tools/call" and not is_flooding:
            is_flooding = True
            threading.Thread(target=write_forever, args=[FLOODS[fault] * 100], daemon=True).start()
            if fault == "floods requests":
                time.sleep(FOREVER)
        if fault == "stops reading" and message.get("method") == "tools/call":
            time.sleep(FOREVER)
    if fault == "writes at the end":
        write(b"x" * 2**20)
        sys.stderr.write("y" * 2**17)
        Path(token).write_text("done")
    if fault == "stubborn":
        time.sleep(FOREVER)


# -- HTTP ----------------------------------------------------------------------------------------------------


def serve_http(fault: str, port: int) -> None:
    import asyncio

    async def run() -> None:
        listener = HttpListener(fault)
        async with await asyncio.start_server(listener.handle, "127.0.0.1", port, limit=2**20) as toolbox:
            print(toolbox.sockets[0].getsockname()[1], flush=True)
            await toolbox.serve_forever()

    asyncio.run(run())


NO_STREAMS = {
    "page instead of a stream": (b"<html></html>", "text/html"),
    "document instead of a stream": (b"{}", "application/json"),
    "stream that ends": (b"", "text/event-stream"),
}
"""Bodies and types of responses to GET."""


class HttpListener:
    """Serves Streamable HTTP at /mcp with sessions, and the older transport at /sse."""

    def __init__(self, fault: str) -> None:
        self.server = Server(fault, "")
        self.fault = fault
        self.sessions: set[str] = set()
        self.stream: Any = None
        self.unanswered: set[Any] = set()
        self.response: Json = {}
        self.has_notification = False
        self.calls = self.streams = 0

    async def handle(self, reader: Any, writer: Any) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                method, path, _ = lines[0].split()
                fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                await self.respond(writer, method, path, fields, body)
                await writer.drain()
        except (EOFError, ConnectionError):
            pass
        finally:
            self.unanswered.discard(writer)
            writer.close()

    async def respond(self, writer: Any, method: str, path: str, fields: Json, body: bytes) -> None:
        if method == "GET" and path == "/sse":
            await self.open_stream(writer)
        elif method == "POST" and path == "/messages":
            write_response(writer, 202)
            self.send_event(self.server.reply(json.loads(body)))
        elif method == "GET" and "last-event-id" in fields:
            self.write_poll(writer, int(fields["last-event-id"]) + 1)
        elif method == "GET" and self.fault in NO_STREAMS:
            self.streams += 1
            write_response(writer, 200, *NO_STREAMS[self.fault])
        elif method != "POST":
            write_response(writer, 405)
        else:
            await self.respond_to_message(writer, path, json.loads(body), fields.get("mcp-session-id"))

    async def respond_to_message(self, writer: Any, path: str, message: Json, session: str | None) -> None:
        is_call = message.get("method") == "tools/call"
        if await self.misbehave(writer, path, is_call=is_call) or self.leave_unanswered(writer, message):
            return None
        more = ""
        if message.get("method") == "initialize":
            self.sessions.add(session := os.urandom(8).hex())
            more = f"mcp-session-id: {session}\r\n"
        elif message.get("method") != "server/discover" and session not in self.sessions:
            return self.reject_session(writer)
        if self.fault == "initialized late" and not await self.is_initialized(message):
            error = {"code": -32602, "message": "Received request before initialization was complete"}
            response = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        else:
            response = self.server.reply(message)
        if response is None:
            return write_response(writer, 202)
        if is_call and self.fault == "polls":
            self.response = response
            return self.write_poll(writer, 0)
        if is_call and self.fault == "wrong ids":
            response["id"] = 77
        text = json.dumps(response).encode()
        if self.fault == "huge retry":
            event = b"retry: " + b"9" * 400 + b"\ndata: " + text + b"\n\n"
            return write_response(writer, 200, event, "text/event-stream", more)
        if self.fault == "byte order mark in events":
            return write_response(writer, 200, b"\xef\xbb\xbfdata: " + text + b"\n\n", "text/event-stream", more)
        mark = b"\xef\xbb\xbf" if self.fault == "byte order mark" else b""
        if self.fault == "texts as ids":
            text = json.dumps({**response, "id": str(response["id"])}).encode()
        return write_response(writer, 200, mark + text, "application/json", more)

    async def is_initialized(self, message: Json) -> bool:
        """Whether the client may send this message: some servers reject all before a notification, which takes time."""
        import asyncio

        if message["method"] == "notifications/initialized":
            await asyncio.sleep(0.2)
            self.has_notification = True
        return self.has_notification or message["method"] in ("initialize", "server/discover")

    async def misbehave(self, writer: Any, path: str, *, is_call: bool) -> bool:
        """Commit the fault, and return whether it replaced the response."""
        import asyncio

        self.calls += is_call
        if self.fault.startswith("session lost") and is_call and self.calls == 2:
            self.sessions.clear()
        if self.fault == "hanging":
            await asyncio.sleep(FOREVER)
        if self.fault == "500":
            write_response(writer, 500, b"Internal Server Error", "text/plain")
        elif self.fault == "redirect":
            write_response(writer, 307, more="location: http://127.0.0.1:9/secret\r\n")
        elif self.fault == "endless body" and is_call:
            await self.write_endless(writer, "application/json", b"x" * 65536)
        elif self.fault == "endless event" and is_call:
            await self.write_endless(writer, "text/event-stream", b"x" * 65536, b"data: ")
        elif self.fault == "floods events" and is_call:
            event = b"data: " + FLOODS["floods notifications"] + b"\n"
            await self.write_endless(writer, "text/event-stream", event * 100)
        elif self.fault == "garbage events" and is_call:
            garbage = b"data: {]\n\nevent: x\n\n\xff\xfe\n\ndata: 5\n\n: comment\n\n"
            write_response(writer, 200, garbage, "text/event-stream")
        elif self.fault == "redirects within" and path == "/mcp":
            write_response(writer, 307, more="location: /mcp/\r\n")
        elif self.fault == "cut" and is_call:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
            writer.close()
        else:
            return False
        return True

    def write_poll(self, writer: Any, number: int) -> None:
        """Close the stream of an unfinished call. The client has to reconnect."""
        response = "" if number < POLLS else json.dumps(self.response)
        event = f"id: {number}\nretry: {POLL_INTERVAL}\ndata: {response}\n\n"
        write_response(writer, 200, event.encode(), "text/event-stream")

    def reject_session(self, writer: Any) -> None:
        """Respond to a request of an unknown session: with status 404, or as some servers do."""
        if self.fault == "session lost, status 400":
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
            return write_response(writer, 400, body, "application/json")
        return write_response(writer, 404)

    def leave_unanswered(self, writer: Any, message: Json) -> bool:
        """Open a stream without an end for the text `wait`; return the number of open ones for `count`."""
        text = (message.get("params") or {}).get("arguments", {}).get("text")
        if text == "wait":
            self.unanswered.add(writer)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        elif text == "count":
            message["params"]["arguments"]["text"] = str(len(self.unanswered))
        elif text == "streams":
            message["params"]["arguments"]["text"] = str(self.streams)
        return text == "wait"

    async def write_endless(self, writer: Any, media_type: str, chunk: bytes, first: bytes = b"") -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\nconnection: close\r\n\r\n".encode() + first)
        while not writer.is_closing():
            writer.write(chunk)
            await writer.drain()

    async def open_stream(self, writer: Any) -> None:
        import asyncio

        if self.fault == "hanging":
            await asyncio.sleep(FOREVER)
        if self.fault == "500":
            return write_response(writer, 500, b"Internal Server Error", "text/plain")
        self.stream = writer
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        if self.fault != "no endpoint":
            addresses = {"foreign endpoint": "http://127.0.0.2:9/messages", "invalid endpoint": "http://["}
            address = addresses.get(self.fault, "/messages")
            writer.write(f"event: endpoint\ndata: {address}\n\n".encode())
        return None

    def send_event(self, response: Json | None) -> None:
        if response is not None:
            self.stream.write(f"event: message\ndata: {json.dumps(response)}\n\n".encode())


def write_response(writer: Any, status: int, body: bytes = b"", media_type: str = "", more: str = "") -> None:
    media_type = f"content-type: {media_type}\r\n" if media_type else ""
    head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{media_type}{more}\r\n"
    writer.write(head.encode() + body)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        serve_stdio(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
    else:
        serve_http(sys.argv[2], int(sys.argv[3]))
