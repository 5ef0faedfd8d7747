"""Chooses how this system waits for sockets and standard streams."""

import sys
from typing import Protocol

if sys.platform == "win32":
    from mcp_bridge._runtime.platform import windows_streams as streams
else:
    from mcp_bridge._runtime.platform import posix_streams as streams

__all__ = ["NonblockingWriter", "Poll", "streams"]


class Poll(Protocol):
    """Waits for events of sockets and streams (`streams.make_poll`)."""

    def register(self, descriptor: int, events: int, /) -> None:
        """Wait for these events, such as `streams.POLLIN`."""
        ...

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Return the descriptors with their events, after at most `timeout` milliseconds."""
        ...


class NonblockingWriter(Protocol):
    """Writes to a standard stream (`streams.StreamWriter`)."""

    def write_now(self, data: bytes | bytearray | memoryview, /) -> int:
        """Write as much as the stream takes now, and return the number of bytes. Raises OSError without a reader."""
        ...
