"""Reads and verifies audit trails, for the command `mcp-bridge audit` and the page."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mcp_bridge._policies.audit_trail.chain import ChainedRecord, ChainReport, verify_records
from mcp_bridge._policies.audit_trail.database import open_for_reading, to_file_error

MAX_ROWS = 1000
"""The maximum number of records of a page."""
NO_RECORD = "not a record: verify the file"
"""The name in a row for a record whose text is not a JSON object."""
_SELECT = "SELECT seq, record, hash FROM records"


class AuditQuery(NamedTuple):
    """Selects records; None selects any.

    Attributes:
        name: A pattern of the names of tools, with the wildcards `*` and `?`.
        outcome: `ok`, `error`, `denied`, `cancelled` or `started`.
        since: The earliest time, formatted as in records, or its beginning, such as `2026-11-26`.
        until: The end of the period in which the calls began, in the same format.
        text: A text in the JSON of the record, ignoring case.
    """

    name: str | None = None
    principal: str | None = None
    outcome: str | None = None
    since: str | None = None
    until: str | None = None
    text: str | None = None

    def build_conditions(self) -> dict[str, str | int]:
        """Return the conditions in SQL, each with its value."""
        conditions = {
            # GLOB also interprets sets, such as [a-z]. The set [[] matches the bracket itself.
            "name GLOB ?": self.name and self.name.replace("[", "[[]"),
            "principal = ?": self.principal,
            "outcome = ?": self.outcome,
            "time >= ?": self.since,
            "time < ?": self.until,
            "instr(lower(record), lower(?)) > 0": self.text,
        }
        return {condition: value for condition, value in conditions.items() if value is not None}


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
        """Return the latest matching records before the record number `before`, the cursor of the last page."""
        conditions = query.build_conditions()
        if before is not None:
            conditions["seq < ?"] = before
        rows = self._select(conditions, "DESC", limit)
        if not rows or len(rows) != limit:
            return AuditPage(rows, None)
        return AuditPage(rows, rows[-1].seq)

    def read_after(self, query: AuditQuery, seq: int, *, limit: int = MAX_ROWS) -> Sequence[ChainedRecord]:
        """Return the matching records after the one with this number, the oldest first."""
        return self._select(query.build_conditions() | {"seq > ?": seq}, "ASC", limit)

    def find_last(self) -> int:
        """Return the number of the last record; 0 if there is none."""
        rows = self._select({}, "DESC", 1)
        return rows[0].seq if rows else 0

    def verify(self, expected: str = "") -> ChainReport:
        """Check the chain of the existing records (see `verify_records`)."""
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
        self, conditions: Mapping[str, str | int], order: Literal["ASC", "DESC"], limit: int | None
    ) -> list[ChainedRecord]:
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        statement = f"{_SELECT}{where} ORDER BY seq {order} LIMIT ?"
        # SQLite takes -1 for no limit.
        limit = -1 if limit is None else limit
        try:
            return list(self._iterate(statement, *conditions.values(), limit))
        except sqlite3.Error as error:
            raise to_file_error(self._path, error) from error

    def _iterate(self, statement: str, *values: Any) -> Iterator[ChainedRecord]:
        return map(ChainedRecord._make, self._database.execute(statement, values))


@contextmanager
def open_trail(path: Path) -> Iterator[AuditReader]:
    """Open an audit trail for reading, even while it is written. Raises AuditFileError."""
    with closing(open_for_reading(path)) as database:
        yield AuditReader(path, database)


def read_page(path: Path, query: AuditQuery, *, limit: int = 100, before: int | None = None) -> dict[str, Any]:
    """Return a page of records for a user interface: `{"rows": [...], "next": cursor or null}`, the latest first.

    A row is the record with `seq` and `hash`. Raises AuditFileError.
    """
    with open_trail(path) as trail:
        page = trail.read_latest(query, limit=min(limit, MAX_ROWS), before=before)
    rows: list[dict[str, Any]] = []
    for row in page.rows:
        try:
            record = row.parse_record()
        except (ValueError, AttributeError):
            # A changed file can contain any text.
            record = {"name": NO_RECORD, "outcome": "error"}
        rows.append({"seq": row.seq, "hash": row.hash, **record})
    return {"rows": rows, "next": page.next}
