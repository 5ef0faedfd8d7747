"""Examines a module in separate processes: a new one is started whenever the module ends one."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import IO, Any, Self

from mcp_bridge.amplifier.validation.checklist import ItemFindings
from mcp_bridge.amplifier.validation.structure import ExaminedModule
from mcp_bridge.contracts.errors import BridgeError
from mcp_bridge.isolation import worker_system

START_TIMEOUT = 60.0
"""Seconds until a process must have started."""
SLACK = 2.0
"""Seconds added to the timeout of a step: the process enforces that one itself unless the module blocks it."""
GRACE = 2.0
"""Seconds that a process has to exit by itself, and then after it is signalled."""
KILL_TIMEOUT = 25.0
"""Seconds that the keeper of the process has to end everything."""
MAX_PROCESSES = 50
MAX_LINE = 65_536
"""Characters of a line that are read at once."""
STDERR_TAIL = 300
"""Characters of stderr that are kept."""
MESSAGES = frozenset({"step", "alive", "found", "kind", "over"})
GARBLED = "the module wrote to the channel of the check"
COMMAND = [sys.executable, "-P", "-m", "mcp_bridge.amplifier.validation.worker"]
Json = dict[str, Any]
_ADVICE = {
    "slow": "Wait without blocking (await), or raise --timeout",
    "item": "A module must not end the process it runs in",
}


class Probe:
    """A process that examines a module, and the messages it sends."""

    def __init__(self, order: Json, folder: str) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._stderr_tail = ""
        self._is_garbled = False
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            worker_system.wrap_command(COMMAND),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._stdin = self._process.stdin
        self._readers = [
            threading.Thread(target=target, args=(stream,), daemon=True)
            for target, stream in ((self._read_stdout, self._process.stdout), (self._read_stderr, self._process.stderr))
        ]
        for reader in self._readers:
            reader.start()
        with contextlib.suppress(OSError):
            self._stdin.write(json.dumps(order) + "\n")
            self._stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process and everything it has started."""
        if kind is None:
            self._wait_for_exit(GRACE)
        self.end()
        for reader, stream in zip(self._readers, (self._process.stdout, self._process.stderr), strict=True):
            reader.join(GRACE)
            if stream is not None and not reader.is_alive():
                stream.close()
        with contextlib.suppress(OSError):
            self._stdin.close()

    def receive_report(self, timeout: float) -> Json | None:
        """Return the next message, or None if the process has ended or the module has written to its channel.

        Raises queue.Empty after `timeout` seconds.
        """
        line = self._lines.get(timeout=timeout)
        if line is None:
            self._wait_for_exit(GRACE)
            return None
        try:
            message: Json = json.loads(line)
            if message["say"] in MESSAGES:
                return message
        except (ValueError, TypeError, KeyError):
            pass
        self._is_garbled = True
        return None

    def end(self) -> None:
        """End the process now: its keeper does that, or if that takes too long the whole group is killed."""
        if self._process.poll() is None:
            worker_system.terminate_worker(self._process.pid)
            if sys.platform != "win32":
                self._process.send_signal(signal.SIGCONT)  # the module may have stopped the keeper
            self._wait_for_exit(KILL_TIMEOUT)
        worker_system.kill_group(self._process.pid)
        self._process.wait()

    def describe_end(self) -> str:
        """Describe how the process ended, with the end of its stderr."""
        self._readers[1].join(GRACE)
        stderr = self._stderr_tail.strip()
        end = (
            GARBLED
            if self._is_garbled
            else f"it {worker_system.describe_status(self._process.poll(), sandboxed=False)}"
        )
        return f"{end}. Its stderr: {stderr}" if stderr else end

    def _wait_for_exit(self, timeout: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def _read_stdout(self, stream: IO[str]) -> None:
        while line := stream.readline(MAX_LINE):
            self._lines.put(line)
        self._lines.put(None)

    def _read_stderr(self, stream: IO[str]) -> None:
        while text := stream.readline(MAX_LINE):
            self._stderr_tail = (self._stderr_tail + text)[-STDERR_TAIL:]


class ProbedModule:
    """Examines a module until every step was tried once; `timeout` is in seconds for each step.

    `kind` is the type of the module once it is known, and `kind_source` where that is declared.
    """

    def __init__(
        self, subject: ExaminedModule, kind: str | None, config: Json, timeout: float, findings: ItemFindings
    ) -> None:
        self._subject = subject
        self._config = config
        self._timeout = timeout
        self._findings = findings
        self._tried: set[str] = set()
        self._step: Json | None = None
        self._given_kind = kind
        self.kind = kind
        self.kind_source = "--type" if kind else ""

    def run(self) -> None:
        """Examine the module. Raises BridgeError if no process can be started."""
        for _ in range(MAX_PROCESSES):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                if self._run_process(folder):
                    break
        if not self._findings.has_failed("stdout"):
            self._findings.add("stdout", "passed")

    def _run_process(self, folder: str) -> bool:
        """Run one process for the steps not tried yet; return whether none is left."""
        self._step = None
        try:
            probe = Probe(self._to_order(), folder)
        except OSError as error:
            raise BridgeError(f"cannot start a process: {error}") from error
        with probe:
            while True:
                try:
                    message = probe.receive_report(self._timeout + SLACK if self._step else START_TIMEOUT)
                except queue.Empty:
                    probe.end()
                    return self._fail_step("slow", f"it blocked the process for {self._timeout:g} s")
                if message is None:
                    return self._fail_step("item", probe.describe_end())
                if message["say"] == "over":
                    return True
                try:
                    self._handle(message)
                except (LookupError, TypeError, ValueError):  # the module can write to this channel, too
                    return self._fail_step("item", GARBLED)

    def _to_order(self) -> Json:
        subject = self._subject
        return {
            "id": subject.id,
            "path": str(subject.path) if subject.path is not None else None,
            "point": subject.point.value if subject.point is not None else None,
            "kind": self._given_kind,
            "config": self._config,
            "patience": self._timeout,
            "tried": sorted(self._tried),
        }

    def _handle(self, message: Json) -> None:
        if message["say"] == "step":
            if self._step is not None:
                self._tried.add(self._step["key"])
            self._step = message
        elif message["say"] == "found":
            self._findings.add(message["item"], message["state"], message["found"], message["advice"])
        elif message["say"] == "kind":
            self.kind, self.kind_source = message["kind"], message["how"]

    def _fail_step(self, blamed: str, problem: str) -> bool:
        """Record the step that ended the process as failed; return whether no other step can run without it."""
        step = self._step
        if step is None:
            raise BridgeError(f"the module could not be examined: {problem}")
        subject = f"'{step['key'].partition(':')[2]}': " if step["key"].partition(":")[2] else ""
        item = step[blamed] or step["item"]
        self._findings.add(item, "failed", f"{subject}{problem}", _ADVICE[blamed])
        self._tried |= {step["key"], step["group"] or step["key"]}
        return bool(step["always"])
