"""A cheap MCP client of bytes and orjson, for both eras, over pipes or keep-alive HTTP connections."""

import asyncio
import contextlib
import itertools
import time
from functools import partial

import httptools
import orjson

from benchmarks import wire
from benchmarks.window import Window
from benchmarks.wire import Era, Message, WrongResponse


class Session:
    """The parts that both transports share: the handshake, tools/list, and windows of calls."""

    def __init__(self, era):
        self.era = era
        self.response_type = ""
        self._numbers = itertools.count(1)

    async def send(self, message):
        """Send one message and return its response, or None for a notification."""
        raise NotImplementedError

    async def fill_window(self, window, in_flight):
        """Keep `in_flight` calls open until the window is complete and every call has its response."""
        raise NotImplementedError

    async def open_connections(self, count):
        """Open the connections of a window of `count` calls in flight. A pipe is always open."""

    async def initialize(self):
        """Initialize the session, if the era requires it."""
        if self.era is Era.HANDSHAKE:
            result = wire.get_result(await self.send(wire.make_initialize(next(self._numbers))))
            if result["protocolVersion"] != self.era.version:
                raise WrongResponse(f"the server chose {result['protocolVersion']}, not {self.era.version}")
            await self.send(wire.make_initialized())

    async def list_page(self, cursor=None):
        """Return one page of tools/list: its tools and the cursor of the next page."""
        params = {"cursor": cursor} if cursor is not None else None
        message = wire.make_request(self.era, next(self._numbers), "tools/list", params)
        result = wire.get_result(await self.send(message))
        return result["tools"], result.get("nextCursor")

    async def run_window(self, workload, *, calls, seconds, in_flight):
        """Run one window of a workload and return the seconds that each call took."""
        window = Window(wire.Requests(self.era, workload), self._numbers, calls, seconds)
        await self.fill_window(window, in_flight)
        return window.latencies


def _fail_future(future, error):
    if not future.done():
        future.set_exception(error)


class _Lines(asyncio.Protocol):
    """Splits the output of the server into lines."""

    def __init__(self, on_lines, on_end):
        self._remainder, self._on_lines, self._on_end = b"", on_lines, on_end

    def data_received(self, data):
        *lines, self._remainder = (self._remainder + data).split(b"\n")
        if lines:
            self._on_lines(lines)

    def eof_received(self):
        self._on_end()

    def connection_lost(self, error):
        self._on_end()


class StdioSession(Session):
    """A session over the pipes of a subprocess."""

    def __init__(self, era):
        super().__init__(era)
        self.response_type = "lines"
        self._response = None
        self._window = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, server, era):
        """Open a session with the running `server` (process.ServerProcess). It is not yet initialized."""
        self, loop = cls(era), asyncio.get_running_loop()
        reader, _ = await loop.connect_read_pipe(lambda: _Lines(self._receive, self._end), server.popen.stdout)
        self._pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, server.popen.stdin)
        try:
            yield self
        finally:
            self._pipe.close()
            reader.close()

    async def send(self, message: Message):
        if message.method.startswith("notifications/"):
            self._pipe.write(message.body + b"\n")
            return None
        self._response = asyncio.get_running_loop().create_future()
        self._pipe.write(message.body + b"\n")
        return await self._response

    async def fill_window(self, window, in_flight):
        self._window = window
        self._send_calls(in_flight)
        await window.finished
        self._window = None

    def _send_calls(self, count):
        bodies = [self._window.make_request() for _ in range(count)]
        lines = [body + b"\n" for body in bodies if body is not None]
        if lines:
            self._pipe.write(b"".join(lines))

    def _receive(self, lines):
        arrival = time.perf_counter()
        try:
            messages = [orjson.loads(line) for line in lines]
            responses = [message for message in messages if "id" in message]
            if self._window is not None:
                for response in responses:
                    self._window.accept(response, arrival)
                self._send_calls(len(responses))
                self._window.finish_if_empty()
            elif responses and self._response and not self._response.done():
                self._response.set_result(responses[0])
        except (WrongResponse, orjson.JSONDecodeError) as error:
            self._fail(error)

    def _end(self):
        self._fail(ConnectionError("the server closed its stdout"))

    def _fail(self, error):
        if self._window is not None:
            self._window.fail(error)
        elif self._response:
            _fail_future(self._response, error)


class _Connection(asyncio.Protocol):
    """One keep-alive connection, with one request at a time."""

    def __init__(self):
        self._on_response = self._on_end = None
        self._parser = httptools.HttpResponseParser(self)
        self.headers, self._body = {}, []

    def post(self, data, on_response, on_end):
        """Send a request; call `on_response(connection, status, body)` or `on_end(error)` once."""
        self._on_response, self._on_end = on_response, on_end
        self._transport.write(data)

    def close(self):
        self._on_end = None
        self._transport.close()

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.connection_lost(error)

    def connection_lost(self, error):
        if self._on_end:
            self._on_end(error or ConnectionError("the server closed the connection"))

    def on_header(self, name, value):
        self.headers[name.lower()] = value

    def on_body(self, body):
        self._body.append(body)

    def on_message_complete(self):
        status, body, on_response = self._parser.get_status_code(), b"".join(self._body), self._on_response
        self._body = []
        on_response(self, status, body)


class _Stream(_Connection):
    """A connection with one response that stays open; `opened` is done after its first event."""

    def __init__(self):
        super().__init__()
        self.opened = asyncio.get_running_loop().create_future()

    def on_body(self, body):
        if not self.opened.done():
            self.opened.set_result(body)

    def on_message_complete(self):
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(f"HTTP {self._parser.get_status_code()} instead of a stream"))


class HttpSession(Session):
    """A session over keep-alive connections, with one call at a time on each."""

    def __init__(self, era, host, path):
        super().__init__(era)
        self._host, self._path = host, path
        self._head = wire.make_http_head(era, path, host)
        self._connections = []

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, server, era, *, timeout=60):
        """Wait until the running `server` listens, and open a session. It is not yet initialized."""
        self = cls(era, *await server.wait_until_listening(timeout))
        try:
            await self.open_connections(1)
            yield self
        finally:
            self._close_connections()

    async def send(self, message: Message):
        response = asyncio.get_running_loop().create_future()

        def receive(*parts):
            if not response.done():
                response.set_result(parts)

        post = wire.make_http_post(self.era, self._head, message.method, message.name, message.body)
        self._connections[0].post(post, receive, partial(_fail_future, response))
        connection, status, body = await response
        session = connection.headers.get(b"mcp-session-id")
        if session:
            self._head = wire.make_http_head(self.era, self._path, self._host, session.decode())
        messages = self._parse(connection, status, body)
        return messages[-1] if messages else None

    async def open_connections(self, count):
        """Replace all connections, because servers close those that were idle since the last window."""
        self._close_connections()
        for _ in range(count):
            await self._connect(_Connection)

    async def listen(self, count):
        """Open `count` subscriptions/listen streams. Raises WrongResponse unless each is acknowledged."""
        params = {"notifications": {"toolsListChanged": True}}
        for _ in range(count):
            stream = await self._connect(_Stream)
            message = wire.make_request(self.era, next(self._numbers), "subscriptions/listen", params)
            post = wire.make_http_post(self.era, self._head, message.method, message.name, message.body)
            stream.post(post, None, partial(_fail_future, stream.opened))
            event = await stream.opened
            if b"acknowledged" not in event:
                raise WrongResponse(f"a stream begins with {event[:400].decode(errors='replace')}")

    async def fill_window(self, window, in_flight):
        for connection in self._connections[:in_flight]:
            self._send_call(window, connection)
        await window.finished

    async def _connect(self, connection_class):
        host, port = self._host.split(":")
        _, connection = await asyncio.get_running_loop().create_connection(connection_class, host, int(port))
        self._connections.append(connection)
        return connection

    def _close_connections(self):
        for connection in self._connections:
            connection.close()
        self._connections = []

    def _send_call(self, window, connection):
        body = window.make_request()
        if body is None:
            window.finish_if_empty()
            return
        post = wire.make_http_post(self.era, self._head, window.requests.method, window.requests.name, body)
        connection.post(post, partial(self._receive, window), window.fail)

    def _receive(self, window, connection, status, body):
        arrival = time.perf_counter()
        try:
            for message in self._parse(connection, status, body):
                if "id" in message:
                    window.accept(message, arrival)
            self._send_call(window, connection)
        except (WrongResponse, orjson.JSONDecodeError) as error:
            window.fail(error)

    def _parse(self, connection, status, body):
        if status not in {200, 202}:
            raise WrongResponse(f"HTTP {status}: {body[:400].decode(errors='replace')}")
        content_type = connection.headers.get(b"content-type", b"").decode()
        if status == 200:
            self.response_type = "events" if content_type.startswith("text/event-stream") else "JSON"
        return wire.parse_http_body(content_type, body)
