"""Opens missing standard streams, and sets the encoding of all."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from mcp_bridge._runtime.platform import system


def open_missing_streams() -> None:
    """Let standard streams that the caller has closed read nothing and discard output.

    Otherwise, the next open file would have the descriptor of such a stream, and tools would read it or write to it.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is used, which is this one.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def configure_streams() -> None:
    """Use the encoding of the system, with escapes for characters that it lacks, so that any text can be printed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=system.ENCODING, errors="backslashreplace")
    if system.ENCODING is not None and isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding=system.ENCODING)
