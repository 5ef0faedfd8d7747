"""Ends the descendants of this process at the end of serving, on systems without a supervisor around the server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_RESOURCE_TRACKER = "multiprocessing.resource_tracker"
"""A helper process of Python. It ends with this process, and must not be killed before it has cleaned up."""


@contextlib.contextmanager
def end_descendants(grace: float) -> Iterator[None]:
    """End all descendants of this process at the end of the block, except those from before the block.

    They get SIGTERM, and SIGKILL after `grace` seconds. Children from before the block are not the server's: a shell
    that replaces itself by this command passes its children on. Daemons have left the tree, and are not found.
    """
    import psutil

    this = psutil.Process()
    before = set(this.children(recursive=True))
    try:
        yield
    finally:
        processes = []
        for process in this.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                is_helper = any(_RESOURCE_TRACKER in word for word in process.cmdline())
                if process in before or is_helper or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                processes.append(process)
                process.terminate()
                # A stopped process does not handle SIGTERM.
                process.resume()
        _, alive = psutil.wait_procs(processes, timeout=grace)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                for descendant in (*process.children(recursive=True), process):
                    descendant.kill()
