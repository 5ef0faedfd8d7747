"""Calls and clients as JSON for the page: without secrets, and truncated."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice, zip_longest
from typing import Any

from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image, Text
from mcp_bridge._contracts.observation import ClientInfo
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._json_schema.secret_names import find_secret_values
from mcp_bridge._protocol.wire.redacted_values import redact_values
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._web.history import CallRecord, ClientRow, format_state

MAX_TEXT = 4000
"""The maximum number of characters of a text that the page shows."""
MAX_READ = 64 * 1024
"""The maximum number of characters of a text that are searched for secrets: more, so that none is truncated."""
MAX_ITEMS = 100
"""The maximum number of items of a list or an object."""
MAX_VALUES = 1000
"""The maximum number of values of the arguments, and of the result."""
MAX_LEVELS = 12
SERIES = 200
"""The maximum number of calls in the latency chart of a tool."""
_DROPPED = "(no longer kept)"


class ValueTruncator:
    """Truncates the values of one call: each text to `most` characters and, unless `is_counted`, their number."""

    def __init__(self, most: int, *, is_counted: bool = False) -> None:
        self._most = most
        self._items, self._left = (sys.maxsize, sys.maxsize) if is_counted else (MAX_ITEMS, MAX_VALUES)

    def truncate_value(self, value: Any, level: int = 0) -> Any:
        """Return JSON data in which everything that is too long is truncated."""
        self._left -= 1
        if isinstance(value, str):
            return value if len(value) <= self._most else f"{value[: self._most]}… ({len(value)} characters)"
        if isinstance(value, Mapping | list | tuple) and value and (level > MAX_LEVELS or self._left <= 0):
            return "…"
        if isinstance(value, Mapping):
            items = self._take(value.items())
            shown = {
                self.truncate_value(str(key), level + 1): self.truncate_value(item, level + 1) for key, item in items
            }
            return shown | ({"…": f"{len(value) - len(shown)} more"} if len(shown) < len(value) else {})
        if isinstance(value, list | tuple):
            rows = [self.truncate_value(item, level + 1) for item in self._take(value)]
            return rows + ([f"… {len(value) - len(rows)} more"] if len(rows) < len(value) else [])
        return value

    def _take(self, values: Any) -> Iterator[Any]:
        for value in islice(values, self._items):
            if self._left <= 0:
                return
            yield value


def render_call(record: CallRecord, redactor: Redactor) -> dict[str, Any]:
    """Return a call as JSON (docs/page-api.md, "A call")."""
    own = Redactor(_find_secrets(record.call.arguments))
    result = record.result
    progress = record.progress
    row: dict[str, Any] = {
        "id": record.id,
        "tool": redactor.redact_text(record.name)[:MAX_TEXT],
        "kind": record.call.kind,
        "client": identify_client(record.client, record.principal),
        "client_name": _format_client_name(record.client, redactor),
        "principal": record.principal,
        "started": record.started,
        "duration_ms": round(record.seconds * 1000, 3) if record.seconds is not None else None,
        "state": format_state(record),
        "code": result.code if result is not None else None,
        "progress": None,
        "arguments": _DROPPED if record.is_dropped else _render_value(record.call.arguments, own, redactor),
        "result": None,
        "layers": list(_list_layers(record)),
    }
    if progress is not None:
        message = redactor.redact_text(own.redact_text(str(progress[2])))[:MAX_TEXT] if progress[2] else None
        row["progress"] = {"progress": progress[0], "total": progress[1], "message": message}
    if result is not None:
        row["result"] = _DROPPED if record.is_dropped else _render_value(_describe_result(result), own, redactor)
    return row


def _format_client_name(info: ClientInfo, redactor: Redactor) -> str:
    name = info.name or "unknown"
    return redactor.redact_text(f"{name} {info.version}" if info.version else name)[:MAX_TEXT]


def identify_client(info: ClientInfo, principal: str | None) -> str:
    """Return an id of a client for pages. It discloses nothing, such as the key of the client's session."""
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
    """Return for each tool how many of these calls have ended, how many failed, and their durations."""
    calls: dict[str, list[CallRecord]] = defaultdict(list)
    for record in records:
        if record.call.kind == "tool" and record.seconds is not None:
            calls[record.name].append(record)
    return {name: _summarize_tool(of_tool) for name, of_tool in calls.items()}


def _summarize_tool(records: list[CallRecord]) -> dict[str, Any]:
    series = [[record.started, round((record.seconds or 0.0) * 1000, 3)] for record in records]
    durations = sorted(duration for _, duration in series)
    return {
        "count": len(records),
        "errors": sum(format_state(record) == "error" for record in records),
        "p50_ms": durations[len(durations) // 2],
        "p95_ms": durations[len(durations) * 95 // 100],
        "series": series[-SERIES:],
    }


def _list_layers(record: CallRecord) -> Iterator[dict[str, Any]]:
    """Yield the layers that a call has entered, with the time spent in each, excluding the layers inside it."""
    layers = [layer for layer in record.layers or () if layer.is_entered]
    for layer, inner in zip_longest(layers, layers[1:]):
        ms = None
        if layer.seconds is not None:
            inside = (inner.seconds or 0.0) if inner is not None else 0.0
            ms = round(max(0.0, layer.seconds - inside) * 1000, 3)
        yield {"name": layer.name, "ms": ms}


def _find_secrets(arguments: Any) -> list[str]:
    try:
        return list(find_secret_values(arguments))
    except (RecursionError, RuntimeError):  # nested too deeply, or changed by another thread meanwhile
        return []


def _render_value(value: Any, *redactors: Redactor) -> Any:
    """Return a value as JSON data without secrets. A value that cannot be read is described instead."""
    try:
        plain = to_plain(ValueTruncator(MAX_READ).truncate_value(value))
        return ValueTruncator(MAX_TEXT, is_counted=True).truncate_value(redact_values(plain, *redactors))
    except (ValueError, TypeError, RecursionError, RuntimeError) as error:
        return f"(cannot be shown: {type(error).__name__})"


def _describe_result(result: ToolResult) -> Any:
    if result.is_error:
        return {"error": result.error_text}
    if not result.content:
        return result.output
    content = {"content": [_describe_block(block) for block in result.content]}
    return content if result.output is None else content | {"output": result.output}


def _describe_block(block: Content) -> Any:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image | Audio):
        return {"type": type(block).__name__.lower(), "mimeType": block.mime_type, "bytes": len(block.data)}
    if isinstance(block, EmbeddedResource):
        content = block.content if isinstance(block.content, str) else f"({len(block.content)} bytes)"
        return {"type": "resource", "uri": block.uri, "mimeType": block.mime_type, "content": content}
    return {"type": "resource_link", "uri": getattr(block, "uri", ""), "name": getattr(block, "name", "")}
