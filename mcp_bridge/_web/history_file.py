"""Keeps the latest finished calls in a SQLite file, so that the page shows them after a restart.

The file has what operators see: calls without secrets, and with long values truncated. A thread writes the calls that
have ended once a second, so calls do not wait for the file.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._storage.sqlite_files import create_private_file, open_connection
from mcp_bridge._web.call_rows import SavedCall
from mcp_bridge._web.history import CallRecord

logger = logging.getLogger("mcp_bridge.page")

MAX_CALLS = 1000
"""The maximum number of calls in the file."""
INTERVAL = 1.0
"""Seconds between two writes. The end of the process by a signal that it cannot handle loses the calls in between."""
TIMEOUT = 5.0
"""Seconds to wait for another process that uses the file."""


class HistoryFile:
    """Saves calls, and has those of earlier processes (`calls`, by id).

    Raises OSError and sqlite3.Error if the file cannot be used.
    """

    def __init__(self, path: Path, render: Callable[[CallRecord], SavedCall]) -> None:
        self._path = path
        self._render = render
        self._ended: list[CallRecord] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        if not path.exists():
            create_private_file(path)
        self.calls = {saved.row["id"]: saved for saved in self._read_calls()}

    @property
    def last_id(self) -> int:
        """The id of the latest call; 0 without one."""
        return max(self.calls, default=0)

    def add(self, record: CallRecord) -> None:
        """Save a call that has ended, soon."""
        self._ended.append(record)
        if self._is_closed:
            self._write_ended()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._begin_writing)

    def close(self) -> None:
        """Save the calls that are not in the file yet. Later ones are saved at once."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._write_ended()

    def _begin_writing(self) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, self._write_ended)

    def _write_ended(self) -> None:
        # The event loop may add calls meanwhile, and `close` may run at the same time.
        with self._lock:
            records = self._ended[:]
            del self._ended[: len(records)]
            if not records:
                return
            try:
                self._write([self._render(record) for record in records])
            except (sqlite3.Error, OSError) as error:
                logger.warning("%s: %d calls were not saved: %s", self._path, len(records), error)

    def _write(self, calls: Iterable[SavedCall]) -> None:
        rows = [(saved.row["id"], dump_json(saved.row), dump_json(saved.details)) for saved in calls]
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", rows)
            database.execute("DELETE FROM calls WHERE id <= (SELECT max(id) FROM calls) - ?", (MAX_CALLS,))
            database.execute("COMMIT")

    def _read_calls(self) -> list[SavedCall]:
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, row BLOB, details BLOB)")
            rows = database.execute("SELECT row, details FROM calls ORDER BY id").fetchall()
        return [SavedCall(load_json(row), load_json(details)) for row, details in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        database = open_connection(self._path, "rw", timeout=TIMEOUT)
        try:
            yield database
        finally:
            database.close()
