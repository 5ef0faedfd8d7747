"""Threads that take functions from one queue and report their ends to the event loop in batches.

A call of `anyio.to_thread.run_sync` costs several times as much as a short function, because each call wakes a thread
and the event loop anew. Here, a thread takes one function after another while there are any, and one callback in the
event loop serves all functions that have ended since the last one.

A short function must not pay for threads that it does not need, and a blocked one must not delay the others. So at most
one thread at a time is on its way to the queue. If it finds more than one function there, it sends for the next thread
before it begins. While functions are short, one or two threads run all of them. While functions block, there are soon
as many threads as functions. A thread without work returns to anyio after `IDLE_TIMEOUT` seconds.

Each thread runs inside one long call of `anyio.to_thread.run_sync`, so `anyio.from_thread` works in the functions. The
call has a cancel scope. If the function of a thread is abandoned, the scope is cancelled: anyio then cancels what the
function waits for in the event loop, and the thread takes no further functions.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any

import anyio
from anyio import to_thread

from mcp_bridge._runtime.event_loop import is_on_asyncio

IDLE_TIMEOUT = 1.0
"""Seconds until a thread without work returns to anyio."""
HOST_NAME = "mcp-bridge thread"
"""The name of the tasks that keep the threads."""


class Job:
    """A function that runs once in a thread.

    Attributes:
        result: The value that the function has returned.
        error: The exception that it has raised.
        has_ended: Whether the event loop knows of the end of the function.
        is_abandoned: Whether the task has stopped waiting for the function.
        worker: The thread that runs or has run the function.
        on_end: Called in the event loop when the function has ended.
    """

    __slots__ = ("args", "context", "error", "function", "has_ended", "is_abandoned", "on_end", "result", "worker")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], context: Context) -> None:
        self.function = function
        self.args = args
        self.context = context
        self.result: Any = None
        self.error: BaseException | None = None
        self.has_ended = self.is_abandoned = False
        self.worker: _Worker | None = None
        self.on_end: Callable[[], object] | None = None

    def run(self) -> None:
        # The error is kept and raised by the task: a future cannot carry a StopIteration, and a SystemExit would end
        # the event loop.
        try:
            self.result = self.context.run(self.function, *self.args)
        except BaseException as error:
            self.error = error
        # A variable of the context refers to the job. Without this circle, the arguments are freed immediately.
        del self.context, self.function, self.args

    def end(self) -> None:
        """Report the end to the task. This runs in the event loop."""
        self.has_ended = True
        if self.on_end is not None:
            self.on_end()


class WorkerThreads:
    """The threads of one event loop: one of asyncio, or that of a trio token. Create it inside of the loop.

    The number of threads has no limit here. Callers limit the number of functions that run at the same time.
    """

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._is_asyncio = is_on_asyncio()
        self._unbounded = anyio.CapacityLimiter(float("inf"))
        self._hosts: set[asyncio.Task[None]] = set()
        # The attributes below are shared between the threads and the event loop, and change only under this lock.
        self._lock = threading.Lock()
        self._queue: deque[Job] = deque()
        self._idle: list[_Worker] = []
        self._is_worker_coming = False
        self._ended_jobs: list[Job] = []

    async def run(self, job: Job) -> None:
        """Run the job in a thread, and wait for its end. A caller that is cancelled meanwhile calls `abandon`."""
        if self._is_asyncio:
            future = self.loop.create_future()
            job.on_end = partial(_resolve, future)
            self._submit(job)
            await future
        else:
            event = anyio.Event()
            job.on_end = event.set
            self._submit(job)
            await event.wait()

    def abandon(self, job: Job, on_end: Callable[[], object]) -> bool:
        """Stop waiting for a job. Return whether its function still runs; if so, its end calls `on_end` in the loop."""
        with self._lock:
            job.is_abandoned = True
            if job.worker is None:
                with suppress(ValueError):
                    self._queue.remove(job)
                return False
            job.on_end = on_end
            is_running = job.worker.job is job
            if is_running:
                job.worker.is_retired = True
        if is_running:
            job.worker.scope.cancel()
        return True

    def _submit(self, job: Job) -> None:
        with self._lock:
            self._queue.append(job)
        self._serve_queue()

    def _serve_queue(self) -> None:
        """Make a thread come to the queue if it has jobs."""
        with self._lock:
            needs_thread = self._call_worker()
        if needs_thread:
            self._start_worker()

    def _call_worker(self) -> bool:
        """Make a thread come to the queue if it has jobs and no thread is coming. Return whether one must be started.

        The lock is held by the caller.
        """
        if self._is_worker_coming or not self._queue:
            return False
        self._is_worker_coming = True
        if not self._idle:
            return True
        # The newest idle thread comes, so that the others reach their timeout.
        self._idle.pop().alarm.release()
        return False

    def _start_worker(self) -> None:
        worker = _Worker()
        # The context is empty, because a host outlives the call that has started it.
        if self._is_asyncio:
            host = self.loop.create_task(self._host_worker(worker), name=HOST_NAME, context=Context())
            self._hosts.add(host)
            # If others cancel the task before its first step, none of its code runs, not even a `finally`.
            host.add_done_callback(partial(self._end_host, worker))
        else:
            from trio.lowlevel import spawn_system_task

            spawn_system_task(self._host_on_trio, worker, name=HOST_NAME, context=Context())

    async def _host_on_trio(self, worker: _Worker) -> None:
        try:
            await self._host_worker(worker)
        finally:
            self._retire(worker)

    async def _host_worker(self, worker: _Worker) -> None:
        """Keep a thread until it ends. Event loops cancel such tasks at their end."""
        worker.scope = anyio.CancelScope()
        try:
            with worker.scope:
                await to_thread.run_sync(self._work, worker, abandon_on_cancel=True, limiter=self._unbounded)
        except Exception as error:
            # The system has no more threads, for example. Trying again would fail again.
            self._fail_jobs(error)

    def _end_host(self, worker: _Worker, host: asyncio.Task[None]) -> None:
        self._hosts.discard(host)
        self._retire(worker)

    def _fail_jobs(self, error: Exception) -> None:
        """End the jobs in the queue with an error."""
        with self._lock:
            jobs = list(self._queue)
            self._queue.clear()
        for job in jobs:
            job.error = error
            job.end()

    def _retire(self, worker: _Worker) -> None:
        """Let the thread of an ended host end, too."""
        with self._lock:
            worker.is_retired = True
            if not worker.has_begun:
                self._is_worker_coming = False
            if worker in self._idle:
                self._idle.remove(worker)
                worker.alarm.release()
        # If the host was cancelled alone, another thread serves the queue. If the event loop ends, the tasks of the
        # jobs are cancelled too, and the next iteration finds an empty queue.
        self._call_soon(self._serve_queue)

    def _work(self, worker: _Worker) -> None:
        """Run jobs in this thread until it has none for a while, or is retired."""
        worker.has_begun = is_coming = True
        while True:
            job: Job | None = None
            with self._lock:
                if is_coming:
                    self._is_worker_coming = False
                if self._queue and not worker.is_retired:
                    job = self._queue.popleft()
                    job.worker = worker
                needs_thread = self._call_worker()
                if job is None and not worker.is_retired:
                    self._idle.append(worker)
                worker.job = job
            if needs_thread:
                self._call_soon(self._start_worker)
            if job is not None:
                job.run()
                self._report_end(worker, job)
                is_coming = False
            elif worker.is_retired or not self._wait_for_call(worker):
                return
            else:
                is_coming = True

    def _report_end(self, worker: _Worker, job: Job) -> None:
        with self._lock:
            worker.job = None
            self._ended_jobs.append(job)
            is_first = len(self._ended_jobs) == 1
        if is_first:
            self._call_soon(self._end_jobs)

    def _wait_for_call(self, worker: _Worker) -> bool:
        """Wait until this idle thread is called. Return whether it was called in time."""
        if worker.alarm.acquire(timeout=IDLE_TIMEOUT):
            return True
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return False
        # It was called at the last moment.
        return worker.alarm.acquire()

    def _end_jobs(self) -> None:
        """End the jobs whose functions have ended. This runs in the event loop."""
        with self._lock:
            jobs = self._ended_jobs
            self._ended_jobs = []
        for job in jobs:
            job.end()

    def _call_soon(self, callback: Callable[[], None]) -> None:
        """Schedule a callback in the event loop. After the end of the loop, this does nothing."""
        with suppress(RuntimeError):
            if self._is_asyncio:
                self.loop.call_soon_threadsafe(callback, context=Context())
            else:
                self.loop.run_sync_soon(callback)


class _Worker:
    """A thread that runs jobs, one at a time.

    Attributes:
        alarm: A lock that is released to call the thread to the queue.
        job: The job that runs now.
        is_retired: Whether the thread takes no further jobs.
    """

    scope: anyio.CancelScope

    def __init__(self) -> None:
        self.alarm = threading.Lock()
        self.alarm.acquire()
        self.job: Job | None = None
        self.has_begun = self.is_retired = False


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
