"""Lists the definitions of upstreams that have changed and are not published until an operator accepts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bridge._contracts.source import Source
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._sources.upstream.source import UpstreamSource
from mcp_bridge._upstream.trust.fingerprints import compute_fingerprint
from mcp_bridge._upstream.trust.guard import PendingDefinition


def list_pending(sources: Sequence[Source], redactor: Redactor) -> list[dict[str, Any]]:
    """List the definitions that wait for an operator, with their differences from the accepted ones."""
    rows: list[dict[str, Any]] = []
    for source in sources:
        if isinstance(source, UpstreamSource):
            rows += [_render_definition(source.name, definition, redactor) for definition in source.guard.pending]
    return rows


async def accept_definition(sources: Sequence[Source], source: str, tool: str, fingerprint: str) -> None:
    """Accept the pending definition with this fingerprint. Raises LookupError without one, and DefinitionLockError."""
    upstreams = {upstream.name: upstream for upstream in sources if isinstance(upstream, UpstreamSource)}
    if source not in upstreams:
        raise LookupError("There is no source with this name.")
    if not await upstreams[source].guard.accept_definition(tool, fingerprint):
        raise LookupError("The definition has changed again, or was accepted already. Read the state again.")


def _render_definition(source: str, pending: PendingDefinition, redactor: Redactor) -> dict[str, Any]:
    lines: list[str] = []
    for section, changes in pending.list_differences():
        lines.append(f"@@ {section} @@")
        lines += changes
    row: dict[str, Any] = redactor.redact_value(
        {
            "source": source,
            "tool": str(pending.key),
            "fingerprint": compute_fingerprint(pending.current),
            "reason": "new" if pending.accepted is None else "changed",
            "diff": lines,
        }
    )
    return row
