"""Definitions of other servers that wait for the user, and their acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bridge._contracts.source import Source
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._sources.upstream.source import UpstreamSource
from mcp_bridge._upstream.trust.fingerprints import compute_fingerprint
from mcp_bridge._upstream.trust.guard import PendingDefinition


def list_pending(sources: Sequence[Source], redactor: Redactor) -> list[dict[str, Any]]:
    """List the definitions that wait, with their differences from those that the user has accepted."""
    upstream = [source for source in sources if isinstance(source, UpstreamSource)]
    return [_render_definition(source.name, one, redactor) for source in upstream for one in source.guard.pending]


async def accept_definition(sources: Sequence[Source], source: str, tool: str, fingerprint: str) -> None:
    """Accept a definition if it is the one that was shown.

    Raises LookupError for one that is not pending or has another fingerprint, and DefinitionLockError.
    """
    for one in sources:
        if one.name == source and isinstance(one, UpstreamSource):
            if not await one.guard.accept_definition(tool, fingerprint):
                raise LookupError("The definition has changed again, or was accepted already. Read the state again.")
            return
    raise LookupError("There is no source with this name.")


def _render_definition(source: str, pending: PendingDefinition, redactor: Redactor) -> dict[str, Any]:
    lines: list[str] = []
    for part, changes in pending.list_differences():
        lines += [f"@@ {part} @@", *changes]
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
