"""Handles the signals of a serving process, and ends its descendants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.process_tree import end_descendants
from mcp_bridge._runtime.stderr_relay import relay_stderr
from mcp_bridge._transports.shutdown import ShutdownSignals

if TYPE_CHECKING:
    from mcp_bridge._runtime.platform.server_supervisor import Supervisor


@contextlib.contextmanager
def manage_process(guard: Supervisor | None) -> Iterator[ShutdownSignals]:
    """Receive the signals of this process inside the block, and end its descendants after it.

    If a process guard is running, it ends the descendants, even after a crash.
    """
    cleanup = end_descendants(system.GRACE) if guard is None else contextlib.nullcontext()
    with ShutdownSignals(lasting=True, guard=guard) as signals, relay_stderr(), cleanup:
        yield signals
