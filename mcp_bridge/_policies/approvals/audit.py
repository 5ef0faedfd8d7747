"""The audit log of approvals: one line of JSON for each decision, with hashes instead of arguments."""

from __future__ import annotations

import json
import logging
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from mcp_bridge._policies.approvals.decisions import ApprovalDecision, ApprovalSubject
from mcp_bridge._runtime.platform import system

logger = logging.getLogger("mcp_bridge.approvals")

WRITE_TIMEOUT = 5.0
"""Seconds that writing a line may take."""
# With OPEN_NOW, opening a FIFO does not wait for a reader. `_append` rejects everything but regular files.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | system.OPEN_NOW | system.OPEN_BINARY


class AuditLog:
    """An append-only file for its owner alone. A failure to write is logged, and delays no call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def append_decision(self, subject: ApprovalSubject, decision: ApprovalDecision) -> None:
        """Append one decision, even while the call is being cancelled."""
        line = json.dumps(_build_record(subject, decision)).encode() + b"\n"
        with anyio.move_on_after(WRITE_TIMEOUT, shield=True) as scope:
            try:
                await to_thread.run_sync(self._append, line, abandon_on_cancel=True)
            except OSError as error:
                logger.error("cannot write to the audit log %s: %s", self._path, error.strerror or error)
        if scope.cancelled_caught:
            logger.error("cannot write to the audit log %s: it takes too long", self._path)

    def _append(self, line: bytes) -> None:
        """Append with one write, so that lines of several processes stay whole."""
        descriptor = os.open(self._path, _FLAGS, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is not a regular file")
            if os.write(descriptor, line) != len(line):
                raise OSError("the line was written only in part")
        finally:
            os.close(descriptor)


def _build_record(subject: ApprovalSubject, decision: ApprovalDecision) -> dict[str, Any]:
    record: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "tool": subject.tool,
        "arguments": subject.arguments,
        "session": subject.session,
        "principal": subject.principal,
        "decision": decision.scope,
        "how": decision.how,
        "seconds": None if decision.seconds is None else round(decision.seconds, 3),
    }
    if decision.user:
        record["user"] = decision.user
    if decision.is_hurried:
        record["hurried"] = True
    return record
