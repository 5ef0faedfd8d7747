"""The latest calls and clients of a server, in bounded memory.

If a server has a page, each of its calls is recorded, whether or not a page is open. This must not slow calls down, so
a call only adds a record that refers to its arguments and its result. Everything else is computed when a page asks for
it. A record goes through these states:

1. running: `begin_call` adds it to `_running`. If a page is open, `listener` gets each change, and layers are measured.
2. ended: `keep_ended` moves it to `_ended`, which has room for the latest calls. If the call has only a few short
   values (`is_small`, the usual case), nothing else happens.
3. dropped: the size of any other call is estimated. If its values are too large, they are released immediately. If all
   values together exceed `MAX_BYTES`, those of the oldest calls are released. The rest of the record stays.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any

from mcp_bridge._contracts.observation import ClientInfo, LayerTime
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._web.call_sizes import MAX_SIZE, TOO_LARGE, estimate_result_size, estimate_size, is_small

MAX_RECORDS = 1000
"""The maximum number of ended calls while a page is open."""
MAX_UNWATCHED = 200
"""The maximum number of ended calls while no page is open. So few records are still in the processor's cache when they
are released, so releasing them is fast."""
MAX_BYTES = 32 * 1024 * 1024
"""The approximate maximum size of all arguments and results, in bytes; the oldest are dropped first."""
MAX_LOGS = 100
"""The maximum number of log messages of a call. The oldest are dropped first."""
MAX_LOG_SIZE = 16 * 1024
"""The maximum size of one log message, in bytes."""
MAX_EXCEPTION = 32 * 1024
"""The maximum number of characters of an exception with its traceback. The last ones are the most useful."""


class ClientRow:
    """A client, and the number of its calls in the history. `since` is in seconds since 1970."""

    __slots__ = ("calls", "info", "principal", "since")

    def __init__(self, info: ClientInfo, principal: str | None, since: float) -> None:
        self.info = info
        self.principal = principal
        self.since = since
        self.calls = 0


class CallRecord:
    """One call (see `ObservedCall`). Its arguments and `result` are not copies, and may be dropped.

    `seconds` is None while the call runs; `result` is also None if it was cancelled. `size` is the approximate size of
    the values in bytes; 0 for small ones. `logs` has (level, data, logger) of each log message, and `exception` is the
    text of an unexpected exception with the frames of the author's code; only operators may see it.
    """

    __slots__ = (
        "_history",
        "call",
        "client",
        "exception",
        "id",
        "is_asking",
        "is_dropped",
        "is_task",
        "layers",
        "logs",
        "principal",
        "progress",
        "result",
        "seconds",
        "size",
        "started",
    )

    def __init__(self, history: CallHistory, number: int, call: ToolCall, ctx: RunningCall) -> None:
        self._history = history
        self.client = ctx.client_info
        # The requests of tasks have no transport.
        if not self.client.transport:
            self.client = self.client._replace(transport="http")
        self.call = call
        self.id = number
        self.principal = ctx.principal
        self.started = time.time()
        self.seconds: float | None = None
        self.result: ToolResult | None = None
        self.progress: tuple[float, float | None, str | None] | None = None
        self.layers: list[LayerTime] | None = None
        self.logs: deque[tuple[str, Any, str | None]] | None = None
        self.exception = ""
        self.is_asking = False
        self.is_task = ctx.is_task
        self.is_dropped = False
        self.size = 0

    @property
    def name(self) -> str:
        """The name of the tool or prompt, or the URI of the resource."""
        return self.call.name

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Record the progress of the call."""
        self.progress = (progress, total, message)
        self._report_change()

    def report_log(self, level: str, data: Any, logger: str | None) -> None:
        """Record a log message. If it is too large, only its size is kept."""
        if self.logs is None:
            self.logs = deque(maxlen=MAX_LOGS)
        size = estimate_size(data)
        if size > MAX_LOG_SIZE:
            data = f"(a message of more than {MAX_LOG_SIZE // 1024} KiB)"
        self.logs.append((level, data, logger))
        self._report_change()

    def report_asking(self, *, is_asking: bool) -> None:
        """Record whether the call waits for an answer."""
        self.is_asking = is_asking
        self._report_change()

    def report_exception(self, error: BaseException) -> None:
        """Record the text of an exception, because the exception itself would keep the objects of its frames alive."""
        # Most calls raise no exception.
        from mcp_bridge._runtime.tracebacks import format_exception

        text = format_exception(error)
        if len(text) > MAX_EXCEPTION:
            # The first line may begin in the middle of a secret, which would not be recognised.
            text = text[-MAX_EXCEPTION:].partition("\n")[2]
        self.exception = text

    def end(self, result: ToolResult | None) -> None:
        """Record the end of the call."""
        self.seconds = time.time() - self.started
        self.result = result
        self._history.keep_ended(self)

    def update_size(self) -> None:
        """Estimate the bytes of the arguments and the result, and drop them if they are too large to be kept."""
        try:
            self.size = estimate_size(self.call.arguments) + estimate_result_size(self.result)
            for _, data, _ in self.logs or ():
                self.size += estimate_size(data)
            self.size += len(self.exception)
        except Exception:
            # Callers in process can pass objects of any kind.
            self.size = TOO_LARGE
        if self.size > MAX_SIZE:
            self.drop_values()

    def drop_values(self) -> None:
        """Release the arguments and the result."""
        self.call = replace(self.call, arguments=None)
        self.is_dropped = True
        self.logs = None
        self.exception = ""
        self.size = 0
        if self.result is not None:
            self.result = ToolResult(success=self.result.success, code=self.result.code)

    def _report_change(self) -> None:
        if self._history.listener is not None:
            self._history.listener(self)


class CallHistory:
    """Observes the calls of a pipeline (see `CallObserver`), and keeps track of connected handshake clients.

    `last_id` is the id of the last call of an earlier process. `on_end` receives each call that has ended.
    """

    def __init__(self, last_id: int = 0) -> None:
        self.listener: Callable[[CallRecord], None] | None = None
        self.on_end: Callable[[CallRecord], None] | None = None
        self._connected: dict[tuple[ClientInfo, str | None], float] = {}
        self._running: dict[int, CallRecord] = {}
        self._ended: deque[CallRecord] = deque(maxlen=MAX_UNWATCHED)
        self._last_id = last_id

    def begin_call(self, call: ToolCall, ctx: RunningCall) -> CallRecord:
        """Record the beginning of a call."""
        self._last_id += 1
        record = CallRecord(self, self._last_id, call, ctx)
        self._running[record.id] = record
        if self.listener is not None:
            record.layers = []
            self.listener(record)
        return record

    def keep_ended(self, record: CallRecord) -> None:
        """Move a call to those that have ended, and drop the values of old calls if all exceed `MAX_BYTES`."""
        del self._running[record.id]
        self._ended.append(record)
        is_plain = record.logs is None and not record.exception
        if not (is_plain and is_small(record.call.arguments, record.result)):
            record.update_size()
            self._drop_oldest()
        if self.listener is not None:
            self.listener(record)
        if self.on_end is not None:
            self.on_end(record)

    def set_listener(self, listener: Callable[[CallRecord], None] | None) -> None:
        """Call `listener` with each record that changes, and measure layers. Without a listener, keep fewer calls."""
        self.listener = listener
        limit = MAX_UNWATCHED if listener is None else MAX_RECORDS
        self._ended = deque(self._ended, limit)

    def find_record(self, number: int) -> CallRecord | None:
        """Return the call with this id, or None if there is none."""
        if number in self._running:
            return self._running[number]
        for record in self._ended:
            if record.id == number:
                return record
        return None

    def list_records(self) -> list[CallRecord]:
        """List the calls, the latest first."""
        return sorted([*self._running.values(), *self.list_ended()], key=attrgetter("id"), reverse=True)

    def list_ended(self) -> Iterator[CallRecord]:
        """Yield the finished calls, in the order in which they finished."""
        return iter(self._ended)

    def add_client(self, info: ClientInfo, principal: str | None) -> ClientRow:
        """Add a connected client, and return its row."""
        row = ClientRow(info, principal, time.time())
        self._connected[info, principal] = row.since
        return row

    def remove_client(self, info: ClientInfo, principal: str | None) -> None:
        """Remove a disconnected client."""
        self._connected.pop((info, principal), None)

    def list_clients(self) -> list[ClientRow]:
        """List the connected clients with a session, and those without one that have calls in the history."""
        rows = {key: ClientRow(*key, since) for key, since in self._connected.items()}
        for record in reversed(self.list_records()):
            key = record.client, record.principal
            if key not in rows and not record.client.session:
                rows[key] = ClientRow(*key, record.started)
            if key in rows:
                rows[key].calls += 1
        return list(rows.values())

    def _drop_oldest(self) -> None:
        """If all values exceed `MAX_BYTES`, drop those of the oldest calls until half of `MAX_BYTES` is left.

        Each sum visits all records, so it frees enough for many calls.
        """
        size = sum([record.size for record in self._ended])
        if size <= MAX_BYTES:
            return
        for record in self._ended:
            if size <= MAX_BYTES // 2:
                return
            size -= record.size
            record.drop_values()


def format_state(record: CallRecord) -> str:
    """Return `running`, `asking`, `ok`, `error` or `cancelled`."""
    if record.seconds is None:
        return "asking" if record.is_asking else "running"
    if record.result is None:
        return "cancelled"
    return "error" if record.result.is_error else "ok"
