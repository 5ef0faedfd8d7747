"""An examination of a module in processes of its own: one in the good case, another after each that it has ended."""

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

from mcp_bridge.amplifier.validation.checklist import Findings
from mcp_bridge.amplifier.validation.structure import Subject
from mcp_bridge.contracts.errors import BridgeError
from mcp_bridge.isolation import system

START = 60.0
"""Seconds that a process may take until it begins."""
SLACK = 2.0
"""Seconds that it may take beyond those of a call, which it counts itself unless the module holds it up."""
GRACE = 2.0
"""Seconds that it has to end by itself, then once it is told to."""
ENDING = 25.0
"""Seconds that its keeper may take to end everything."""
AGAIN = 50
"""Processes for one examination."""
LINE = 65_536
"""The longest line that is read in one go, in characters."""
SAID = frozenset({"step", "alive", "found", "kind", "over"})
GARBLED = "it said what nobody understands, where only the check speaks"
TAIL = 300
"""Characters of stderr that are shown."""
COMMAND = [sys.executable, "-P", "-m", "mcp_bridge.amplifier.validation.worker"]
Json = dict[str, Any]
_ADVICE = {
    "slow": "Wait without blocking (await), or allow more with --timeout",
    "item": "Nothing in a module may end the process it runs in",
}


class Probe:
    """One process, and what it says."""

    def __init__(self, order: Json, folder: str) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._said = ""
        self._garbled = False
        self._process = subprocess.Popen(  # noqa: S603 - the bridge's own command
            system.kept(COMMAND),
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
            for target, stream in ((self._read, self._process.stdout), (self._keep, self._process.stderr))
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
        """End it, and all that it has started."""
        if kind is None:
            self._wait(GRACE)
        self.end()
        for reader, stream in zip(self._readers, (self._process.stdout, self._process.stderr), strict=True):
            reader.join(GRACE)
            if stream is not None and not reader.is_alive():
                stream.close()
        with contextlib.suppress(OSError):
            self._stdin.close()

    def next(self, patience: float) -> Json | None:
        """What it says next; None when it has ended. Raises queue.Empty where that takes longer than `patience`.

        Where the module has written there too, nothing more can be made of it: that is an end as well.
        """
        line = self._lines.get(timeout=patience)
        if line is None:
            self._wait(GRACE)
            return None
        try:
            message: Json = json.loads(line)
            if message["say"] in SAID:
                return message
        except (ValueError, TypeError, KeyError):
            pass
        self._garbled = True
        return None

    def end(self) -> None:
        """End it now. Its keeper does that; where even that takes too long, the whole group is killed."""
        if self._process.poll() is None:
            system.end(self._process.pid)
            if sys.platform != "win32":
                self._process.send_signal(signal.SIGCONT)  # a keeper that the module has stopped hears nothing
            self._wait(ENDING)
        system.kill(self._process.pid)
        self._process.wait()

    def last_words(self) -> str:
        """How it has ended, and the end of what it wrote to stderr."""
        self._readers[1].join(GRACE)
        said = self._said.strip()
        ended = system.ended(self._process.poll(), sandboxed=False)
        told = GARBLED if self._garbled else f"it {ended}"
        return f"{told}. It said: {said}" if said else told

    def _wait(self, patience: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)

    def _read(self, stream: IO[str]) -> None:
        while line := stream.readline(LINE):
            self._lines.put(line)
        self._lines.put(None)

    def _keep(self, stream: IO[str]) -> None:
        while text := stream.readline(LINE):
            self._said = (self._said + text)[-TAIL:]


class Examination:
    """A module, examined until every step has been tried once. `kind` is its type once it is known, `how` from what."""

    def __init__(self, subject: Subject, kind: str | None, config: Json, patience: float, findings: Findings) -> None:
        self._subject = subject
        self._config = config
        self._patience = patience
        self._findings = findings
        self._tried: set[str] = set()
        self._step: Json | None = None
        self.kind = kind
        self.how = "--type" if kind else ""
        self._given = kind

    def run(self) -> None:
        """Examine it. Raises BridgeError where no process can be had."""
        for _ in range(AGAIN):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                if self._is_over(folder):
                    break
        if not self._findings.failed("stdout"):
            self._findings.add("stdout", "passed")

    def _is_over(self, folder: str) -> bool:
        """Have one process try what has not been tried; whether nothing is left."""
        self._step = None
        try:
            probe = Probe(self._order(), folder)
        except OSError as error:
            raise BridgeError(f"no process can be started: {error}") from error
        with probe:
            while True:
                try:
                    message = probe.next(self._patience + SLACK if self._step else START)
                except queue.Empty:
                    probe.end()
                    return self._gave_out("slow", f"it held up everything for {self._patience:g} s")
                if message is None:
                    return self._gave_out("item", probe.last_words())
                if message["say"] == "over":
                    return True
                try:
                    self._hear(message)
                except (LookupError, TypeError, ValueError):  # the module can write there, too
                    return self._gave_out("item", GARBLED)

    def _order(self) -> Json:
        subject = self._subject
        return {
            "id": subject.id,
            "path": str(subject.path) if subject.path is not None else None,
            "point": subject.point.value if subject.point is not None else None,
            "kind": self._given,
            "config": self._config,
            "patience": self._patience,
            "tried": sorted(self._tried),
        }

    def _hear(self, message: Json) -> None:
        if message["say"] == "step":
            if self._step is not None:
                self._tried.add(self._step["key"])
            self._step = message
        elif message["say"] == "found":
            self._findings.add(message["item"], message["state"], message["found"], message["advice"])
        elif message["say"] == "kind":
            self.kind, self.how = message["kind"], message["how"]

    def _gave_out(self, blamed: str, found: str) -> bool:
        """The process has ended before it was over; whether nothing can be done without what it was doing."""
        step = self._step
        if step is None:
            raise BridgeError(f"the module could not be examined: {found}")
        subject = f"'{step['key'].partition(':')[2]}': " if step["key"].partition(":")[2] else ""
        item = step[blamed] or step["item"]
        self._findings.add(item, "failed", f"{subject}{found}", _ADVICE[blamed])
        self._tried |= {step["key"], step["group"] or step["key"]}
        return bool(step["always"])
