"""Raises and reads the limit of file descriptors of this process, because each connection takes a descriptor."""

from __future__ import annotations

from contextlib import suppress

WANTED = 65_536
"""The soft limit of a server."""
FALLBACK = 10_240
"""OPEN_MAX of macOS, which accepts this limit even where it rejects the hard limit."""
UNKNOWN = 1024
"""The limit to assume on systems that report none."""


def raise_descriptor_limit() -> None:
    """Raise the soft limit to `WANTED`, or to a lower hard limit. A higher soft limit stays."""
    try:
        import resource
    except ImportError:
        # This is Windows.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for target in (WANTED, FALLBACK):
        limit = target if hard == resource.RLIM_INFINITY else min(target, hard)
        if soft == resource.RLIM_INFINITY or soft >= limit:
            return
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def read_descriptor_limit() -> int:
    """Return the maximum number of open descriptors of this process."""
    try:
        import resource
    except ImportError:
        # This is Windows.
        return UNKNOWN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED if soft == resource.RLIM_INFINITY else soft
