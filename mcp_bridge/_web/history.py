"""The latest calls and clients of a server, in bounded memory.

If a server has a page, each of its calls is recorded, whether or not a page is open. This must not slow calls down, so
a call only adds a record that refers to its arguments and its result. Everything else is computed when a page asks for
it. A record goes through these states:

1. running: `begin_call` adds it to `_running`. If a page is open, `listener` gets each change, and layers are measured.
2. ended: `keep_ended` moves it to `_ended`, which has room for the latest calls. If the call has only a few short
   values (`_is_small`, the usual case), nothing else happens.
3. dropped: the size of any other call is estimated. If its values are too large, they are released immediately. If all
   values together exceed `MAX_BYTES`, those of the oldest calls are released. The rest of the record stays.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from mcp_bridge._contracts.observation import ClientInfo, LayerTime
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult

MAX_RECORDS = 1000
"""The maximum number of ended calls while a page is open."""
MAX_UNWATCHED = 200
"""The maximum number of ended calls while no page is open. So few records are still in the processor's cache when they
are released, so releasing them is fast."""
MAX_BYTES = 32 * 1024 * 1024
"""The approximate maximum size of all arguments and results, in bytes; the oldest are dropped first."""
MAX_SIZE = 1024 * 1024
"""The maximum size of the arguments and the result of one call after its end, in bytes."""
VALUE_SIZE = 64
"""The approximate memory of a value without its text, in bytes."""
MAX_VALUES = 4000
"""The maximum number of values that an estimate visits. Data with more counts as too large."""
TOO_LARGE = MAX_SIZE + 1
"""The estimated size of values that are too large to be kept."""
MAX_SMALL_TEXT = 1024
"""The maximum number of characters of each text of a small call."""
MAX_SMALL_ARGUMENTS = 8
"""The maximum number of arguments of a small call."""


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
    the values in bytes; 0 for small ones.
    """

    __slots__ = (
        "_history",
        "call",
        "client",
        "id",
        "is_dropped",
        "layers",
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
        self.is_dropped = False
        self.size = 0

    @property
    def name(self) -> str:
        """The name of the tool or prompt, or the URI of the resource."""
        return self.call.name

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Record the progress of the call."""
        self.progress = (progress, total, message)
        if self._history.listener is not None:
            self._history.listener(self)

    def end(self, result: ToolResult | None) -> None:
        """Record the end of the call."""
        self.seconds = time.time() - self.started
        self.result = result
        self._history.keep_ended(self)

    def update_size(self) -> None:
        """Estimate the bytes of the arguments and the result, and drop them if they are too large to be kept."""
        try:
            self.size = _estimate_size(self.call.arguments) + _estimate_result_size(self.result)
        except Exception:
            # Callers in process can pass objects of any kind.
            self.size = TOO_LARGE
        if self.size > MAX_SIZE:
            self.drop_values()

    def drop_values(self) -> None:
        """Release the arguments and the result."""
        self.call = replace(self.call, arguments=None)
        self.is_dropped = True
        self.size = 0
        if self.result is not None:
            self.result = ToolResult(success=self.result.success, code=self.result.code)


class CallHistory:
    """Observes the calls of a pipeline (see `CallObserver`), and keeps track of connected handshake clients."""

    def __init__(self) -> None:
        self.listener: Callable[[CallRecord], None] | None = None
        self._connected: dict[tuple[ClientInfo, str | None], float] = {}
        self._running: dict[int, CallRecord] = {}
        self._ended: deque[CallRecord] = deque(maxlen=MAX_UNWATCHED)
        self._last_id = 0

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
        if not _is_small(record.call.arguments, record.result):
            record.update_size()
            self._drop_oldest()
        if self.listener is not None:
            self.listener(record)

    def set_listener(self, listener: Callable[[CallRecord], None] | None) -> None:
        """Call `listener` with each record that changes, and measure layers. Without a listener, keep fewer calls."""
        self.listener = listener
        limit = MAX_UNWATCHED if listener is None else MAX_RECORDS
        self._ended = deque(self._ended, limit)

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
    """Return `running`, `ok`, `error` or `cancelled`."""
    if record.seconds is None:
        return "running"
    if record.result is None:
        return "cancelled"
    return "error" if record.result.is_error else "ok"


def _estimate_size(value: Any) -> int:
    """Return the approximate size of a value in bytes, or `TOO_LARGE` if it exceeds `MAX_SIZE`."""
    # A text is the usual case.
    if type(value) is str:
        return VALUE_SIZE + len(value)
    size = 0
    count = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        count += 1
        size += VALUE_SIZE
        if isinstance(item, str | bytes | bytearray):
            size += len(item)
        elif isinstance(item, Mapping):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += item
        if size > MAX_SIZE or count + len(waiting) > MAX_VALUES:
            return TOO_LARGE
    return size


def _is_small(arguments: Any, result: ToolResult | None) -> bool:
    """Return whether a call has only a few short values. This costs less than an estimate."""
    if type(arguments) is not dict or len(arguments) > MAX_SMALL_ARGUMENTS:
        return False
    for key, value in arguments.items():
        value_type = type(value)
        if type(key) is not str or len(key) > MAX_SMALL_TEXT:
            return False
        if value_type is str:
            if len(value) > MAX_SMALL_TEXT:
                return False
        elif value_type is not int and value_type is not float and value_type is not bool and value is not None:
            return False
    if result is None:
        return True
    if result.content is not None or result.meta is not None or result.error is not None:
        return False
    output = result.output
    return output is None or (type(output) is str and len(output) <= MAX_SMALL_TEXT)


def _estimate_result_size(result: ToolResult | None) -> int:
    """Return the approximate size of the output, the content and the metadata of a result, in bytes."""
    if result is None:
        return 0
    if result.encoded is not None and result.encoded.output is result.output:
        # The output is encoded already, so its size is known. The result keeps both the output and its text.
        size = 2 * result.encoded.size
    else:
        size = _estimate_size(result.output)
    for block in result.content or ():
        for name in ("text", "data", "content"):
            value = getattr(block, name, "")
            if isinstance(value, str | bytes):
                size += len(value)
    if result.meta is not None:
        size += _estimate_size(result.meta)
    return size
