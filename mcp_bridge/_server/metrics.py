"""Measures the durations of messages and sessions, by the semantic conventions for MCP (gen-ai/mcp, "Metrics").

`Instrumentation` uses this module. Recorders keep the durations: OpenTelemetryRecorder here, and PrometheusMetrics.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from anyio import get_cancelled_exc_class

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, RpcError
from mcp_bridge._protocol.wire.outcomes import TABLE
from mcp_bridge._protocol.wire.tools import ERROR_CODE

OPERATION = "mcp.server.operation.duration"
SESSION = "mcp.server.session.duration"
DESCRIPTIONS = {
    OPERATION: "The duration of an MCP request or notification, from its receipt to its result.",
    SESSION: "The duration of an MCP session.",
}
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The boundaries of buckets in seconds, as the conventions require them."""
CODE = "mcp_bridge.error.code"
"""The attribute with the code of a tool's error. In the conventions, all of these are a `tool_error`."""
_HTTP = {"network.transport": "tcp", "network.protocol.name": "http"}
TRANSPORTS: Mapping[str, Mapping[str, str]] = {
    "stdio": {"network.transport": "pipe"},
    "socket": {"network.transport": "unix"},
    "http": _HTTP,
    "sse": _HTTP,
}
_CODES = frozenset(row.code for row in TABLE)
"""The codes that become attributes. Authors can invent any number of others, and each would be another time series."""


class DurationRecorder(Protocol):
    """Records durations. It has to be fast, because responses wait for it."""

    def record_duration(self, metric: str, seconds: float, attributes: Mapping[str, str]) -> None:
        """Record one duration of the metric `OPERATION` or `SESSION`."""


class OpenTelemetryRecorder:
    """Records durations in the histograms of an OpenTelemetry meter."""

    def __init__(self, meter: Any) -> None:
        self._histograms = {
            name: meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=BUCKETS)
            for name, text in DESCRIPTIONS.items()
        }

    def record_duration(self, metric: str, seconds: float, attributes: Mapping[str, str]) -> None:
        self._histograms[metric].record(seconds, attributes)


class MessageMeasurement:
    """Measures one message, from the creation of this object until its result."""

    def __init__(self, recorders: Sequence[DurationRecorder], attributes: dict[str, str]) -> None:
        self._recorders = recorders
        self._attributes = attributes
        self._started = time.perf_counter()

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Measure a block. An error in it ends the measurement."""
        try:
            yield
        except BaseException as error:
            self._record_outcome(_describe_error(error))
            raise

    def finish(self, result: Any) -> None:
        """End the measurement with a result."""
        self._record_outcome(_describe_outcome(result))

    def _record_outcome(self, outcome: Mapping[str, str]) -> None:
        record_duration(self._recorders, OPERATION, self._started, {**self._attributes, **outcome})


def record_duration(
    recorders: Sequence[DurationRecorder], metric: str, started: float, attributes: Mapping[str, str]
) -> None:
    """Record the time since `started`, a value of `time.perf_counter`."""
    seconds = time.perf_counter() - started
    for recorder in recorders:
        recorder.record_duration(metric, seconds, attributes)


def _describe_outcome(result: Any) -> Mapping[str, str]:
    """Return the attributes of a result: those of a tool's error, or none."""
    if not isinstance(result, Mapping) or result.get("isError") is not True:
        return {}
    code = (result.get("_meta") or {}).get(ERROR_CODE)
    return {"error.type": "tool_error", CODE: code if code in _CODES else "tool_error"}


def _describe_error(error: BaseException) -> Mapping[str, str]:
    if isinstance(error, get_cancelled_exc_class()):
        return {"error.type": "cancelled"}
    if isinstance(error, RpcError):
        return {"error.type": str(error.code), "rpc.response.status_code": str(error.code)}
    return {"error.type": type(error).__qualname__, "rpc.response.status_code": str(INTERNAL_ERROR)}
