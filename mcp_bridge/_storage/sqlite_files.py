"""Opens and examines SQLite files. The store in a file and the audit trail use it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path


def create_private_file(path: Path) -> None:
    """Create an empty file for its owner alone. SQLite would make it readable for other users. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def open_connection(path: Path, mode: str, *, timeout: float) -> sqlite3.Connection:
    """Open a file in a mode of SQLite, such as `rw`. Transactions begin only with a statement. Raises sqlite3.Error.

    `timeout` is in seconds, for which each operation waits if another process uses the file.
    """
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)


def is_empty(database: sqlite3.Connection) -> bool:
    """Return whether a file has no tables."""
    return not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def read_pragma(database: sqlite3.Connection, pragma: str) -> int:
    """Return the number of a PRAGMA."""
    return int(database.execute(f"PRAGMA {pragma}").fetchone()[0])


def has_log(path: Path) -> bool:
    """Return whether some changes are not in the file itself yet, but in its write-ahead log."""
    with suppress(OSError):
        return os.stat(f"{path}-wal").st_size > 0
    return False


def get_error_code(error: sqlite3.Error) -> int:
    """Return the primary result code of an error, or 0 if it is not from SQLite."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_damaged(error: sqlite3.Error) -> bool:
    """Return whether the reason of an error is a damaged file, or a file of another format."""
    return get_error_code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
