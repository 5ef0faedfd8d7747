"""Ends the remaining processes below this one at the end of serving, if there is no supervisor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_PYTHONS_OWN = "multiprocessing.resource_tracker"
"""Python's own helper. It ends with this process, and would lose its list of things to clean up."""


@contextlib.contextmanager
def end_descendants(grace: float) -> Iterator[None]:
    """At the end of the block, end every process that was started below this one inside it.

    Processes get SIGTERM, and SIGKILL after `grace` seconds. Processes from before the block stay: a shell that
    replaces itself by this command passes its children on. Daemons have left the tree, and are not found.
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
                is_helper = any(_PYTHONS_OWN in word for word in process.cmdline())
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
