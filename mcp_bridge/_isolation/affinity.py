"""Which worker keeps the state that calls refer to by an id, and which calls wait for such a worker."""

from __future__ import annotations

from collections import deque

import anyio
from cachetools import LRUCache

from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._isolation.conversation import WorkerCall
from mcp_bridge._isolation.process import WorkerProcess

MAX_IDS = 10_000
"""How many ids are remembered; the least recently used one is forgotten first."""


class WorkerAffinity:
    """Remembers the worker of each id. `ToolEntry.affinity` names the argument and the output field with the id."""

    def __init__(self) -> None:
        self._workers: LRUCache[str, WorkerProcess] = LRUCache(MAX_IDS)
        self._waiting: dict[WorkerProcess, deque[anyio.Event]] = {}

    def find_worker(self, request: WorkerCall) -> WorkerProcess | None:
        """Return the worker that keeps the state of a call, if there is one."""
        arguments = request.arguments
        key = arguments.get(request.affinity) if request.affinity and isinstance(arguments, dict) else None
        return self._workers.get(key) if isinstance(key, str) else None

    def remember_worker(self, request: WorkerCall, result: object, worker: WorkerProcess) -> None:
        """Remember that a worker keeps the state to which the result of a call refers."""
        output = result.output if request.affinity and isinstance(result, ToolResult) else None
        if isinstance(output, dict) and isinstance(key := output.get(request.affinity), str):
            self._workers[key] = worker

    def keeps_state(self, worker: WorkerProcess) -> bool:
        return worker in self._workers.values()

    def start_waiting(self, worker: WorkerProcess) -> anyio.Event:
        """Return the event that is set when a busy worker is handed over, or has ended."""
        turn = anyio.Event()
        self._waiting.setdefault(worker, deque()).append(turn)
        return turn

    def stop_waiting(self, worker: WorkerProcess, turn: anyio.Event) -> None:
        self._waiting[worker].remove(turn)

    def hand_over(self, worker: WorkerProcess) -> bool:
        """Give a worker to the call that has waited longest for it. Return False if none waits."""
        if not (waiting := self._waiting.get(worker)):
            return False
        waiting.popleft().set()
        return True

    def forget_worker(self, worker: WorkerProcess) -> None:
        """Forget a worker that has ended; calls that wait for it continue without it."""
        for key in [key for key, kept in self._workers.items() if kept is worker]:
            del self._workers[key]
        for turn in self._waiting.pop(worker, ()):
            turn.set()
