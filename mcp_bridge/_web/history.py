"""The latest calls and clients of a server, in bounded memory.

A call adds a record that refers to its arguments and its result. Everything else is computed when a page asks.
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
"""The maximum number of finished calls that are kept while a page is open."""
MAX_UNWATCHED = 200
"""The same while no page is open: few enough to be in the processor's cache when they are released."""
MAX_BYTES = 32 * 1024 * 1024
"""The approximate maximum size of the kept arguments and results, in bytes; the oldest are dropped first."""
MAX_SIZE = 1024 * 1024
"""The size in bytes beyond which the values of a call are not kept after its end."""
VALUE_SIZE = 64
"""The approximate memory of a value besides its text, in bytes."""
MAX_VALUES = 4000
"""How many values are visited. Data with more counts as too large."""
TOO_LARGE = MAX_SIZE + 1
SMALL = 1024
"""The maximum number of characters of a small text."""
MAX_PLAIN = 8
"""The maximum number of arguments of a small call."""


class ClientRow:
    """A client: what it has declared, and how many of the kept calls it has made. `since` is in seconds since 1970."""

    __slots__ = ("calls", "info", "principal", "since")

    def __init__(self, info: ClientInfo, principal: str | None, since: float) -> None:
        self.info = info
        self.principal = principal
        self.since = since
        self.calls = 0


class CallRecord:
    """One call (see `ObservedCall`). Its arguments and `result` are not copies, and may be dropped.

    `seconds` is None while the call runs; `result` is also None if it was cancelled. `size` is about how many bytes the
    values take; small ones are not counted.
    """

    __slots__ = (
        *("_history", "call", "client", "id", "is_dropped", "layers", "principal", "progress"),
        *("result", "seconds", "size", "started"),
    )

    def __init__(self, history: CallHistory, number: int, call: ToolCall, ctx: RunningCall) -> None:
        self._history = history
        info = ctx.client_info
        self.client = info if info.transport else info._replace(transport="http")  # the requests of tasks have none
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
        if (listener := self._history.listener) is not None:
            listener(self)

    def end(self, result: ToolResult | None) -> None:
        """Record the end of the call."""
        self.seconds, self.result = time.time() - self.started, result
        self._history.keep_ended(self)

    def update_size(self) -> None:
        """Estimate the bytes of the arguments and the result, and drop them if they are too large to be kept."""
        try:
            self.size = _estimate_size(self.call.arguments) + _estimate_result_size(self.result)
        except Exception:  # callers in process can pass objects of any kind
            self.size = TOO_LARGE
        if self.size > MAX_SIZE:
            self.drop_values()

    def drop_values(self) -> None:
        """Release the arguments and the result."""
        self.call, self.is_dropped, self.size = replace(self.call, arguments=None), True, 0
        if (result := self.result) is not None:
            self.result = ToolResult(success=result.success, code=result.code)


class CallHistory:
    """Observes the calls of a pipeline (see `CallObserver`), and keeps track of connected handshake clients."""

    def __init__(self) -> None:
        self.listener: Callable[[CallRecord], None] | None = None
        self._connected: dict[tuple[ClientInfo, str | None], float] = {}
        self._running: dict[int, CallRecord] = {}
        self._ended: deque[CallRecord] = deque(maxlen=MAX_UNWATCHED)
        self._calls = 0

    def begin_call(self, call: ToolCall, ctx: RunningCall) -> CallRecord:
        """Record a call that begins."""
        self._calls = number = self._calls + 1
        record = self._running[number] = CallRecord(self, number, call, ctx)
        if self.listener is not None:
            record.layers = []
            self.listener(record)
        return record

    def keep_ended(self, record: CallRecord) -> None:
        """Move a call to those that have ended, and keep to `MAX_BYTES`."""
        del self._running[record.id]
        self._ended.append(record)
        if not _is_small(record.call.arguments, record.result):
            record.update_size()
            self._drop_oldest()
        if self.listener is not None:
            self.listener(record)

    def set_listener(self, listener: Callable[[CallRecord], None] | None) -> None:
        """Call `listener` with each record that changes, and measure layers; with None, keep fewer calls."""
        self.listener = listener
        self._ended = deque(self._ended, MAX_UNWATCHED if listener is None else MAX_RECORDS)

    def list_records(self) -> list[CallRecord]:
        """List the calls, the latest first."""
        return sorted([*self._running.values(), *self.list_ended()], key=attrgetter("id"), reverse=True)

    def list_ended(self) -> Iterator[CallRecord]:
        """Yield the finished calls, in the order in which they finished."""
        return iter(self._ended)

    def add_client(self, info: ClientInfo, principal: str | None) -> ClientRow:
        """Add a client that has connected, and return its row."""
        now = self._connected[info, principal] = time.time()
        return ClientRow(info, principal, now)

    def remove_client(self, info: ClientInfo, principal: str | None) -> None:
        """Remove a client that has disconnected."""
        self._connected.pop((info, principal), None)

    def list_clients(self) -> list[ClientRow]:
        """List the clients that are connected, and those without a session that have made one of the kept calls."""
        rows = {key: ClientRow(*key, since) for key, since in self._connected.items()}
        for record in reversed(self.list_records()):
            key = record.client, record.principal
            if key not in rows and not record.client.session:
                rows[key] = ClientRow(*key, record.started)
            if key in rows:
                rows[key].calls += 1
        return list(rows.values())

    def _drop_oldest(self) -> None:
        """Drop the values of the oldest calls if all together have too many bytes."""
        excess = sum([record.size for record in self._ended]) - MAX_BYTES
        if excess <= 0:
            return
        excess += MAX_BYTES // 2
        for record in self._ended:
            excess -= record.size
            record.drop_values()
            if excess <= 0:
                return


def format_state(record: CallRecord) -> str:
    """Return `running`, `ok`, `error` or `cancelled`."""
    if record.seconds is None:
        return "running"
    if record.result is None:
        return "cancelled"
    return "error" if record.result.is_error else "ok"


def _estimate_size(value: Any) -> int:
    """Return the approximate size of a value in bytes, or `TOO_LARGE` if it exceeds `MAX_SIZE`."""
    if type(value) is str:  # the usual case
        return VALUE_SIZE + len(value)
    size, visited, waiting = 0, 0, [value]
    while waiting:
        one = waiting.pop()
        visited += 1
        size += VALUE_SIZE
        if isinstance(one, str | bytes | bytearray):
            size += len(one)
        elif isinstance(one, Mapping):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
        if size > MAX_SIZE or visited + len(waiting) > MAX_VALUES:
            return TOO_LARGE
    return size


def _is_small(arguments: Any, result: ToolResult | None) -> bool:
    """Whether a call has only a few short values. This costs less than an estimate."""
    if type(arguments) is not dict or len(arguments) > MAX_PLAIN:
        return False
    for key, value in arguments.items():
        kind = type(value)
        if type(key) is not str or len(key) > SMALL:
            return False
        if kind is str:
            if len(value) > SMALL:
                return False
        elif kind is not int and kind is not float and kind is not bool and value is not None:
            return False
    if result is None:
        return True
    if result.content is not None or result.meta is not None or result.error is not None:
        return False
    output = result.output
    return output is None or (type(output) is str and len(output) <= SMALL)


def _estimate_result_size(result: ToolResult | None) -> int:
    """Return the approximate size of the output, the content and the metadata of a result, in bytes."""
    if result is None:
        return 0
    if result.encoded is not None and result.encoded.output is result.output:
        size = 2 * result.encoded.size  # the output and its text
    else:
        size = _estimate_size(result.output)
    if result.content is None and result.meta is None:  # the usual case
        return size
    for block in result.content or ():
        for name in ("text", "data", "content"):
            value = getattr(block, name, "")
            size += len(value) if isinstance(value, str | bytes) else 0
    return size + (_estimate_size(result.meta) if result.meta is not None else 0)
