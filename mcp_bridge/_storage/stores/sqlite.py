"""A store in an SQLite file. It outlives the process, and several processes on one machine can share it.

Reads open the file and close it. Writes are queued for one thread (`_run_writer`), which commits all pending writes in
one transaction, and ends when there are none. If a transaction fails, each of its writes is tried again in a
transaction of its own, so that an invalid write does not prevent others. When the file is at its limit, the values that
expire first are deleted. When the disk is full, reads and deletions still work: a deletion then writes without the
journal and the other files that SQLite keeps next to the database.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread

from mcp_bridge._storage.sqlite_files import (
    create_private_file,
    get_error_code,
    has_log,
    is_damaged,
    is_empty,
    open_connection,
    read_pragma,
)

T = TypeVar("T")
MAX_BYTES = 64 * 1024 * 1024
BUSY_TIMEOUT = 2.0
"""Seconds that an operation waits for another process to release the file."""
LINGER = 0.25
"""Seconds for which the connection of writes in quick succession stays open after the last one."""
_APPLICATION = 0x6D637062
"""SQLite's application id, which identifies files of this store: `mcpb`."""
_VERSION = 1
_TABLE = "CREATE TABLE kept (key TEXT PRIMARY KEY, value BLOB NOT NULL, until REAL NOT NULL)"
_INDEX = "CREATE INDEX kept_until ON kept (until)"
_SET = """INSERT INTO kept VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until"""
_ADD = "INSERT INTO kept VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING"
_DELETE = "DELETE FROM kept WHERE key = ?"
_EVICT = """DELETE FROM kept WHERE key IN
(SELECT key FROM kept ORDER BY until LIMIT 1 + (SELECT count(*) FROM kept) / 8)"""
"""Deletes an eighth of the values, those that expire first."""
_RESERVE = ("INSERT INTO kept VALUES (x'00', zeroblob(131072), 0)", "DELETE FROM kept WHERE key = x'00'")
"""Leave free pages in the file, so that it rarely grows."""
_IN_PLACE = ("PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = MEMORY")
"""Let SQLite write without other files next to the database, for which a full disk has no space. A crash during such a
write may damage the database."""
_DISK_ERRORS = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})

logger = logging.getLogger("mcp_bridge.stores")


class StoreFileError(OSError):
    """The file does not belong to this store, or is damaged."""


@dataclass(slots=True, eq=False)
class QueuedWrite:
    """A statement that waits for the writer."""

    statement: str
    values: Sequence[Any]
    outcome: Future[bool] = field(default_factory=Future)


class SqliteStore:
    """A `Store` in a file of at most about `max_bytes`. When it is full, the values that expire first are evicted.

    The file is created when the first value is stored, readable by its owner only. Reads open and close it. Writes of
    all callers share one connection in a thread, and those that wait share a transaction. The connection is closed
    after each write, or after `LINGER` seconds if writes follow one another, so it need not be closed at shutdown.
    `clock` returns seconds since 1970. Every method raises StoreFileError if the file does not belong to this store,
    and OSError if it cannot be used.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._clock = clock
        self._queue: list[QueuedWrite] = []
        self._queue_changed = threading.Condition()
        self._is_writing = False
        self._idle_since = -LINGER
        # The number of pages of the file when the log was last copied to it.
        self._pages = 0

    def check_file(self) -> None:
        """Check synchronously that the file can be used, if it exists."""
        if os.path.lexists(self._path):
            self._get("")

    async def get(self, key: str) -> bytes | None:
        return await _run_in_thread(partial(self._get, key))

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds. A value that is larger than half the store is dropped."""
        await _run_in_thread(partial(self._write, _SET, key, value, ttl))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        return await _run_in_thread(partial(self._write, _ADD, key, value, ttl))

    async def delete(self, key: str) -> None:
        """Delete a value, even if the disk is full."""
        await _run_in_thread(partial(self._delete, key))

    async def keys(self, prefix: str) -> list[str]:
        statement = "SELECT key FROM kept WHERE substr(key, 1, ?) = ? AND until > ?"
        rows = await _run_in_thread(partial(self._read, statement, len(prefix), prefix, self._clock()))
        return [str(key) for (key,) in rows]

    def _get(self, key: str) -> bytes | None:
        rows = self._read("SELECT value FROM kept WHERE key = ? AND until > ?", key, self._clock())
        return bytes(rows[0][0]) if rows else None

    def _write(self, statement: str, key: str, value: bytes, ttl: float) -> bool:
        if len(value) + len(key) > self._max_bytes // 2:
            logger.warning("a value of %d bytes is too large for the store and was dropped", len(value))
            # No value is better than an outdated one.
            if statement is _SET:
                self._delete(key)
            return False
        return self._enqueue(QueuedWrite(statement, (key, value, self._clock() + ttl)))

    def _delete(self, key: str) -> None:
        if self._path.exists():
            self._enqueue(QueuedWrite(_DELETE, (key,)))

    def _read(self, statement: str, *values: Any) -> list[Any]:
        if not self._path.exists():
            return []
        try:
            with closing(self._open_database()) as database:
                return database.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            if not _is_disk_error(error) or has_log(self._path):
                raise self._to_os_error(error) from error
        # The disk is full or read-only, so the file has everything and no process can write.
        try:
            with closing(self._open_database(mode="ro&immutable=1")) as database:
                return database.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._to_os_error(error) from error

    # The methods below run in the writer's thread, except the first one.

    def _enqueue(self, write: QueuedWrite) -> bool:
        """Wait until the write is committed, and return whether it changed anything."""
        with self._queue_changed:
            self._queue.append(write)
            self._queue_changed.notify()
            if not self._is_writing:
                threading.Thread(target=self._run_writer, name="mcp-bridge store").start()
                self._is_writing = True
        return write.outcome.result()

    def _run_writer(self) -> None:
        """Write what is queued. While writes follow one another, keep the connection open."""
        # This is true if the last writer has just ended, or writes were queued while others were committed.
        is_busy = time.monotonic() - self._idle_since < LINGER
        database: sqlite3.Connection | None = None
        while True:
            with self._queue_changed:
                self._queue_changed.wait_for(lambda: bool(self._queue), LINGER if database is not None else 0)
                batch = self._queue
                self._queue = []
                if not batch:
                    self._is_writing = False
                    self._idle_since = time.monotonic()
                    break
            outcomes: Sequence[bool | Exception]
            try:
                database = database or self._connect_writer()
                outcomes = self._write_batch(database, batch)
            except Exception as error:
                outcomes = [error] * len(batch)
            is_busy = is_busy or bool(self._queue)
            if database is not None and (not is_busy or any(isinstance(outcome, Exception) for outcome in outcomes)):
                database.close()
                database = None
            for write, outcome in zip(batch, outcomes, strict=True):
                self._settle(write, outcome)
        if database is not None:
            database.close()

    def _write_batch(self, database: sqlite3.Connection, batch: Sequence[QueuedWrite]) -> list[bool | Exception]:
        """Write in one transaction, or each write in its own if one of them fails."""
        if len(batch) > 1:
            try:
                return [*self._commit(database, batch)]
            except sqlite3.DatabaseError as error:
                _roll_back(database)
                # Another process uses the file. Each single write would have to wait for it again.
                if get_error_code(error) == sqlite3.SQLITE_BUSY:
                    raise
        return [self._write_alone(database, write) for write in batch]

    def _write_alone(self, database: sqlite3.Connection, write: QueuedWrite) -> bool | Exception:
        while True:
            try:
                return self._commit(database, [write])[0]
            except sqlite3.DatabaseError as error:
                _roll_back(database)
                if get_error_code(error) != sqlite3.SQLITE_FULL or not _is_at_limit(database, write.values):
                    return error
                # Delete the values that expire first, if there are any and the disk has space for this.
                try:
                    if database.execute(_EVICT).rowcount <= 0:
                        return error
                except sqlite3.OperationalError:
                    return error

    def _commit(self, database: sqlite3.Connection, batch: Sequence[QueuedWrite]) -> list[bool]:
        database.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM kept WHERE until <= ?", (self._clock(),))
        results = [database.execute(write.statement, write.values).rowcount > 0 for write in batch]
        database.execute("COMMIT")
        if read_pragma(database, "page_count") != self._pages:
            self._grow_file(database)
        return results

    def _grow_file(self, database: sqlite3.Connection) -> None:
        """Reserve pages in the file, and copy the log to it, whenever the file has grown.

        If the disk becomes full, the file can still change within its pages.
        """
        with suppress(sqlite3.OperationalError):
            try:
                for statement in ("BEGIN IMMEDIATE", *_RESERVE, "COMMIT"):
                    database.execute(statement)
            finally:
                _roll_back(database)
        with suppress(sqlite3.OperationalError):
            is_busy, log_pages, copied_pages = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if not is_busy and log_pages == copied_pages:
                self._pages = read_pragma(database, "page_count")

    def _settle(self, write: QueuedWrite, outcome: bool | Exception) -> None:
        if write.statement is _DELETE and _is_disk_error(outcome):
            try:
                with closing(self._open_database(*_IN_PLACE)) as database:
                    outcome = database.execute(write.statement, write.values).rowcount > 0
            except Exception as error:
                outcome = error
        if isinstance(outcome, Exception):
            write.outcome.set_exception(self._to_os_error(outcome))
        else:
            write.outcome.set_result(outcome)

    # The methods below open connections, check the file and convert errors.

    def _connect_writer(self) -> sqlite3.Connection:
        """Open the file, and create it if there is none. Raises StoreFileError, OSError, sqlite3.DatabaseError."""
        if not self._path.exists():
            create_private_file(self._path)
        database = self._open_database()
        # A deletion on a full disk has set another mode (`_IN_PLACE`).
        with suppress(sqlite3.OperationalError):
            database.execute("PRAGMA journal_mode = WAL")
        self._pages = read_pragma(database, "page_count")
        return database

    def _open_database(self, *pragmas: str, mode: str = "rw") -> sqlite3.Connection:
        """Open the file and check it. Raises StoreFileError, sqlite3.DatabaseError."""
        database = open_connection(self._path, mode, timeout=BUSY_TIMEOUT)
        try:
            for pragma in pragmas:
                database.execute(pragma)
            self._check_or_create(database)
        except BaseException:
            database.close()
            raise
        return database

    def _check_or_create(self, database: sqlite3.Connection) -> None:
        """Check that the file belongs to this store, and create the table in an empty one."""
        if read_pragma(database, "application_id") != _APPLICATION:
            _create_table(database)
            if read_pragma(database, "application_id") != _APPLICATION:
                raise self._make_file_error("another application made it")
        if read_pragma(database, "user_version") != _VERSION:
            raise self._make_file_error("another version of mcp-bridge made it")
        database.execute("PRAGMA synchronous = NORMAL")
        pages = self._max_bytes // read_pragma(database, "page_size")
        database.execute(f"PRAGMA max_page_count = {max(pages, 8)}")

    def _to_os_error(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        if is_damaged(error):
            return self._make_file_error(str(error))
        return OSError(f"the store in {self._path} cannot be used: {error}")

    def _make_file_error(self, why: str) -> StoreFileError:
        return StoreFileError(
            f"{self._path} is not a store of mcp-bridge: {why}. Move it away, and a new one is created"
        )


def _create_table(database: sqlite3.Connection) -> None:
    """Create the table in an empty file, unless another process is doing so. Any other file stays as it is."""
    if not is_empty(database):
        return
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("BEGIN EXCLUSIVE")
    if is_empty(database):
        database.execute(_TABLE)
        database.execute(_INDEX)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {_VERSION}")
    database.execute("COMMIT")


def _is_at_limit(database: sqlite3.Connection, values: Sequence[Any]) -> bool:
    """Return whether the limit of the file is the reason that there is no room for these values, not a full disk."""
    size = sum(len(value) for value in values if isinstance(value, bytes | str))
    # Some pages are for the index.
    needed_pages = size // read_pragma(database, "page_size") + 8
    used_pages = read_pragma(database, "page_count") - read_pragma(database, "freelist_count")
    return used_pages + needed_pages > read_pragma(database, "max_page_count")


def _roll_back(database: sqlite3.Connection) -> None:
    if database.in_transaction:
        database.execute("ROLLBACK")


def _is_disk_error(outcome: object) -> bool:
    """Return whether the disk is full or read-only, so that SQLite cannot create its files next to the database."""
    return isinstance(outcome, sqlite3.Error) and get_error_code(outcome) in _DISK_ERRORS


async def _run_in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread. If the task is cancelled, it does not wait for the file."""
    return await to_thread.run_sync(work, abandon_on_cancel=True)
