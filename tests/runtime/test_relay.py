"""stderr never waits for a reader who does not read."""

from __future__ import annotations

import array
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

from mcp_bridge._runtime.stderr_relay import relay_stderr

MUCH = 1024 * 1024


def read_to_end(number: int) -> bytes:
    """Read until the other end is closed."""
    output = b""
    while data := os.read(number, 65_536):
        output += data
    return output


def count_unread_bytes(pipe: int) -> int:
    """Return the number of unread bytes in a pipe."""
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_all_output_arrives_at_a_client_that_reads() -> None:
    source, sink = os.pipe()
    outputs: list[bytes] = []
    reader = threading.Thread(target=lambda: outputs.append(read_to_end(source)))
    reader.start()
    with relay_stderr(sink):
        os.write(sink, b"x" * MUCH)
    os.close(sink)
    reader.join(60)
    os.close(source)
    assert outputs == [b"x" * MUCH]


def test_output_to_a_client_that_does_not_read_is_dropped_and_reported() -> None:
    source, sink = os.pipe()
    outputs: list[bytes] = []
    reader = threading.Thread(target=lambda: outputs.append(read_to_end(source)))
    with relay_stderr(sink):
        for _ in range(MUCH // 1024):
            # A pipe holds a sixteenth of it.
            os.write(sink, b"x" * 1023 + b"\n")
        # There is room again before the next line is written.
        os.read(source, 65_536)
        reader.start()
        os.write(sink, b"after that")
    os.close(sink)
    reader.join(60)
    os.close(source)
    (output,) = outputs
    assert b"bytes are missing here: they were not read in time]" in output
    assert output.endswith(b"after that")


def test_dropped_output_is_reported_at_the_end() -> None:
    source, sink = os.pipe()
    outputs: list[bytes] = []
    reader = threading.Thread(target=lambda: outputs.append(read_to_end(source)))
    with relay_stderr(sink):
        for _ in range(MUCH // 1024):
            os.write(sink, b"x" * 1023 + b"\n")
        while count_unread_bytes(sink):
            # The relay drops the rest without a notice until now.
            time.sleep(0.01)
        reader.start()
    os.close(sink)
    reader.join(60)
    os.close(source)
    (output,) = outputs
    report = re.compile(rb"\n\[(\d+) bytes are missing here: they were not read in time\]\n")
    missing = sum(map(int, report.findall(output)))
    assert missing > 0
    assert len(report.sub(b"", output)) + missing == MUCH


def test_a_closed_reader_is_no_error() -> None:
    source, sink = os.pipe()
    os.close(source)
    with relay_stderr(sink):
        os.write(sink, b"not read")
    os.close(sink)


def test_files_stay_as_they_are(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        before = os.fstat(file.fileno())
        with relay_stderr(file.fileno()):
            assert os.fstat(file.fileno()) == before


def test_a_remaining_process_with_stderr_does_not_delay_the_end() -> None:
    source, sink = os.pipe()
    with relay_stderr(sink):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stderr=sink)
    os.close(sink)
    child.kill()
    child.wait()
    os.close(source)
