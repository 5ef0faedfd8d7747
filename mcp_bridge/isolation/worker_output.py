"""The output of a worker, which is read from its own pipe and written to stderr at a limited rate.

A worker that had the bridge's stderr itself could truncate or read the log file behind it, even from a sandbox, because
`/proc/self/fd/2` opens the file again. It could also make a shared pipe nonblocking.
"""

from __future__ import annotations

import subprocess
import sys

import anyio
from anyio.abc import ByteReceiveStream

from mcp_bridge.runtime.stderr_relay import READER_TIMEOUT, write_nowait
from mcp_bridge.runtime.token_bucket import TokenBucket

STDERR = None if sys.platform == "win32" else subprocess.PIPE
"""The stderr of workers, as subprocess names it. On Windows they inherit that of the bridge."""
RATE, BURST = 1024**2, 4 * 1024**2
"""Bytes per second in the long run and at once; a worker that prints more has to wait."""
_READ = 65_536
_PAUSE = 0.02
"""Seconds between two attempts to write to a stderr that is full."""


async def relay_output(output: ByteReceiveStream, target: int = 2) -> None:
    """Write what a worker prints to `target`. Output that cannot be written within a second is dropped."""
    budget = TokenBucket(rate=RATE, burst=BURST)
    while True:
        try:
            data = await output.receive(_READ)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, RuntimeError):
            return  # RuntimeError is uvloop's for a closed stream
        budget.charge(len(data))
        with anyio.move_on_after(READER_TIMEOUT):
            while data := data[write_nowait(target, data) :]:  # noqa: ASYNC110 - a descriptor of any kind
                await anyio.sleep(_PAUSE)
        await budget.wait_while_empty()
