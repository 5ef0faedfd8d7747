"""A store in an SQLite file: it outlives the process, and the processes of a machine can share it."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

T = TypeVar("T")
MAX_BYTES = 64 * 1024 * 1024
BUSY = 2.0
"""Seconds that an operation waits for another process to release the file."""
_APPLICATION = 0x6D637062
"""SQLite's application id, which identifies files of this store: `mcpb`."""
_VERSION = 1
_TABLE = "CREATE TABLE kept (key TEXT PRIMARY KEY, value BLOB NOT NULL, until REAL NOT NULL)"
_INDEX = "CREATE INDEX kept_until ON kept (until)"
_SET = """INSERT INTO kept VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until"""
_ADD = "INSERT INTO kept VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING"
_SOONEST = """DELETE FROM kept WHERE key IN
(SELECT key FROM kept ORDER BY until LIMIT 1 + (SELECT count(*) FROM kept) / 8)"""

logger = logging.getLogger("mcp_bridge.stores")


class StoreFileError(OSError):
    """The file does not belong to this store, or is damaged."""


class SqliteStore:
    """A `Store` in a file of at most about `max_bytes`. When it is full, the values that expire first are evicted.

    The file is created when the first value is stored, readable by its owner only. Each operation opens and closes it
    in a thread, so no connection survives a fork or has to be closed at shutdown. `clock` returns seconds since 1970.
    Every method raises StoreFileError if the file does not belong to this store, and OSError if it cannot be used.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._clock = clock

    def check(self) -> None:
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
        await _run_in_thread(partial(self._delete, key))

    async def keys(self, prefix: str) -> list[str]:
        return await _run_in_thread(partial(self._list_keys, prefix))

    def _get(self, key: str) -> bytes | None:
        if not self._path.exists():
            return None
        with self._open() as database:
            asked = database.execute("SELECT value FROM kept WHERE key = ? AND until > ?", (key, self._clock()))
            found = asked.fetchone()
        return bytes(found[0]) if found is not None else None

    def _write(self, statement: str, key: str, value: bytes, ttl: float) -> bool:
        if len(value) + len(key) > self._max_bytes // 2:
            logger.warning("a value of %d bytes is too large for the store and was dropped", len(value))
            if statement is _SET:  # no value is better than an outdated one
                self._delete(key)
            return False
        with self._open(make=True) as database:
            now = self._clock()
            while True:
                try:
                    database.execute("BEGIN IMMEDIATE")
                    database.execute("DELETE FROM kept WHERE until <= ?", (now,))
                    kept = database.execute(statement, (key, value, now + ttl)).rowcount > 0
                    database.execute("COMMIT")
                    return kept
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not _make_room(database):
                        raise

    def _delete(self, key: str) -> None:
        if self._path.exists():
            with self._open() as database:
                database.execute("DELETE FROM kept WHERE key = ?", (key,))

    def _list_keys(self, prefix: str) -> list[str]:
        if not self._path.exists():
            return []
        with self._open() as database:
            asked = (len(prefix), prefix, self._clock())
            found = database.execute("SELECT key FROM kept WHERE substr(key, 1, ?) = ? AND until > ?", asked).fetchall()
        return [str(key) for (key,) in found]

    @contextmanager
    def _open(self, *, make: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file. Raises StoreFileError, OSError."""
        try:
            if make and not self._path.exists():
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite would make it readable for others
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None)) as database:
                self._check_or_create(database)
                yield database
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
                raise self._make_file_error(str(error)) from error
            raise OSError(f"the store in {self._path} cannot be used: {error}") from error

    def _check_or_create(self, database: sqlite3.Connection) -> None:
        """Check that the file belongs to this store, and create the table in an empty one."""
        if _read_pragma(database, "application_id") != _APPLICATION:
            _create_table(database)
            if _read_pragma(database, "application_id") != _APPLICATION:
                raise self._make_file_error("another application made it")
        if _read_pragma(database, "user_version") != _VERSION:
            raise self._make_file_error("another version of mcp-bridge made it")
        database.execute("PRAGMA synchronous = NORMAL")
        pages = self._max_bytes // _read_pragma(database, "page_size")
        database.execute(f"PRAGMA max_page_count = {max(pages, 8)}")

    def _make_file_error(self, why: str) -> StoreFileError:
        return StoreFileError(
            f"{self._path} is not a store of mcp-bridge: {why}. Move it away, and a new one is created"
        )


def _create_table(database: sqlite3.Connection) -> None:
    """Create the table in an empty file, unless another process is doing so. Any other file stays as it is."""
    if not _is_empty(database):
        return
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("BEGIN EXCLUSIVE")
    if _is_empty(database):
        database.execute(_TABLE)
        database.execute(_INDEX)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {_VERSION}")
    database.execute("COMMIT")


def _is_empty(database: sqlite3.Connection) -> bool:
    return not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _make_room(database: sqlite3.Connection) -> bool:
    """Delete the values that expire first; return whether there were any."""
    if database.in_transaction:
        database.execute("ROLLBACK")
    return database.execute(_SOONEST).rowcount > 0


def _read_pragma(database: sqlite3.Connection, pragma: str) -> int:
    return int(database.execute(f"PRAGMA {pragma}").fetchone()[0])


async def _run_in_thread(work: Callable[[], T]) -> T:
    """Run in a thread. A cancelled task does not wait for the file."""
    return await to_thread.run_sync(work, abandon_on_cancel=True)
