"""Reads audit trails: the latest records that match, those that follow a record, and the verification."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mcp_bridge._policies.audit_trail.chain import ChainedRecord, ChainReport, verify_records
from mcp_bridge._policies.audit_trail.database import open_for_reading, to_file_error

MAX_ROWS = 1000
"""The maximum number of records of a page."""
NO_RECORD = "not a record: verify the file"
"""What is shown in place of a record that was changed to something else."""
_SELECT = "SELECT seq, record, hash FROM records"


class AuditQuery(NamedTuple):
    """Which records to read; None for any.

    Attributes:
        name: A pattern of what is called, with the wildcards `*` and `?`.
        outcome: `ok`, `error`, `denied`, `cancelled` or `started`.
        since: The earliest time, formatted as in records, or its beginning, such as `2026-11-26`.
        until: The time before which the calls began, in the same format.
        text: A text that the JSON of the record contains, ignoring case.
    """

    name: str | None = None
    principal: str | None = None
    outcome: str | None = None
    since: str | None = None
    until: str | None = None
    text: str | None = None

    def build_conditions(self) -> tuple[list[str], list[Any]]:
        """Return the conditions in SQL, and their values."""
        table = (
            ("name GLOB ?", self.name and self.name.replace("[", "[[]")),  # GLOB also has sets, such as [a-z]
            ("principal = ?", self.principal),
            ("outcome = ?", self.outcome),
            ("time >= ?", self.since),
            ("time < ?", self.until),
            ("instr(lower(record), lower(?)) > 0", self.text),
        )
        given = [(condition, value) for condition, value in table if value is not None]
        return [condition for condition, _ in given], [value for _, value in given]


class AuditPage(NamedTuple):
    """Records, the latest first. `next` is the cursor for older ones; None if there are none."""

    rows: Sequence[ChainedRecord]
    next: int | None


class AuditReader:
    """An open audit trail. All methods raise AuditFileError."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self._path = path
        self._database = database

    def read_latest(self, query: AuditQuery, *, limit: int | None = MAX_ROWS, before: int | None = None) -> AuditPage:
        """Return the latest records that match, before the record number `before`, the cursor of the last page."""
        rows = self._select(query, [] if before is None else [("seq < ?", before)], "DESC", limit)
        is_full = limit is not None and len(rows) == limit
        return AuditPage(rows, rows[-1].seq if is_full and rows else None)

    def read_after(self, query: AuditQuery, seq: int, *, limit: int = MAX_ROWS) -> Sequence[ChainedRecord]:
        """Return the records that match after the one with this number, the oldest first."""
        return self._select(query, [("seq > ?", seq)], "ASC", limit)

    def find_last(self) -> int:
        """Return the number of the last record; 0 if there is none."""
        rows = self._select(AuditQuery(), [], "DESC", 1)
        return rows[0].seq if rows else 0

    def verify(self, expected: str = "") -> ChainReport:
        """Check the whole chain (see `verify_records`). Records that are appended meanwhile are not in it."""
        try:
            self._database.execute("BEGIN")
            try:
                anchors = self._iterate(f"{_SELECT} WHERE kind = 'anchor' ORDER BY seq DESC")
                return verify_records(self._iterate(f"{_SELECT} ORDER BY seq"), anchors, expected)
            finally:
                self._database.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise to_file_error(self._path, error) from error

    def _select(
        self, query: AuditQuery, places: Sequence[tuple[str, int]], order: str, limit: int | None
    ) -> list[ChainedRecord]:
        conditions, values = query.build_conditions()
        conditions += [condition for condition, _ in places]
        values += [value for _, value in places]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        statement = f"{_SELECT}{where} ORDER BY seq {order} LIMIT ?"
        try:
            return list(self._iterate(statement, *values, -1 if limit is None else limit))
        except sqlite3.Error as error:
            raise to_file_error(self._path, error) from error

    def _iterate(self, statement: str, *values: Any) -> Iterator[ChainedRecord]:
        return map(ChainedRecord._make, self._database.execute(statement, values))


@contextmanager
def open_trail(path: Path) -> Iterator[AuditReader]:
    """Open an audit trail for reading, even while it is written. Raises AuditFileError."""
    database = open_for_reading(path)
    try:
        yield AuditReader(path, database)
    finally:
        database.close()


def read_page(path: Path, query: AuditQuery, *, limit: int = 100, before: int | None = None) -> dict[str, Any]:
    """Return a page of records for a user interface: `{"rows": [...], "next": cursor or null}`, the latest first.

    A row is the record with `seq` and `hash`. Raises AuditFileError.
    """
    with open_trail(path) as trail:
        page = trail.read_latest(query, limit=min(limit, MAX_ROWS), before=before)
    rows = [{"seq": row.seq, "hash": row.hash, **_parse_row(row)} for row in page.rows]
    return {"rows": rows, "next": page.next}


def _parse_row(row: ChainedRecord) -> dict[str, Any]:
    try:
        return row.parse_record()
    except (ValueError, AttributeError):  # the file was changed
        return {"name": NO_RECORD, "outcome": "error"}
