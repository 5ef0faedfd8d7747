"""Records the traffic between a client and a stdio server: `python -m tests.kits.oracle.recorder FOLDER COMMAND...`.

It is the server's command for the client and passes every line on. A file in the folder has the lines in their order,
each after the name of its sender.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO


def record(folder: Path, command: Sequence[str]) -> int:
    """Run a server, record its traffic until it ends, and return its exit code."""
    path = folder / f"{time.time_ns()}.log"
    with path.open("ab", buffering=0) as log, subprocess.Popen(command, stdin=-1, stdout=-1) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        # A thread that reads sys.stdin would block the exit.
        source = os.fdopen(0, "rb", closefd=False)
        arguments = (source, server.stdin, log, b"client ")
        # The thread is a daemon, because a client may never close its end.
        threading.Thread(target=_copy, args=arguments, daemon=True).start()
        _copy(server.stdout, sys.stdout.buffer, log, b"server ")
        return server.wait()


def _copy(source: IO[bytes], sink: IO[bytes], log: IO[bytes], sender: bytes) -> None:
    """Copy lines. Record a line first, so that its effects are recorded after it."""
    try:
        for line in source:
            log.write(sender + line)
            sink.write(line)
            sink.flush()
        sink.close()
    except BrokenPipeError:
        return


if __name__ == "__main__":
    raise SystemExit(record(Path(sys.argv[1]), sys.argv[2:]))
