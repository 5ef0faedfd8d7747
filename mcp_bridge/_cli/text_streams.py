"""Sets the encoding of the standard streams."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from mcp_bridge._runtime.platform import system


def configure_streams() -> None:
    """Use the encoding of the system, with escapes for characters that it lacks, so that any text can be printed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=system.ENCODING, errors="backslashreplace")
    if system.ENCODING is not None and isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding=system.ENCODING)
