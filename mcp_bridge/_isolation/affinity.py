"""WorkerAffinity: sends related calls to the same worker.

A tool may keep a state in its process, and return an id for it. A later call with this id needs the same worker, and
waits while that is in use.
"""

from __future__ import annotations

from collections import deque

import anyio
from cachetools import LRUCache

from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._isolation.conversation import WorkerCall
from mcp_bridge._isolation.process import WorkerProcess

MAX_IDS = 10_000
"""The maximum number of ids that are remembered. The least recently used one is forgotten first."""


class WorkerAffinity:
    """Remembers the worker of each id, and the calls that wait for a worker.

    `ToolEntry.affinity` is the name of the argument with the id, and of the member of the output with it.
    """

    def __init__(self) -> None:
        self._workers: LRUCache[str, WorkerProcess] = LRUCache(MAX_IDS)
        self._waiting: dict[WorkerProcess, deque[anyio.Event]] = {}

    def find_worker(self, request: WorkerCall) -> WorkerProcess | None:
        """Return the worker with the state of a call, or None."""
        if request.affinity and isinstance(request.arguments, dict):
            key = request.arguments.get(request.affinity)
            if isinstance(key, str):
                return self._workers.get(key)
        return None

    def remember_worker(self, request: WorkerCall, result: object, worker: WorkerProcess) -> None:
        """Remember the worker under the id in the result of its call."""
        if request.affinity and isinstance(result, ToolResult) and isinstance(result.output, dict):
            key = result.output.get(request.affinity)
            if isinstance(key, str):
                self._workers[key] = worker

    def keeps_state(self, worker: WorkerProcess) -> bool:
        return worker in self._workers.values()

    def start_waiting(self, worker: WorkerProcess) -> anyio.Event:
        """Return an event for a call. It is set when the worker is handed over to the call, or has ended."""
        event = anyio.Event()
        self._waiting.setdefault(worker, deque()).append(event)
        return event

    def stop_waiting(self, worker: WorkerProcess, event: anyio.Event) -> None:
        self._waiting[worker].remove(event)

    def hand_over(self, worker: WorkerProcess) -> bool:
        """Give a worker to the first call in its queue. Return False if the queue is empty."""
        events = self._waiting.get(worker)
        if not events:
            return False
        events.popleft().set()
        return True

    def forget_worker(self, worker: WorkerProcess) -> None:
        """Forget a worker at its end. Calls in its queue continue without it."""
        for key, owner in list(self._workers.items()):
            if owner is worker:
                del self._workers[key]
        for event in self._waiting.pop(worker, ()):
            event.set()
