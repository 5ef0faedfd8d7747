"""EventStream: a response of server-sent events (HTML Standard, "Server-sent events").

All kinds of streams use it: those of requests in both eras, the standalone one, and that of the legacy transport.
"""

from __future__ import annotations

import asyncio
import logging

from mcp_bridge._runtime.tasks import Notifier
from mcp_bridge._transports.http.request import JSON, HttpRequest
from mcp_bridge._transports.http1.asgi import Headers

logger = logging.getLogger("mcp_bridge.transports")

PING_INTERVAL = 15.0
"""Seconds of silence after which a comment is sent, because proxies close silent streams."""
OPENING_DELAY = 0.05
"""Seconds for which the head of a response waits for the first event. Most calls end earlier. Then one write is enough,
and a large response can still become JSON."""
LARGE_RESPONSE = 1_000_000
"""The maximum number of bytes of a response that is sent as an event. A larger one becomes JSON if there was no event
before it, because clients limit the size of an event: the Python SDK 2.3 fails with more than 1 MiB."""
MAX_BACKLOG = 32 * 1024 * 1024
"""The maximum number of bytes that wait for a slow client. With more, the stream breaks. The client may resume it."""
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)
_PING = b": ping\n\n"


def format_event(line: bytes, event_id: str = "", *, name: str = "message") -> bytes:
    """Return an event with a line as its data. The line ends with a line feed."""
    head = f"event: {name}\ndata: "
    if event_id:
        head = f"id: {event_id}\n{head}"
    return head.encode() + line + b"\n"


class EventStream:
    """One response of events. One task at a time writes them in their order, as fast as the client reads.

    If more than `backlog` bytes wait, the stream breaks.

    Attributes:
        is_open: Whether events are written. Before that, they only wait.
        is_ended: Whether the stream ends after the waiting events.
    """

    def __init__(
        self, request: HttpRequest, headers: Headers = (), *, is_open: bool = False, backlog: int = MAX_BACKLOG
    ) -> None:
        self._request = request
        self._backlog = backlog
        self._headers = (*STREAM_HEADERS, *headers)
        self._parts: list[bytes] = []
        self._size = 0
        # Whether there is a reason to open the stream: an event, or its end.
        self._is_due = False
        self._opening: asyncio.Future[None] | None = None
        self._is_writing = False
        self._writer: asyncio.Task[None] | None = None
        self._writes = Notifier()
        self.is_open = is_open
        self.is_ended = False

    @property
    def is_started(self) -> bool:
        """Whether the client has received a part of the stream, or will receive it."""
        return self._request.is_started or (self.is_open and bool(self._parts))

    def put(self, event: bytes) -> None:
        """Queue an event. After the end of the stream, it is dropped."""
        if self.is_ended:
            return
        if self._size > self._backlog:
            logger.warning("a stream ends because its client reads too slowly")
            self._parts.clear()
            self.is_ended = True
        else:
            self._parts.append(event)
            self._size += len(event)
        self._write_soon()

    def end(self) -> None:
        """End the response after the queued events."""
        if not self.is_ended:
            self.is_ended = True
            self._write_soon()

    def prime(self, event: bytes) -> None:
        """Queue an event without opening the stream."""
        self._parts.append(event)

    def respond_in_json(self, line: bytes) -> bool:
        """Make the response JSON instead of events, and end it with this line. Return False if it has events."""
        if self.is_open or self._is_due:
            return False
        self._headers = ((b"content-type", JSON), *self._headers[len(STREAM_HEADERS) :])
        self._parts = [line]
        self.end()
        return True

    async def begin_late(self) -> None:
        """Start the response as soon as there is something to send, or after `OPENING_DELAY`."""
        if not self._is_due:
            loop = asyncio.get_running_loop()
            self._opening = loop.create_future()
            timer = loop.call_later(OPENING_DELAY, self._stop_waiting)
            try:
                await self._opening
            finally:
                timer.cancel()
        await self.begin()

    async def begin(self) -> None:
        """Start the response with the queued events."""
        self.is_open = True
        await self.flush()

    async def finish(self, event: bytes = b"") -> None:
        """End the response with this event, and wait until everything is written."""
        self._parts.append(event)
        self.is_ended = True
        await self.flush()
        await self.drain()

    async def flush(self) -> None:
        """Write the queued events, unless another task is writing."""
        if self._is_writing or not self.is_open:
            return
        self._is_writing = True
        request = self._request
        try:
            while not request.is_complete and (self._parts or self.is_ended or not request.is_started):
                data = b"".join(self._parts)
                self._parts.clear()
                self._size = 0
                if request.is_started:
                    await request.send_body(data, more=not self.is_ended)
                else:
                    await request.send_response(200, self._headers, data, more=not self.is_ended)
        except Exception as error:
            # Some ASGI servers raise an error if the client has disconnected.
            logger.debug("a stream broke: %r", error)
            self.is_ended = request.is_complete = True
        except asyncio.CancelledError:
            # Otherwise, `drain` would wait for data that is never written.
            self._parts.clear()
            self.is_ended = True
            raise
        finally:
            self._is_writing = False
            self._writer = None
            self._writes.notify()

    async def drain(self) -> None:
        """Wait until everything is written."""
        while self.is_open and not self._request.is_complete and (self._parts or self._is_writing):
            await self._writes.wait_for_notification()

    async def attend(self) -> None:
        """Keep the response alive until it is complete or the client has disconnected."""
        receive = self._request.receive
        while not self._request.is_complete:
            try:
                async with asyncio.timeout(PING_INTERVAL):
                    while (await receive())["type"] != "http.disconnect":
                        pass
                return
            except TimeoutError:
                self.put(_PING)

    def _write_soon(self) -> None:
        if not self.is_open:
            self._is_due = True
            self._stop_waiting()
        elif not self._is_writing and self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self.flush())

    def _stop_waiting(self) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.set_result(None)
