"""Renders calls and clients as JSON for the page. Secrets are redacted, and long values are truncated."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image, Text
from mcp_bridge._contracts.observation import ClientInfo
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._json_schema.secret_names import find_secret_values
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.protocol_versions import IN_PROCESS
from mcp_bridge._protocol.wire.redacted_values import redact_values
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._web.history import CallRecord, ClientRow, format_state

MAX_TEXT = 4000
"""The maximum number of characters of a text that the page receives."""
MAX_SEARCHED_TEXT = 64 * 1024
"""The maximum number of characters of a text that are searched for secrets. There are more of them than the page
receives, because a secret that the truncation has cut in two would not be recognised."""
MAX_ITEMS = 100
"""The maximum number of items of a list or an object."""
MAX_VALUES = 1000
"""The maximum number of values of the arguments, and of the result."""
MAX_LEVELS = 12
"""The maximum depth of nested values."""
SERIES = 200
"""The maximum number of calls in the latency chart of a tool."""
_DROPPED = "(no longer kept)"


class SavedCall(NamedTuple):
    """A call as JSON, and its details: log messages and exception."""

    row: dict[str, Any]
    details: dict[str, Any]


class ValueTruncator:
    """Truncates one value of a call: each text in it to `max_text` characters, and long lists and objects.

    With `texts_only`, it keeps all values. The number of values in all lists and objects together is limited too.
    """

    def __init__(self, max_text: int, *, texts_only: bool = False) -> None:
        self._max_text = max_text
        self._max_items = MAX_ITEMS
        self._values_left = MAX_VALUES
        if texts_only:
            self._max_items = sys.maxsize
            self._values_left = sys.maxsize

    def truncate_value(self, value: Any, level: int = 0) -> Any:
        """Return JSON data with long texts, long lists and deep values truncated."""
        self._values_left -= 1
        if isinstance(value, str):
            if len(value) <= self._max_text:
                return value
            return f"{value[: self._max_text]}… ({len(value)} characters)"
        if isinstance(value, Mapping | list | tuple) and value and (level > MAX_LEVELS or self._values_left <= 0):
            return "…"
        if isinstance(value, Mapping):
            members: dict[str, Any] = {}
            for key, item in self._take_items(value.items()):
                name = self.truncate_value(str(key), level + 1)
                members[name] = self.truncate_value(item, level + 1)
            if len(members) < len(value):
                members["…"] = f"{len(value) - len(members)} more"
            return members
        if isinstance(value, list | tuple):
            items = [self.truncate_value(item, level + 1) for item in self._take_items(value)]
            if len(items) < len(value):
                items.append(f"… {len(value) - len(items)} more")
            return items
        return value

    def _take_items(self, items: Any) -> Iterator[Any]:
        """Yield the items that may be shown. `truncate_value` counts the values while this iterates."""
        for item in islice(items, self._max_items):
            if self._values_left <= 0:
                return
            yield item


def render_call(record: CallRecord, redactor: Redactor) -> dict[str, Any]:
    """Return a call as JSON (docs/page-api.md, "A call")."""
    argument_redactor = _make_argument_redactor(record)
    info = record.client
    client = f"{info.name or 'unknown'} {info.version}".rstrip()
    row: dict[str, Any] = {
        "id": record.id,
        "tool": redactor.redact_text(record.name)[:MAX_TEXT],
        "kind": record.call.kind,
        "client": identify_client(info, record.principal),
        "client_name": redactor.redact_text(client)[:MAX_TEXT],
        "principal": record.principal,
        "started": record.started,
        "duration_ms": None,
        "state": format_state(record),
        "is_task": record.is_task,
        "code": None,
        "progress": None,
        "arguments": _DROPPED,
        "is_exact": False,
        "result": None,
        "result_is_exact": False,
        "result_bytes": None,
        "layers": _list_layers(record),
        "logs": len(record.logs or ()),
    }
    if record.seconds is not None:
        row["duration_ms"] = round(record.seconds * 1000, 3)
    if not record.is_dropped:
        row["arguments"] = _render_value(record.call.arguments, argument_redactor, redactor)
        row["is_exact"] = _is_same(row["arguments"], record.call.arguments)
    if record.progress is not None:
        progress, total, message = record.progress
        if message:
            message = redactor.redact_text(argument_redactor.redact_text(str(message)))[:MAX_TEXT]
        row["progress"] = {"progress": progress, "total": total, "message": message or None}
    if record.result is not None:
        row["code"] = record.result.code
        row["result"] = _DROPPED
        if not record.is_dropped:
            description = _describe_result(record.result)
            row["result"] = _render_value(description, argument_redactor, redactor)
            row["result_is_exact"] = record.result.content is None and _is_same(row["result"], description)
            row["result_bytes"] = _measure_result(record.result)
    return row


def render_call_details(record: CallRecord, redactor: Redactor) -> dict[str, Any]:
    """Return what only a page with this call open needs: log messages, and the exception, for operators."""
    argument_redactor = _make_argument_redactor(record)
    logs: list[dict[str, Any]] = []
    for level, data, logger in record.logs or ():
        value = _render_value({"data": data, "logger": logger}, argument_redactor, redactor)
        logs.append({"level": level, **(value if isinstance(value, Mapping) else {"data": value})})
    exception = None
    if record.exception:
        exception = redactor.redact_text(argument_redactor.redact_text(record.exception))
    return {"logs": logs, "exception": exception}


def _make_argument_redactor(record: CallRecord) -> Redactor:
    """Return a redactor of the secrets in the arguments of a call."""
    try:
        return Redactor(find_secret_values(record.call.arguments))
    except (RecursionError, RuntimeError):
        # The arguments are nested too deeply, or another thread changes them.
        return Redactor()


def identify_client(info: ClientInfo, principal: str | None) -> str:
    """Return an id of a client for pages. It is a digest, so it does not disclose the key of the client's session."""
    return sha256(repr((info, principal)).encode(errors="surrogatepass")).hexdigest()[:12]


def render_client(row: ClientRow) -> dict[str, Any]:
    """Return a client as JSON."""
    info = row.info
    return {
        "id": identify_client(info, row.principal),
        "name": info.name or "unknown",
        "version": info.version,
        "protocol": info.protocol,
        "transport": info.transport,
        "principal": row.principal,
        "since": row.since,
        "calls": row.calls,
    }


def describe_latency(records: Iterable[CallRecord]) -> dict[str, Any]:
    """Return for each tool the number of its ended calls, the number of failures, and the durations."""
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    errors: Counter[str] = Counter()
    for record in records:
        if record.call.kind == "tool" and record.seconds is not None:
            series[record.name].append((record.started, round(record.seconds * 1000, 3)))
            if format_state(record) == "error":
                errors[record.name] += 1
    latency: dict[str, Any] = {}
    for name, points in series.items():
        durations = sorted(duration for _, duration in points)
        latency[name] = {
            "count": len(points),
            "errors": errors[name],
            "p50_ms": durations[len(durations) // 2],
            "p95_ms": durations[len(durations) * 95 // 100],
            "series": points[-SERIES:],
        }
    return latency


def _list_layers(record: CallRecord) -> list[dict[str, Any]]:
    """List the layers that a call has entered, with the time spent in each, excluding the layers inside it."""
    rows: list[dict[str, Any]] = []
    inner_seconds = 0.0
    for layer in reversed(record.layers or ()):
        if not layer.is_entered:
            continue
        milliseconds = None
        if layer.seconds is not None:
            milliseconds = round(max(0.0, layer.seconds - inner_seconds) * 1000, 3)
        rows.insert(0, {"name": layer.name, "ms": milliseconds})
        inner_seconds = layer.seconds or 0.0
    return rows


def _render_value(value: Any, *redactors: Redactor) -> Any:
    """Return a value as JSON data without secrets, or a text that describes why it cannot be shown."""
    try:
        # The first truncation limits the work, the second one what the page receives. Only texts are longer than that.
        plain = to_plain(ValueTruncator(MAX_SEARCHED_TEXT).truncate_value(value))
        return ValueTruncator(MAX_TEXT, texts_only=True).truncate_value(redact_values(plain, *redactors))
    except (ValueError, TypeError, RecursionError, RuntimeError) as error:
        return f"(cannot be shown: {type(error).__name__})"


def _is_same(shown: Any, value: Any) -> bool:
    """Return whether nothing of a value was redacted, truncated or converted."""
    try:
        return bool(shown == value)
    except Exception:
        # Callers in process can pass objects of any kind.
        return False


def _measure_result(result: ToolResult) -> int | None:
    """Return the bytes of a result for the model: its content, or its output as JSON. None if they are unknown."""
    if result.is_error:
        return len(result.error_text.encode(errors="replace"))
    try:
        if not result.content:
            return len(dump_json(to_plain(result.output)))
        return sum(len(dump_json(render_block(block, IN_PROCESS))) for block in result.content)
    except (ValueError, TypeError, RecursionError, RuntimeError):
        return None


def _describe_result(result: ToolResult) -> Any:
    if result.is_error:
        return {"error": result.error_text}
    if not result.content:
        return result.output
    description: dict[str, Any] = {"content": [_describe_block(block) for block in result.content]}
    if result.output is not None:
        description["output"] = result.output
    return description


def _describe_block(block: Content) -> Any:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image | Audio):
        return {"type": type(block).__name__.lower(), "mimeType": block.mime_type, "bytes": len(block.data)}
    if isinstance(block, EmbeddedResource):
        content = block.content if isinstance(block.content, str) else f"({len(block.content)} bytes)"
        return {"type": "resource", "uri": block.uri, "mimeType": block.mime_type, "content": content}
    return {"type": "resource_link", "uri": getattr(block, "uri", ""), "name": getattr(block, "name", "")}
