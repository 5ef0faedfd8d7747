"""The supervisor of HTTP workers: it accepts connections, passes them to the workers, and keeps the workers running.

`http_workers` describes the link between the supervisor and a worker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING

import anyio

from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.platform.socket_passing import send_socket
from mcp_bridge._runtime.process_group import open_process
from mcp_bridge._transports.http.server import ACCEPT_BATCH
from mcp_bridge._transports.http.worker_group import NAME_LENGTH, RETIRED, RETRY_DELAY

if TYPE_CHECKING:
    from anyio.abc import Process, TaskGroup

    from mcp_bridge._transports.shutdown import ShutdownSignals

logger = logging.getLogger("mcp_bridge.cli")

WORKER_VARIABLE = "MCP_BRIDGE_WORKER"
"""The variable with the descriptor of a worker's link."""
MIN_DELAY, MAX_DELAY = 0.1, 30.0
"""The seconds before the next start of a worker that has ended. They double while workers end within STABLE_TIME."""
STABLE_TIME = 10.0


class Worker:
    """A worker, as the supervisor sees it.

    Attributes:
        inbox: The path at which it receives connections.
        changed: Set when it has ended or has to be replaced.
        counts: A description of what it serves, or an empty text before its start.
    """

    def __init__(self, name: str, inbox: Path, process: Process, group: system.ProcessGroup) -> None:
        self.name = name
        self.inbox = inbox
        self.process = process
        self.group = group
        self.changed = anyio.Event()
        self.counts = ""

    @property
    def has_ended(self) -> bool:
        return self.process.returncode is not None

    def retire(self) -> None:
        """Let other workers pass no more requests to this one, before it ends."""
        active_inbox = self.inbox
        self.inbox = active_inbox.with_name(f"{self.name}{RETIRED}")
        # The worker may not have begun, or may just have ended.
        with suppress(FileNotFoundError):
            active_inbox.rename(self.inbox)


class WorkerSupervisor:
    """Accepts connections and passes each to a worker in turn. Keeps `count` workers running.

    Attributes:
        exit_code: The exit code of the first worker, if it could not start.
    """

    _tasks: TaskGroup

    def __init__(self, listener: socket.socket, count: int, folder: Path, announce: Callable[[str], None]) -> None:
        self._listener = listener
        self._count = count
        self._folder = folder
        self._announce = announce
        self._key = secrets.token_urlsafe(32)
        self.exit_code = 0
        # All processes, and those that get connections, beginning with the next one.
        self._workers: set[Worker] = set()
        self._active: list[Worker] = []
        self._start_count = 0
        # The first worker starts alone, so that an error in the settings is reported once.
        self._starts = anyio.CapacityLimiter(1)
        self._is_accepting = False
        self._is_ending = False
        self._has_started = False

    async def run(self, signals: ShutdownSignals, timeout: float) -> None:
        """Run until a signal arrives and all workers have ended, which takes at most `timeout` seconds."""
        self._listener.setblocking(False)
        with signals.handle_while_serving(self._begin_shutdown, self._terminate_workers, timeout), self._listener:
            signals.handle_restarts(self._replace_workers)
            async with anyio.create_task_group() as self._tasks:
                for _ in range(self._count):
                    self._tasks.start_soon(self._keep_worker)
            self._stop_accepting()

    # Starts and ends of workers

    async def _keep_worker(self) -> None:
        """Keep one worker running until the shutdown."""
        worker: Worker | None = None
        delay = 0.0
        while not self._is_ending:
            started = anyio.current_time()
            replacement = await self._start_worker()
            if replacement is not None:
                if worker is not None and not worker.has_ended:
                    self._deactivate(worker)
                    worker.retire()
                    worker.group.terminate()
                worker = replacement
            elif worker is not None and not worker.has_ended:
                logger.error("a worker cannot be replaced, because the new one does not start")
                worker.changed = anyio.Event()
            if worker is not None and not worker.has_ended:
                await worker.changed.wait()
            if self._is_ending or (worker is not None and not worker.has_ended):
                continue
            if anyio.current_time() - started > STABLE_TIME:
                delay = 0.0
            logger.error("a worker has ended; another one starts in %g seconds", delay)
            await anyio.sleep(delay)
            delay = min(max(MIN_DELAY, 2 * delay), MAX_DELAY)

    async def _start_worker(self) -> Worker | None:
        """Start a worker, and wait until it serves. Return None if it has ended before."""
        async with self._starts:
            if self._is_ending:
                return None
            self._start_count += 1
            name = f"{self._start_count:0{NAME_LENGTH}x}"[-NAME_LENGTH:]
            link, remote_link = socket.socketpair()
            link.setblocking(False)
            with remote_link:
                process, group = await open_process(
                    [sys.executable, "-P", "-m", "mcp_bridge", *sys.argv[1:]],
                    descriptors=[remote_link.fileno()],
                    env={**os.environ, WORKER_VARIABLE: str(remote_link.fileno())},
                    stdin=DEVNULL,
                    stdout=None,
                    stderr=None,
                )
            worker = Worker(name, self._folder / name, process, group)
            self._workers.add(worker)
            order = {"name": name, "folder": str(self._folder), "key": self._key}
            with suppress(OSError):
                link.send(json.dumps(order).encode())
                await anyio.wait_readable(link)
                worker.counts = link.recv(4096).decode()
            if worker.counts:
                self._starts.total_tokens = os.cpu_count() or 1
                self._activate(worker)
                self._tasks.start_soon(self._watch_worker, worker, link)
                return worker
            await self._watch_worker(worker, link)
            if not self._has_started and not self._is_ending:
                # The worker has reported the reason.
                self.exit_code = process.returncode or 1
                self._begin_shutdown()
            return None

    async def _watch_worker(self, worker: Worker, link: socket.socket) -> None:
        """Wait for the end of a worker."""
        with link:
            await worker.process.wait()
        worker.group.close()
        await worker.process.aclose()
        self._workers.discard(worker)
        self._deactivate(worker)
        worker.changed.set()
        # A worker that was killed leaves its inbox behind.
        worker.inbox.unlink(missing_ok=True)
        if self._is_ending and not self._workers:
            self._tasks.cancel_scope.cancel()

    def _replace_workers(self) -> None:
        """Start another worker for each. The old one ends once the new one serves."""
        for worker in self._active:
            worker.changed.set()

    def _begin_shutdown(self) -> None:
        self._is_ending = True
        # A worker that receives the signal while others are active passes its requests to them.
        for worker in self._workers:
            worker.retire()
        self._terminate_workers()
        if not self._workers:
            self._tasks.cancel_scope.cancel()

    def _terminate_workers(self) -> None:
        for worker in self._workers:
            worker.group.terminate()

    # Connections

    def _activate(self, worker: Worker) -> None:
        if self._is_ending:
            return
        self._active.append(worker)
        if not self._has_started and len(self._active) == self._count:
            self._has_started = True
            self._announce(worker.counts)
        self._accept_connections()

    def _deactivate(self, worker: Worker) -> None:
        if worker in self._active:
            self._active.remove(worker)
        if not self._active:
            self._stop_accepting()

    def _accept_connections(self) -> None:
        """Accept connections while there is a worker for them. The others wait in the kernel."""
        if self._active and not self._is_accepting:
            self._is_accepting = True
            asyncio.get_running_loop().add_reader(self._listener, self._accept_pending)

    def _stop_accepting(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            asyncio.get_running_loop().remove_reader(self._listener)

    def _accept_pending(self) -> None:
        for _ in range(ACCEPT_BATCH):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # There are no descriptors left for now, or the client has just left.
                logger.warning("cannot accept a connection: %s", error)
                self._pause(1.0)
                return
            self._pass_on(connection)
            if not self._is_accepting:
                return

    def _pass_on(self, connection: socket.socket) -> None:
        """Pass a connection to the next worker whose inbox has room. If there is none, pause, and try again."""
        for worker in list(self._active):
            self._active.remove(worker)
            self._active.append(worker)
            # A full inbox belongs to a busy worker.
            with suppress(BlockingIOError):
                if send_socket(worker.inbox, connection.fileno()):
                    connection.close()
                    return
        self._pause(RETRY_DELAY)
        asyncio.get_running_loop().call_later(RETRY_DELAY, self._pass_on, connection)

    def _pause(self, seconds: float) -> None:
        self._stop_accepting()
        asyncio.get_running_loop().call_later(seconds, self._accept_connections)
