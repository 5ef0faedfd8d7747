"""Resource limits on Linux and macOS."""

from __future__ import annotations

import contextlib
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

assert sys.platform != "win32"

WANTED = 65_536
"""The soft limit of file descriptors of a server. Each connection takes a descriptor."""
FALLBACK = 10_240
"""OPEN_MAX of macOS, which accepts this limit even where it rejects the hard limit."""


def raise_descriptor_limit() -> None:
    """Raise the soft limit to `WANTED`, or to a lower hard limit. A higher soft limit stays."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for target in (WANTED, FALLBACK):
        limit = target if hard == resource.RLIM_INFINITY else min(target, hard)
        if soft == resource.RLIM_INFINITY or soft >= limit:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def read_descriptor_limit() -> int:
    """Return the maximum number of open descriptors of this process."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED if soft == resource.RLIM_INFINITY else soft


def limit_resources(limits: Mapping[str, int], *, is_final: bool = True) -> None:
    """Lower resource limits of this process and its children. The names are those of setrlimit(2), without `RLIMIT_`.

    If `is_final`, the process cannot raise them again.
    """
    import resource

    for name, limit in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        _, hard_limit = resource.getrlimit(which)
        new_limit = limit
        if hard_limit != resource.RLIM_INFINITY:
            new_limit = min(limit, hard_limit)
        # macOS does not support a limit of the address space.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (new_limit, new_limit if is_final else hard_limit))


def ignore_file_size_signal() -> None:
    """Let writing beyond the limit of a file's size raise OSError. By default, SIGXFSZ ends the process."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
