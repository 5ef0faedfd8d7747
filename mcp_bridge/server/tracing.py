"""OpenTelemetry spans for requests, only if a tracer provider is configured."""

from __future__ import annotations

from typing import Any


def find_tracing() -> Any:
    """Return the tracing of requests, or None if OpenTelemetry is not set up."""
    return None
