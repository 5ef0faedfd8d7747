"""A tracer provider with a record of its spans."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context

_NUMBERS = itertools.count(1)


class RecordedSpan(trace.NonRecordingSpan):
    """A span with a record of its data."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.parent = trace.get_current_span(options.get("context")).get_span_context()
        trace_id = self.parent.trace_id or next(_NUMBERS)
        super().__init__(trace.SpanContext(trace_id, next(_NUMBERS), is_remote=False))
        self.name = name
        self.kind = options.get("kind")
        self.links = [link.context for link in options.get("links") or ()]
        self.attributes: dict[str, Any] = dict(options.get("attributes") or {})
        self.status: tuple[Any, str | None] | None = None
        self.errors: list[BaseException] = []
        self.ends = 0

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = (status, description)

    def record_exception(self, exception: BaseException, *args: Any, **kwargs: Any) -> None:
        self.errors.append(exception)

    def end(self, end_time: int | None = None) -> None:
        self.ends += 1


class RecordingProvider(trace.TracerProvider):
    """A provider with itself as the only tracer. `spans` has all spans in the order of their start."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []

    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def start_span(self, name: str, context: Context | None = None, **options: Any) -> RecordedSpan:
        self.spans.append(RecordedSpan(name, {"context": context, **options}))
        return self.spans[-1]
