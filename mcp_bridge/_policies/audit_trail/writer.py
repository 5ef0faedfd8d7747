"""Writes audit records in a thread. A call gets its result only once its record is stored.

A record is written as follows, on asyncio:

1. The call creates a future and adds its record to those of the current iteration of the event loop (`WaitingLoop`).
   At the end of the iteration, all of them are put into the queue of the writer.
2. The thread takes everything that is in the queue (`_take_batch`), and appends it in one statement, which is one
   transaction (`_write`). The file stays open while the bridge serves, else for `LINGER` seconds.
3. If that fails, each record of the batch gets the error, and the writer is in a gap: it counts the lost records, and
   the next batch that can be written begins with a record of the gap.
4. One callback per event loop resolves all futures of the batch (`_settle`). The calls return their results, or fail.

So concurrent calls share the cost of a commit. On trio, calls wait for events instead of futures.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import anyio
import orjson
from anyio.lowlevel import current_token

from mcp_bridge._policies.audit_trail.chain import Head, compute_hash
from mcp_bridge._policies.audit_trail.database import (
    INSERT,
    AuditFileError,
    Synchronous,
    open_for_writing,
    read_head,
    to_file_error,
)
from mcp_bridge._policies.audit_trail.retention import INTERVAL, Retention, format_time, remove_old_records
from mcp_bridge._runtime.thread_pool import make_call_soon

logger = logging.getLogger("mcp_bridge.audit")

Waiter = asyncio.Future[None] | anyio.Event
"""The future or event of a call that waits for its record."""
LINGER = 0.2
"""Seconds for which the file stays open after the last record, unless `run` keeps it open."""
MAX_BATCH = 256
"""The maximum number of records in one transaction. They are one statement, because the thread has to wait for the GIL
after each statement."""


class PendingRecord:
    """A record that waits for the writer. If `text` is empty, the writer only checks that the file can be written."""

    __slots__ = ("error", "loop", "text", "waiter")

    def __init__(self, text: str, loop: WaitingLoop | None = None, waiter: Waiter | None = None) -> None:
        self.text = text
        self.error: AuditFileError | None = None
        self.loop = loop
        self.waiter = waiter


class WaitingLoop:
    """An event loop whose calls wait for their records. `put` passes records to the writer."""

    def __init__(self, token: object, put: Callable[[Sequence[PendingRecord]], None]) -> None:
        self.token = token
        self._put = put
        self._call_soon = make_call_soon()
        self._new_records: list[PendingRecord] = []

    async def wait_until_stored(self, text: str) -> None:
        """Wait until the record is stored. Raises AuditFileError."""
        if isinstance(self.token, asyncio.AbstractEventLoop):
            # A future costs a third of what an event costs.
            future = self.token.create_future()
            pending = PendingRecord(text, self, future)
            if not self._new_records:
                self.token.call_soon(self._put_new_records)
            self._new_records.append(pending)
            await future
        else:
            event = anyio.Event()
            pending = PendingRecord(text, self, event)
            self._put([pending])
            await event.wait()
        if pending.error is not None:
            raise pending.error

    def wake(self, waiters: Sequence[Waiter]) -> None:
        """Resume the calls. Called by the writer's thread."""
        # An event loop that has ended raises RuntimeError.
        with suppress(RuntimeError):
            self._call_soon(partial(_wake_all, waiters))

    def _put_new_records(self) -> None:
        records = self._new_records
        self._new_records = []
        self._put(records)


class AuditWriter:
    """Appends records to an audit trail, from any event loop.

    If records cannot be written, an error is logged once. As soon as they can, the writer first appends a record of the
    kind `gap`, with the number of lost records and the reason. Several processes can write to one file: each append
    checks atomically whether another process has appended since the last one.
    """

    def __init__(self, path: Path, *, synchronous: Synchronous = "normal", retention: Retention | None = None) -> None:
        self.path = path
        self._synchronous: Synchronous = synchronous
        self._retention = retention or Retention()
        self._lock = threading.Lock()
        self._queue: SimpleQueue[PendingRecord | None] = SimpleQueue()
        self._holders = 0
        self._is_running = False
        self._loop: WaitingLoop | None = None
        self._head: Head | None = None
        self._unchecked = INTERVAL
        self._gap: dict[str, Any] | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the last attempt to write has failed."""
        return self._gap is not None

    async def append_record(self, record: Mapping[str, Any]) -> None:
        """Append a record, and wait until it is stored. Raises AuditFileError."""
        await self._find_loop().wait_until_stored(_encode(record))

    async def check_file(self) -> None:
        """Check that records can be stored again after a failure. Raises AuditFileError."""
        await self._find_loop().wait_until_stored("")

    def append_soon(self, record: Mapping[str, Any]) -> None:
        """Append a record without waiting for it."""
        self._put([PendingRecord(_encode(record))])

    async def run(self) -> None:
        """Keep the file open until cancelled."""
        self._hold(1)
        try:
            await anyio.sleep_forever()
        finally:
            self._hold(-1)

    def _find_loop(self) -> WaitingLoop:
        """Return the same object for all calls of an event loop, so that one callback wakes all of them."""
        try:
            token: object = asyncio.get_running_loop()
        except RuntimeError:
            # The event loop is that of trio.
            token = current_token()
        loop = self._loop
        if loop is None or loop.token != token:
            loop = self._loop = WaitingLoop(token, self._put)
        return loop

    def _put(self, records: Sequence[PendingRecord]) -> None:
        for record in records:
            self._queue.put(record)
        with self._lock:
            if not self._is_running:
                threading.Thread(target=self._run_thread, name="mcp-bridge audit").start()
                self._is_running = True

    def _hold(self, change: int) -> None:
        with self._lock:
            self._holders += change
        # The thread decides again how long it waits for records.
        self._queue.put(None)

    # The methods below run in the thread.

    def _run_thread(self) -> None:
        database: sqlite3.Connection | None = None
        while batch := self._take_batch():
            try:
                database = database or self._open_file()
                self._write(database, batch)
            except Exception as error:
                # No error may end the thread while calls wait.
                if database is not None:
                    database.close()
                database = None
                self._record_failure(batch, to_file_error(self.path, error))
            self._settle(batch)
            if database is not None:
                self._remove_old(database, len(batch))
        if database is not None:
            database.close()

    def _take_batch(self) -> Sequence[PendingRecord]:
        """Wait for records, and return them. An empty batch ends the thread."""
        batch: list[PendingRecord] = []
        while not batch:
            with suppress(Empty):
                pending = self._queue.get(timeout=None if self._holders else LINGER)
                while True:
                    if pending is not None:
                        batch.append(pending)
                    if len(batch) == MAX_BATCH:
                        break
                    pending = self._queue.get_nowait()
            # `_put` takes this lock after it has added records, so either they are seen here, or it starts a thread.
            with self._lock:
                if not batch and not self._holders and self._queue.empty():
                    self._is_running = False
                    break
        return batch

    def _open_file(self) -> sqlite3.Connection:
        self._head = None
        self._unchecked = INTERVAL
        return open_for_writing(self.path, self._synchronous)

    def _write(self, database: sqlite3.Connection, batch: Sequence[PendingRecord]) -> None:
        texts = [pending.text for pending in batch if pending.text]
        gap = self._gap
        if gap is not None and gap["lost"]:
            texts.insert(0, _encode(gap | {"until": format_time(time.time())}))
        if texts:
            self._append_texts(database, texts)
        elif gap is not None:
            # A transaction proves that the file can be written.
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
        if gap is not None:
            self._gap = None
            logger.warning("the audit trail %s can be written again; lost records: %d", self.path, gap["lost"])

    def _append_texts(self, database: sqlite3.Connection, texts: Sequence[str]) -> None:
        """Append in one statement if this process wrote the last record, otherwise under an exclusive lock."""
        if self._head is not None:
            # If another process has appended since, the next number is taken.
            with suppress(sqlite3.IntegrityError):
                self._head = _insert(database, self._head, texts)
                return
        database.execute("BEGIN IMMEDIATE")
        try:
            head = _insert(database, read_head(database), texts)
            database.execute("COMMIT")
            self._head = head
        finally:
            if database.in_transaction:
                database.execute("ROLLBACK")

    def _record_failure(self, batch: Sequence[PendingRecord], error: AuditFileError) -> None:
        if self._gap is None:
            logger.error("%s", error)
            self._gap = {"time": format_time(time.time()), "kind": "gap", "lost": 0, "reason": str(error)}
        for pending in batch:
            pending.error = error
            if pending.text:
                self._gap["lost"] += 1

    def _settle(self, batch: Sequence[PendingRecord]) -> None:
        waiting: dict[WaitingLoop, list[Waiter]] = {}
        for pending in batch:
            if pending.loop is not None and pending.waiter is not None:
                waiting.setdefault(pending.loop, []).append(pending.waiter)
        for loop, waiters in waiting.items():
            loop.wake(waiters)

    def _remove_old(self, database: sqlite3.Connection, count: int) -> None:
        """Remove old records after every `INTERVAL` new ones. `count` is the number of new records."""
        self._unchecked += count
        if not self._retention.is_limited or self._unchecked < INTERVAL:
            return
        self._unchecked = 0
        try:
            if remove_old_records(database, self._retention):
                # The anchor is the last record now, and there may be more to remove after the next batch.
                self._head = None
                self._unchecked = INTERVAL
        except sqlite3.Error as error:
            logger.warning("old records of the audit trail %s were not removed: %s", self.path, error)


def _insert(database: sqlite3.Connection, head: Head, texts: Sequence[str]) -> Head:
    """Insert records after the head, in one statement. Raises sqlite3.IntegrityError if there is a later record."""
    values: list[Any] = []
    seq, last = head
    for text in texts:
        seq += 1
        last = compute_hash(last, text)
        values += (seq, text, last)
    database.execute(INSERT + ", (?, ?, ?)" * (len(texts) - 1), values)
    return Head(seq, last)


def _wake_all(waiters: Sequence[Waiter]) -> None:
    for waiter in waiters:
        if not isinstance(waiter, asyncio.Future):
            waiter.set()
        # The future of a cancelled call is done.
        elif not waiter.done():
            waiter.set_result(None)


def _encode(record: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(record).decode()
    except TypeError:
        # Callers in process can pass text that is not Unicode, and numbers of more than 64 bits.
        return json.dumps(record, default=repr)
