"""Ends the remaining processes below this one at the end of serving, if there is no supervisor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

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
        started = [process for process in this.children(recursive=True) if process not in before]
        _end_processes([process for process in started if _should_end(process)], grace)


def _should_end(process: psutil.Process) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE and not any(_PYTHONS_OWN in word for word in process.cmdline())
    return False


def _end_processes(processes: Sequence[psutil.Process], grace: float) -> None:
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
            # A stopped process does not handle SIGTERM.
            process.resume()
    _, alive = psutil.wait_procs(processes, timeout=grace)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            for descendant in (*process.children(recursive=True), process):
                descendant.kill()
