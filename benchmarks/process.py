"""Start a server, read its CPU time and memory, and end it with all its processes."""

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {"PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": ""}
"""Empty means that compiled files are written: installed packages have them, but this one is run from its source."""
PROCESS_CPU_CLOCK = 2
"""CPUCLOCK_SCHED of the kernel; with a process id it makes the clock id that clock_getcpuclockid(3) returns."""
URL = re.compile(rb"http://127\.0\.0\.1:(\d+)(/\S*)?")


class ServerFailed(Exception):
    """A server did not start, died or is silent. The message contains the end of its stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a server is started: its arguments, whether it writes its port to stderr, and its environment variables."""

    arguments: tuple[str, ...]
    http: bool = False
    names_its_port: bool = False
    env: tuple[tuple[str, str], ...] = ()


class ServerProcess:
    """One running server. Its stderr goes to a file, so that it can neither block nor get lost."""

    def __init__(self, command):
        self.port = find_free_port() if command.http and not command.names_its_port else 0
        self._command = command
        # end() closes the file.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        arguments = [sys.executable, *(word.replace("PORT", str(self.port)) for word in command.arguments)]
        pipe = subprocess.DEVNULL if command.http else subprocess.PIPE
        self.spawned = time.perf_counter()
        self.popen = subprocess.Popen(
            arguments,
            stdin=pipe,
            stdout=pipe,
            stderr=self._stderr,
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT, **dict(command.env)},
            start_new_session=True,
        )
        self._handle = psutil.Process(self.popen.pid)

    async def wait_until_listening(self, timeout):
        """Wait for the endpoint, and return its host and path. Raises ServerFailed."""
        deadline = time.monotonic() + timeout
        path = "/mcp"
        while time.monotonic() < deadline and self.popen.poll() is None:
            url = URL.search(self._read_stderr())
            if not self.port and url:
                self.port, path = int(url[1]), (url[2] or b"/mcp").decode()
            if self.port and await is_listening(self.port):
                return f"127.0.0.1:{self.port}", path
            await asyncio.sleep(0.02)
        raise self.make_error("does not listen")

    def make_error(self, problem):
        """Return an error with the problem, the state of the process and the end of its stderr."""
        state = "still running"
        if self.popen.poll() is not None:
            state = f"exit code {self.popen.returncode}"
        tail = self._read_stderr().decode(errors="replace").strip()[-2000:] or "(nothing)"
        return ServerFailed(f"{problem} ({state}); its stderr ends:\n{tail}")

    def read_cpu_seconds(self):
        """Return user and system time so far, of the server and of the processes it started."""
        ended = self._handle.cpu_times()
        running = sum(read_cpu(member) for member in self._family())
        return running + ended.children_user + ended.children_system

    def read_memory(self):
        """Return the proportional set size in bytes, of the server and of the processes it started."""
        return sum(read_memory(member) for member in self._family())

    def end(self):
        """End the process and its children, and kill them if they do not end. Never raises."""
        with contextlib.suppress(psutil.Error):
            family = self._family()
            for member in family:
                with contextlib.suppress(psutil.Error):
                    member.terminate()
            _, alive = psutil.wait_procs(family, timeout=3)
            for member in alive:
                with contextlib.suppress(psutil.Error):
                    member.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=3)
        self._stderr.close()

    def _family(self):
        return [*self._handle.children(recursive=True), self._handle]

    def _read_stderr(self):
        # pread leaves the offset alone, which the server shares.
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0)


def find_free_port():
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def is_listening(port):
    """Return whether a process accepts connections on the loopback port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def read_cpu(process):
    """Return the CPU seconds of one process, 0 if it has ended. Linux counts nanoseconds, others at least ticks."""
    try:
        if sys.platform == "linux":
            return time.clock_gettime(~process.pid << 3 | PROCESS_CPU_CLOCK)
        times = process.cpu_times()
    except (OSError, psutil.Error):
        return 0.0
    return times.user + times.system


def read_memory(process):
    """Return the proportional set size of one process (elsewhere than on Linux: its unique memory), 0 if it ended."""
    try:
        memory = process.memory_full_info()
    except psutil.Error:
        return 0
    return getattr(memory, "pss", memory.uss)
