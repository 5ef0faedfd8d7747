"""Reads records of the audit trail for the page, a few at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from mcp_bridge._policies.audit_trail.reader import AuditQuery, read_page
from mcp_bridge._web.viewer import Viewer

FILTERS = {"tool": "name", "principal": "principal", "outcome": "outcome", "since": "since", "until": "until"}
"""The parameters of a request, except `text` and `before`, and the fields of the query that they set."""


def read_records(path: Path, query: str, viewer: Viewer) -> dict[str, Any]:
    """Return a page of the matching records: `{"rows": [...], "next": cursor or null}`, the latest first.

    `query` is the query string of a request. Raises ValueError for an invalid one, and OSError if the file cannot be
    read.
    """
    names = [*FILTERS, "text", "before"]
    parameters = {name: values[-1] for name, values in parse_qs(query).items()}
    for name in sorted(parameters.keys() - names):
        raise ValueError(f"Unknown parameter '{name}'. Known parameters: {', '.join(names)}.")
    before = parameters.get("before")
    if before is not None and not (before.isdecimal() and len(before) < 16):
        raise ValueError("`before` must be the `next` of an earlier response.")
    fields = {field: parameters.get(name) for name, field in FILTERS.items()}
    filters = AuditQuery(**fields, text=parameters.get("text"))
    if not viewer.is_operator:
        if viewer.principal is None or filters.principal not in (None, viewer.principal):
            return {"rows": [], "next": None}
        filters = filters._replace(principal=viewer.principal)
    # The first recorded call creates the file.
    if not path.exists():
        return {"rows": [], "next": None}
    return read_page(path, filters, before=int(before) if before is not None else None)
