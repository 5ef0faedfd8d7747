"""A cheap raw MCP client: bytes and orjson, both eras, over pipes or keep-alive HTTP connections."""

import asyncio
import contextlib
import itertools
from functools import partial

import httptools
import orjson

from benchmarks import wire
from benchmarks.window import Window
from benchmarks.wire import Era, Message, WrongAnswer


class Session:
    """What both transports share: the handshake, tools/list, and a window of calls."""

    def __init__(self, era):
        self.era = era
        self.reply_type = ""
        self._ids = itertools.count(1)
        self._calls = wire.EchoCalls(era)

    async def ask(self, message):
        """Send one message and return its reply, None for a notification."""
        raise NotImplementedError

    async def run(self, window, in_flight):
        """Keep `in_flight` calls open until the window is full and every call answered."""
        raise NotImplementedError

    async def prepare(self, in_flight):
        """What is needed before a window and is not part of it."""

    async def shake_hands(self):
        """Initialize, in the era that asks for it."""
        if self.era is Era.HANDSHAKE:
            result = wire.result_of(await self.ask(wire.initialize(next(self._ids))))
            if result["protocolVersion"] != self.era.version:
                raise WrongAnswer(f"the server chose {result['protocolVersion']}, not {self.era.version}")
            await self.ask(wire.initialized())

    async def list_page(self, cursor=None):
        """One page of tools/list: its tools and the cursor of the next page."""
        params = {"cursor": cursor} if cursor is not None else None
        message = wire.request(self.era, next(self._ids), "tools/list", params)
        result = wire.result_of(await self.ask(message))
        return result["tools"], result.get("nextCursor")

    async def window(self, *, calls, seconds, in_flight):
        """Run one window and return how many calls it made."""
        window = Window(self._ids, calls, seconds)
        await self.run(window, in_flight)
        return window.answered


def _fail_future(future, error):
    if not future.done():
        future.set_exception(error)


class _Lines(asyncio.Protocol):
    """Splits what the server writes into lines."""

    def __init__(self, on_lines, on_end):
        self._rest, self._on_lines, self._on_end = b"", on_lines, on_end

    def data_received(self, data):
        *lines, self._rest = (self._rest + data).split(b"\n")
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
        self.reply_type = "lines"
        self._answer = None
        self._window = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, server, era):
        """A session with the running `server` (process.ServerProcess), its handshake still to do."""
        self, loop = cls(era), asyncio.get_running_loop()
        reader, _ = await loop.connect_read_pipe(lambda: _Lines(self._take, self._ended), server.popen.stdout)
        self._pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, server.popen.stdin)
        try:
            yield self
        finally:
            self._pipe.close()
            reader.close()

    async def ask(self, message: Message):
        asked = not message.method.startswith("notifications/")
        self._answer = asyncio.get_running_loop().create_future() if asked else None
        self._pipe.write(message.body + b"\n")
        return await self._answer if self._answer else None

    async def run(self, window, in_flight):
        self._window = window
        self._send(in_flight)
        await window.finished
        self._window = None

    def _send(self, count):
        numbers = (self._window.next() for _ in range(count))
        if lines := [self._calls.body(number) for number in numbers if number is not None]:
            self._pipe.write(b"\n".join(lines) + b"\n")

    def _take(self, lines):
        try:
            replies = [reply for reply in map(orjson.loads, lines) if "id" in reply]
            if self._window is not None:
                self._take_calls(replies)
            elif replies and self._answer and not self._answer.done():
                self._answer.set_result(replies[0])
        except (WrongAnswer, orjson.JSONDecodeError) as error:
            self._fail(error)

    def _take_calls(self, replies):
        for reply in replies:
            self._window.settle(reply)
        self._send(len(replies))
        self._window.close_if_done()

    def _ended(self):
        self._fail(ConnectionError("the server closed its stdout"))

    def _fail(self, error):
        if self._window is not None:
            self._window.fail(error)
        elif self._answer:
            _fail_future(self._answer, error)


class _Lane(asyncio.Protocol):
    """One keep-alive connection with one request under way."""

    def __init__(self):
        self._on_reply = self._on_end = None
        self._parser = httptools.HttpResponseParser(self)
        self.headers, self._body = {}, []

    def post(self, data, on_reply, on_end):
        """Send a request; call `on_reply(lane, status, body)` or `on_end(error)` once."""
        self._on_reply, self._on_end = on_reply, on_end
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
        status, body, on_reply = self._parser.get_status_code(), b"".join(self._body), self._on_reply
        self._body = []
        on_reply(self, status, body)


class _Stream(_Lane):
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
    """A session over keep-alive connections, one call at a time on each."""

    def __init__(self, era, host, path):
        super().__init__(era)
        self._host, self._path = host, path
        self._head = wire.http_head(era, path, host)
        self._lanes = []

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, server, era, *, timeout=60):
        """A session with the running `server`, once it listens; its handshake still to do."""
        self = cls(era, *await server.listening(timeout))
        try:
            await self.prepare(1)
            yield self
        finally:
            self._close_lanes()

    async def ask(self, message: Message):
        answer = asyncio.get_running_loop().create_future()

        def take(*reply):
            if not answer.done():
                answer.set_result(reply)

        post = wire.http_post(self.era, self._head, message.method, message.name, message.body)
        self._lanes[0].post(post, take, partial(_fail_future, answer))
        lane, status, body = await answer
        self._remember(lane)
        replies = self._replies(lane, status, body)
        return replies[-1] if replies else None

    async def prepare(self, in_flight):
        """Open fresh connections: servers close those that were idle since the last window."""
        self._close_lanes()
        for _ in range(in_flight):
            await self._connect(_Lane)

    async def listen(self, count):
        """Open `count` subscriptions/listen streams. Raises WrongAnswer unless each is acknowledged."""
        for _ in range(count):
            stream = await self._connect(_Stream)
            message = wire.request(
                self.era, next(self._ids), "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
            )
            post = wire.http_post(self.era, self._head, message.method, message.name, message.body)
            stream.post(post, None, partial(_fail_future, stream.opened))
            if b"acknowledged" not in (event := await stream.opened):
                raise WrongAnswer(f"a stream begins with {event[:400].decode(errors='replace')}")

    async def run(self, window, in_flight):
        for lane in self._lanes[:in_flight]:
            self._send(window, lane)
        await window.finished

    async def _connect(self, kind):
        host, port = self._host.split(":")
        _, lane = await asyncio.get_running_loop().create_connection(kind, host, int(port))
        self._lanes.append(lane)
        return lane

    def _close_lanes(self):
        for lane in self._lanes:
            lane.close()
        self._lanes = []

    def _remember(self, lane):
        if session := lane.headers.get(b"mcp-session-id"):
            self._head = wire.http_head(self.era, self._path, self._host, session.decode())

    def _send(self, window, lane):
        number = window.next()
        if number is None:
            window.close_if_done()
            return
        body = self._calls.body(number)
        post = wire.http_post(self.era, self._head, "tools/call", wire.ECHO, body)
        lane.post(post, lambda *reply: self._take(window, *reply), window.fail)

    def _take(self, window, lane, status, body):
        try:
            for reply in self._replies(lane, status, body):
                if "id" in reply:
                    window.settle(reply)
            self._send(window, lane)
        except (WrongAnswer, orjson.JSONDecodeError) as error:
            window.fail(error)

    def _replies(self, lane, status, body):
        if status not in {200, 202}:
            raise WrongAnswer(f"HTTP {status}: {body[:400].decode(errors='replace')}")
        kind = lane.headers.get(b"content-type", b"").decode()
        if status == 200:
            self.reply_type = "events" if kind.startswith("text/event-stream") else "JSON"
        return wire.replies_in(kind, body)
