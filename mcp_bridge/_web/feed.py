"""The event stream of the page. Each change is encoded once, and sent to every page that may see it.

While any page is connected, the feed is watched: `CallHistory` reports calls, and `ChangeMonitor` compares the state.
Events get numbers and are kept in a log. A page whose connection breaks sends the number of its last event when it
connects again, and receives those after it. If some of these are not in the log, the page receives `reset` instead, and
reads the state again. 20 seconds after the last page has disconnected, the watching ends and the log is cleared.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._transports.http.event_stream import EventStream, format_event
from mcp_bridge._transports.http.request import make_rejection
from mcp_bridge._web.history import CallRecord
from mcp_bridge._web.viewer import Viewer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

INTERVAL = 0.2
"""Seconds between two batches of calls. A running call that reports progress is sent at most five times a second."""
MAX_BATCH = 100
"""The maximum number of calls in a batch. Only the number of the others is sent."""
MAX_PAGES = 32
"""The maximum number of connected pages."""
OPERATOR_PAGES = 8
"""The number of these pages that are reserved for operators."""
MAX_OWN_PAGES = 8
"""The maximum number of pages of one principal that is not an operator."""
MAX_BACKLOG = 4 * 1024 * 1024
"""The maximum number of bytes that wait for a slow page. With more, its stream is closed, and the page reconnects."""
MAX_EVENTS, MAX_BYTES = 1000, 4 * 1024 * 1024
"""The maximum numbers of events, and of their bytes, that are kept for pages whose connection breaks."""
GRACE = 20.0
"""Seconds for which the last page can resume its stream after it disconnects, and questions wait for it."""


class FeedEvent(NamedTuple):
    """One event, for everyone if it `is_public`, else for those who may see calls of `principal`."""

    number: int
    data: bytes
    is_public: bool
    principal: str | None


class OpenPage:
    """A connected page."""

    def __init__(self, events: EventStream, viewer: Viewer) -> None:
        self.events = events
        self.viewer = viewer


class EventFeed:
    """Sends events to the connected pages.

    Args:
        render: Turns a call into JSON.
        on_watch: Called when the first page connects (True), and when none has been connected for a while (False).
    """

    def __init__(
        self, render: Callable[[CallRecord], dict[str, Any]], on_watch: Callable[[bool], None] = lambda _: None
    ) -> None:
        self._render = render
        self._on_watch = on_watch
        # The ids of events begin with it, so that a page does not resume the stream of an earlier process.
        self._process_id = token_hex(4)
        self._pages: set[OpenPage] = set()
        self._number = 0
        self._log: deque[FeedEvent] = deque()
        self._log_size = 0
        self._changed_calls: dict[int, CallRecord] = {}
        self._batch_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._next_batch_time = 0.0
        self.is_watched = False

    @property
    def pages(self) -> set[OpenPage]:
        """The connected pages."""
        return self._pages

    @asynccontextmanager
    async def connect_page(self, page: OpenPage, last_event: str | None) -> AsyncIterator[None]:
        """Send events to a page during the block, the missed ones first. Raises HttpRejection."""
        viewer = page.viewer
        limit = MAX_PAGES if viewer.is_operator else MAX_PAGES - OPERATOR_PAGES
        if len(self._pages) >= limit:
            raise make_rejection(503, f"{limit} pages are open. Close one.")
        if not viewer.is_operator and sum(other.viewer == viewer for other in self._pages) >= MAX_OWN_PAGES:
            raise make_rejection(503, f"{MAX_OWN_PAGES} pages of this principal are open. Close one.")
        self._begin_watching()
        self._resume(page, last_event)
        self._pages.add(page)
        try:
            yield
        finally:
            self._pages.discard(page)
            if not self._pages:
                self._end_timer = asyncio.get_running_loop().call_later(GRACE, self._stop_watching)

    def close(self) -> None:
        """End the streams of all pages after their pending events."""
        for page in self._pages:
            page.events.end()
        for timer in (self._batch_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        self._stop_watching()

    def report_call(self, record: CallRecord) -> None:
        """Send a call soon; changes in quick succession are sent as one."""
        self._changed_calls[record.id] = record
        if self._batch_timer is None:
            loop = asyncio.get_running_loop()
            self._batch_timer = loop.call_at(max(self._next_batch_time, loop.time()), self._send_calls)

    def send(self, name: str, data: Any, *, principal: str | None = None, is_public: bool = True) -> None:
        """Send an event to the pages that may see it, and add it to the log, while the feed is watched."""
        if not self.is_watched:
            return
        self._number += 1
        line = encode_json(data) + b"\n"
        event = FeedEvent(self._number, format_event(line, self._format_id(), name=name), is_public, principal)
        self._log.append(event)
        self._log_size += len(event.data)
        while len(self._log) > MAX_EVENTS or self._log_size > MAX_BYTES:
            self._log_size -= len(self._log.popleft().data)
        for page in self._pages:
            _put(page, event)

    def _send_calls(self) -> None:
        self._batch_timer = None
        self._next_batch_time = asyncio.get_running_loop().time() + INTERVAL
        records = list(self._changed_calls.values())
        self._changed_calls.clear()
        if len(records) > MAX_BATCH:
            self.send("dropped", {"n": len(records) - MAX_BATCH})
        for record in records[-MAX_BATCH:]:
            self.send("call", self._render(record), principal=record.principal, is_public=False)

    def _resume(self, page: OpenPage, last_event: str | None) -> None:
        """Send the events after the last one of the page, or `reset` if some of them are not in the log."""
        process_id, _, number = (last_event or "").partition("-")
        first = self._log[0].number if self._log else self._number + 1
        # `int` rejects numbers with thousands of digits.
        is_valid = process_id == self._process_id and number.isdecimal() and len(number) <= 18
        if not is_valid or int(number) + 1 < first:
            page.events.put(format_event(b"{}\n", self._format_id(), name="reset"))
            return
        for event in self._log:
            if event.number > int(number):
                _put(page, event)

    def _format_id(self) -> str:
        """Return the id of the latest event."""
        return f"{self._process_id}-{self._number}"

    def _begin_watching(self) -> None:
        if self._end_timer is not None:
            self._end_timer.cancel()
            self._end_timer = None
        if not self.is_watched:
            self.is_watched = True
            self._on_watch(True)

    def _stop_watching(self) -> None:
        self._end_timer = None
        if self.is_watched:
            self.is_watched = False
            self._on_watch(False)
        # From now on, changes are not sent. The number is as if one event were missing, so that no page can resume.
        self._number += 1
        self._log.clear()
        self._log_size = 0
        self._changed_calls.clear()


def _put(page: OpenPage, event: FeedEvent) -> None:
    if event.is_public or page.viewer.can_see(event.principal):
        page.events.put(event.data)


def encode_json(data: Any) -> bytes:
    """Return data as JSON. Values that JSON cannot represent, such as lone surrogates, are converted."""
    try:
        return dump_json(data)
    except TypeError:
        return dump_json(to_plain(data))
