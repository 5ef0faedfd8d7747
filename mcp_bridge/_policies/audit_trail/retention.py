"""The removal of old records. It appends an anchor to the chain, with the hash of the last removed record."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from mcp_bridge._policies.audit_trail.chain import Head, compute_hash
from mcp_bridge._policies.audit_trail.database import INSERT, read_head
from mcp_bridge._storage.sqlite_files import read_pragma

CHUNK = 1000
"""The maximum number of records in one removal, so that calls do not wait for long."""
INTERVAL = 512
"""The number of new records after which the writer checks the limits again."""
_OLDEST = "SELECT seq, hash, time FROM records ORDER BY seq LIMIT ?"


class Retention(NamedTuple):
    """The maximum age of records in seconds, and the maximum size of the file in bytes; None for no limit."""

    age: float | None = None
    size: int | None = None

    @property
    def is_limited(self) -> bool:
        return self.age is not None or self.size is not None


def remove_old_records(database: sqlite3.Connection, retention: Retention) -> int:
    """Remove at most `CHUNK` of the oldest records, and append an anchor for them. Return their number.

    Raises sqlite3.Error.
    """
    # In the usual case, nothing is to be removed. That needs no lock.
    if not _is_exceeded(database, retention):
        return 0
    database.execute("BEGIN IMMEDIATE")
    try:
        count = _remove_oldest(database, retention)
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    return count


def _is_exceeded(database: sqlite3.Connection, retention: Retention) -> bool:
    if _is_too_large(database, retention):
        return True
    oldest = database.execute(_OLDEST, (1,)).fetchone()
    return oldest is not None and oldest[2] < _find_limit(retention)


def _remove_oldest(database: sqlite3.Connection, retention: Retention) -> int:
    head = read_head(database)
    is_too_large = _is_too_large(database, retention)
    limit = _find_limit(retention)
    count = 0
    last = Head()
    for seq, digest, time_of_record in database.execute(_OLDEST, (CHUNK,)).fetchall():
        # The latest record stays, and so do all records after the first one that is young enough.
        if seq >= head.seq or not (is_too_large or time_of_record < limit):
            break
        count += 1
        last = Head(seq, digest)
    if not count:
        return 0
    date = format_time(time.time())
    anchor = {"time": date, "kind": "anchor", "through": last.seq, "hash": last.hash, "removed": count}
    text = json.dumps(anchor)
    database.execute(INSERT, (head.seq + 1, text, compute_hash(head.hash, text)))
    database.execute("DELETE FROM records WHERE seq <= ?", (last.seq,))
    return count


def _is_too_large(database: sqlite3.Connection, retention: Retention) -> bool:
    """Return whether the pages in use have too many bytes. The file keeps free pages for new records."""
    if retention.size is None:
        return False
    pages = read_pragma(database, "page_count") - read_pragma(database, "freelist_count")
    return pages * read_pragma(database, "page_size") > retention.size


def _find_limit(retention: Retention) -> str:
    """Return the time from which records are kept; empty if they are kept forever."""
    if retention.age is None:
        return ""
    return format_time(time.time() - retention.age)


def format_time(seconds: float) -> str:
    """Format seconds since 1970 as in records: `2026-11-26T13:30:00.123456Z`, which sorts as text."""
    second = math.floor(seconds)
    microseconds = int((seconds - second) * 1_000_000)
    return f"{_format_second(second)}.{microseconds:06}Z"


@lru_cache(maxsize=1)
def _format_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
