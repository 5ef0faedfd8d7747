"""The removal of old records. An anchor in the chain contains the hash of the last removed one."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from mcp_bridge._policies.audit_trail.chain import compute_hash
from mcp_bridge._policies.audit_trail.database import read_head, read_pragma

CHUNK = 1000
"""The maximum number of records that are removed at once, so that calls do not wait for long."""
INTERVAL = 512
"""How many records are written between two checks."""
_OLDEST = "SELECT seq, hash, time FROM records ORDER BY seq LIMIT ?"
_INSERT = "INSERT INTO records (seq, record, hash) VALUES (?, ?, ?)"


class Retention(NamedTuple):
    """How long records are kept, in seconds, and how many bytes they may have; None for no limit."""

    age: float | None = None
    size: int | None = None

    @property
    def is_limited(self) -> bool:
        return self.age is not None or self.size is not None


def remove_old_records(database: sqlite3.Connection, retention: Retention) -> int:
    """Remove at most `CHUNK` of the oldest records, and append an anchor for them. Returns how many were removed.

    Raises sqlite3.Error.
    """
    if not _is_exceeded(database, retention):  # the usual case, which needs no lock
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
    oldest = database.execute(_OLDEST, (CHUNK,)).fetchall()
    head = read_head(database)
    if _is_too_large(database, retention):
        old = oldest
    else:
        limit = _find_limit(retention)
        young = next((index for index, row in enumerate(oldest) if row[2] >= limit), len(oldest))
        old = oldest[:young]
    old = [row for row in old if row[0] < head.seq]  # the latest record stays
    if not old:
        return 0
    through, last_hash, _ = old[-1]
    now = format_time(time.time())
    anchor = {"time": now, "kind": "anchor", "through": through, "hash": last_hash, "removed": len(old)}
    text = json.dumps(anchor)
    database.execute(_INSERT, (head.seq + 1, text, compute_hash(head.hash, text)))
    database.execute("DELETE FROM records WHERE seq <= ?", (through,))
    return len(old)


def _is_too_large(database: sqlite3.Connection, retention: Retention) -> bool:
    """Whether the pages in use have too many bytes. The file keeps free pages for new records."""
    if retention.size is None:
        return False
    pages = read_pragma(database, "page_count") - read_pragma(database, "freelist_count")
    return pages * read_pragma(database, "page_size") > retention.size


def _find_limit(retention: Retention) -> str:
    """Return the time from which records are kept; empty if they are kept forever."""
    return format_time(time.time() - retention.age) if retention.age is not None else ""


def format_time(seconds: float) -> str:
    """Format seconds since 1970 as in records: `2026-11-26T13:30:00.123456Z`, which sorts as text."""
    whole = math.floor(seconds)
    microseconds = int((seconds - whole) * 1_000_000)
    return f"{_format_second(whole)}.{microseconds:06}Z"


@lru_cache(maxsize=1)
def _format_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
