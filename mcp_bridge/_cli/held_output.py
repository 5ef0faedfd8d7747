"""Holds the output of everything else while a question is open on the terminal."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TextIO

from mcp_bridge._runtime.platform import system

STDOUT, STDERR = 1, 2


@contextlib.contextmanager
def hold_output() -> Iterator[TextIO]:
    """Hold what this process writes to the terminal until the block ends, and yield a stream for the question itself.

    Logs, progress and what tools print would otherwise appear between the question and the user's answer. Descriptors
    are redirected, because libraries in other languages and child processes write to them, too.
    """
    descriptors = [STDERR]
    # For a local call, stdout leads to stderr, and has what tools print.
    with contextlib.suppress(OSError):
        if os.path.sameopenfile(STDOUT, STDERR):
            descriptors.append(STDOUT)
    encoding = sys.stderr.encoding
    with (
        tempfile.TemporaryFile() as held,
        open(os.dup(STDERR), "w", encoding=encoding, errors="backslashreplace") as terminal,
    ):
        _flush_streams()
        copies = [os.dup(descriptor) for descriptor in descriptors]
        for descriptor in descriptors:
            system.redirect_descriptor(held.fileno(), descriptor)
        try:
            yield terminal
        finally:
            _flush_streams()
            for descriptor, copy in zip(descriptors, copies, strict=True):
                system.redirect_descriptor(copy, descriptor)
                os.close(copy)
            held.seek(0)
            shutil.copyfileobj(held, terminal.buffer)


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A tool may have replaced the stream by anything.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
