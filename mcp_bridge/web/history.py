"""The latest calls and clients of a server, in bounded memory. A call adds references; JSON is made for pages only."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.observation import ClientInfo, LayerTime
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.web.value_sizes import MAX_SIZE, estimate_result_size, estimate_size

MAX_RECORDS = 1000
"""The most calls that are kept after their end."""
MAX_BYTES = 32 * 1024 * 1024
"""About how many bytes the kept arguments and results have at most; beyond that, those of the oldest calls go."""
MAX_CLIENTS = 256
MAX_TOOLS = 2000
"""The most names of tools that are counted."""


class ClientRow:
    """One client: what it has declared, and its calls. Times are seconds since 1970."""

    __slots__ = ("calls", "id", "info", "latest", "principal", "since")

    def __init__(self, number: int, info: ClientInfo, principal: str | None, now: float) -> None:
        self.id = f"c{number}"
        self.info = info
        self.principal = principal
        self.since = self.latest = now
        self.calls = 0


class ToolCounts:
    """How often a tool was called, and how often that failed."""

    __slots__ = ("calls", "errors")

    def __init__(self) -> None:
        self.calls = self.errors = 0


class CallRecord:
    """One call. `arguments` and `result` are those of the call itself, not copies, until they are dropped.

    `seconds` is None while the call runs; `result` is also None if it was cancelled.
    """

    __slots__ = (
        "_history", "arguments", "client", "id", "is_dropped", "kind", "layers", "name", "progress", "result",
        "seconds", "size", "started",
    )  # fmt: skip

    def __init__(self, history: CallHistory, number: int, call: ToolCall, client: ClientRow, started: float) -> None:
        self._history = history
        self.id = number
        self.name = call.name
        self.kind = call.kind
        self.arguments = call.arguments
        self.client = client
        self.started = started
        self.seconds: float | None = None
        self.result: ToolResult | None = None
        self.progress: tuple[float, float | None, str | None] | None = None
        self.layers: list[LayerTime] | None = None
        self.size = 0
        self.is_dropped = False

    @property
    def principal(self) -> str | None:
        return self.client.principal

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Note the progress of the call."""
        self.progress = (progress, total, message)
        self._history.report_change(self)

    def end(self, result: ToolResult | None) -> None:
        """Note the result of the call; None if it was cancelled."""
        self._history.end_call(self, result)

    def drop_values(self) -> None:
        """Release the arguments and the result, which are too large to be kept."""
        self.arguments, self.is_dropped, self.size = None, True, 0
        if self.result is not None:
            result = self.result
            self.result = ToolResult(success=result.success, error=None, code=result.code)


class CallHistory:
    """Observes the calls of a pipeline (see `CallObserver`).

    While `listener` is set, it is called with each record that changes, and the times of layers are measured.
    `client_listener` is called with each new client.
    """

    def __init__(self) -> None:
        self.listener: Callable[[CallRecord], None] | None = None
        self.client_listener: Callable[[ClientRow], None] = lambda _: None
        self.tools: dict[str, ToolCounts] = {}
        self.clients: OrderedDict[tuple[ClientInfo, str | None], ClientRow] = OrderedDict()
        self._running: dict[int, CallRecord] = {}
        self._ended: deque[CallRecord] = deque()
        self._bytes = 0
        self._calls = self._rows = 0

    def begin_call(self, call: ToolCall, ctx: CallContext) -> CallRecord:
        """Record a call that begins."""
        now = time.time()
        self._calls += 1
        client = self.find_client(ctx.client_info, ctx.principal, now)
        client.calls += 1
        client.latest = now
        record = self._running[self._calls] = CallRecord(self, self._calls, call, client, now)
        record.size = ctx.message_size or 0
        if self.listener is not None:
            record.layers = []
            self.listener(record)
        return record

    def end_call(self, record: CallRecord, result: ToolResult | None) -> None:
        """Record the end of a call."""
        del self._running[record.id]
        record.seconds, record.result = time.time() - record.started, result
        if record.kind == "tool":
            self._count_call(record.name, is_error=result is not None and bool(result.is_error))
        record.size = (record.size or estimate_size(record.arguments)) + estimate_result_size(result)
        if record.size > MAX_SIZE:
            record.drop_values()
        self._ended.append(record)
        self._bytes += record.size
        if len(self._ended) > MAX_RECORDS:
            self._bytes -= self._ended.popleft().size
        if self._bytes > MAX_BYTES:
            self._drop_oldest()
        if self.listener is not None:
            self.listener(record)

    def report_change(self, record: CallRecord) -> None:
        """Report that a running call has changed."""
        if self.listener is not None:
            self.listener(record)

    def list_records(self) -> list[CallRecord]:
        """List the calls, the latest first."""
        return sorted([*self._running.values(), *self._ended], key=lambda record: -record.id)

    def list_ended(self) -> Iterator[CallRecord]:
        """Yield the calls that have ended, in the order in which they did."""
        return iter(self._ended)

    def find_client(self, info: ClientInfo, principal: str | None, now: float) -> ClientRow:
        """Return the row of a client, which is added if it is new. The one without calls for the longest time goes."""
        key = (info, principal)
        row = self.clients.get(key)
        if row is None:
            self._rows += 1
            row = self.clients[key] = ClientRow(self._rows, info, principal, now)
            if len(self.clients) > MAX_CLIENTS:
                self.clients.popitem(last=False)
            self.client_listener(row)
        else:
            self.clients.move_to_end(key)
        return row

    def remove_client(self, info: ClientInfo, principal: str | None) -> ClientRow | None:
        """Remove a client that has disconnected, and return its row."""
        return self.clients.pop((info, principal), None)

    def _count_call(self, name: str, *, is_error: bool) -> None:
        counts = self.tools.get(name)
        if counts is None:
            if len(self.tools) >= MAX_TOOLS:
                return
            counts = self.tools[name] = ToolCounts()
        counts.calls += 1
        counts.errors += is_error

    def _drop_oldest(self) -> None:
        for record in self._ended:
            self._bytes -= record.size
            record.drop_values()
            if self._bytes <= MAX_BYTES // 2:
                return


def format_state(record: CallRecord) -> str:
    """Return `running`, `ok`, `error` or `cancelled`."""
    if record.seconds is None:
        return "running"
    if record.result is None:
        return "cancelled"
    return "error" if record.result.is_error else "ok"
