"""The SQLite file of an audit trail: its tables, and connections to it.

Triggers reject statements that would break the chain: records get consecutive numbers, do not change, and are removed
only up to an anchor. The writer relies on the first one to notice that another process has appended a record.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Literal

from mcp_bridge._policies.audit_trail.chain import Head
from mcp_bridge._storage.sqlite_files import (
    create_private_file,
    has_log,
    is_damaged,
    is_empty,
    open_connection,
    read_pragma,
)

Synchronous = Literal["normal", "full"]
"""Whether a record survives a power failure once it is written (`full`), or only the end of the process (`normal`)."""
BUSY_TIMEOUT = 5.0
"""Seconds that an operation waits for another process to release the file."""
_APPLICATION = 0x6D637061
"""SQLite's application id of audit trails: `mcpa`."""
_VERSION = 1
COLUMNS = ("time", "kind", "name", "source", "principal", "outcome", "code")
"""The members of a record with columns for queries."""
INSERT = "INSERT INTO records (seq, record, hash) VALUES (?, ?, ?)"
_SCHEMA = (
    f"""CREATE TABLE records (seq INTEGER PRIMARY KEY, record TEXT NOT NULL, hash TEXT NOT NULL,
{", ".join(f"{name} TEXT GENERATED ALWAYS AS (json_extract(record, '$.{name}')) VIRTUAL" for name in COLUMNS)})""",
    "CREATE INDEX anchors ON records (seq) WHERE kind = 'anchor'",
    """CREATE TRIGGER records_are_appended BEFORE INSERT ON records
WHEN new.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM records)
BEGIN SELECT RAISE(ABORT, 'records are only appended'); END""",
    """CREATE TRIGGER records_do_not_change BEFORE UPDATE ON records
BEGIN SELECT RAISE(ABORT, 'records do not change'); END""",
    """CREATE TRIGGER records_are_kept BEFORE DELETE ON records WHEN old.seq > coalesce((SELECT
json_extract(record, '$.through') FROM records WHERE kind = 'anchor' ORDER BY seq DESC LIMIT 1), 0)
BEGIN SELECT RAISE(ABORT, 'records are removed only up to an anchor'); END""",
)


class AuditFileError(OSError):
    """The audit trail cannot be written or read, or the file is not an audit trail."""


def open_for_writing(path: Path, synchronous: Synchronous) -> sqlite3.Connection:
    """Open the file, or create it for its owner alone. Raises AuditFileError."""
    try:
        if not path.exists():
            create_private_file(path)
        database = open_connection(path, "rw", timeout=BUSY_TIMEOUT)
    except (OSError, sqlite3.Error) as error:
        raise to_file_error(path, error) from error
    try:
        _check_or_create(database, path)
        database.execute(f"PRAGMA synchronous = {synchronous.upper()}")
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error):
            raise to_file_error(path, error) from error
        raise
    return database


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open an existing audit trail. Raises AuditFileError."""
    if not path.is_file():
        raise AuditFileError(f"there is no audit trail at {path}")
    try:
        return _open_checked(path, "ro")
    except sqlite3.Error as error:
        if has_log(path) or is_damaged(error):
            raise to_file_error(path, error) from error
    # SQLite fails if it cannot write in the folder, unless the file is declared immutable. As there is no write-ahead
    # log, the file itself is complete.
    try:
        return _open_checked(path, "ro&immutable=1")
    except sqlite3.Error as error:
        raise to_file_error(path, error) from error


def check_location(path: Path) -> None:
    """Check that an audit trail can be written here, without creating it. Raises AuditFileError."""
    if not path.exists():
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise AuditFileError(f"the audit trail {path} cannot be created: {folder} is not a writable folder")
        return
    if not os.access(path, os.W_OK):
        raise AuditFileError(f"the audit trail {path} cannot be written: permission denied")
    try:
        _open_checked(path, "rw", may_be_empty=True).close()
    except sqlite3.Error as error:
        raise to_file_error(path, error) from error


def read_head(database: sqlite3.Connection) -> Head:
    """Return the last record."""
    row = database.execute("SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1").fetchone()
    return Head(*(row or ()))


def to_file_error(path: Path, error: Exception) -> AuditFileError:
    """Convert an error of SQLite or of the system to one for the user."""
    if isinstance(error, AuditFileError):
        return error
    if isinstance(error, sqlite3.Error) and is_damaged(error):
        return AuditFileError(f"{path} is not an audit trail of mcp-bridge, or is damaged: {error}")
    reason = getattr(error, "strerror", None) or error
    return AuditFileError(f"the audit trail {path} cannot be used: {reason}")


def _open_checked(path: Path, mode: str, *, may_be_empty: bool = False) -> sqlite3.Connection:
    database = open_connection(path, mode, timeout=BUSY_TIMEOUT)
    # With strict decoding, a record with invalid bytes would end the verification without the number of the record.
    database.text_factory = lambda data: data.decode(errors="replace")
    try:
        if not (may_be_empty and is_empty(database)):
            _check_application(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _check_or_create(database: sqlite3.Connection, path: Path) -> None:
    if is_empty(database):
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN EXCLUSIVE")
        # Another process may have created the tables since the first check.
        if is_empty(database):
            for statement in _SCHEMA:
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute("COMMIT")
    _check_application(database, path)


def _check_application(database: sqlite3.Connection, path: Path) -> None:
    if read_pragma(database, "application_id") != _APPLICATION:
        raise AuditFileError(f"{path} is not an audit trail of mcp-bridge")
    if read_pragma(database, "user_version") != _VERSION:
        raise AuditFileError(f"{path} is the audit trail of another version of mcp-bridge")
