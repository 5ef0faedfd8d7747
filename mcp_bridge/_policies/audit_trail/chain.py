"""The hash chain of records: the hash of each covers its text and the hash of the previous one.

If a record is changed or removed, the hashes after it no longer match. Anyone who can write the file can also
recompute all later hashes, so only a hash that is stored elsewhere proves the records up to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

FIRST = "0" * 64
"""The first record has this in place of the hash of a previous one."""


class ChainedRecord(NamedTuple):
    """A record as it is stored: its number, counted from 1, its JSON text, and its hash."""

    seq: int
    text: str
    hash: str

    def parse_record(self) -> dict[str, Any]:
        """Return the record. Raises ValueError or AttributeError for a text that is not a JSON object."""
        return dict(json.loads(self.text).items())


class Head(NamedTuple):
    """The last record of a chain: its number and hash. Both are those of an empty chain by default."""

    seq: int = 0
    hash: str = FIRST


class ChainReport(NamedTuple):
    """The result of a verification.

    Attributes:
        checked: How many records were checked.
        removed: How many earlier records the retention has removed.
        head: The last intact record.
        broken: The number of the first record that does not match, or None.
        problem: What is wrong with it.
        has_expected: Whether a record has the hash that was expected; True without one.
    """

    checked: int
    removed: int
    head: Head
    broken: int | None = None
    problem: str = ""
    has_expected: bool = True

    @property
    def is_intact(self) -> bool:
        return self.broken is None and self.has_expected


def compute_hash(previous: str, text: str) -> str:
    """Return the hash of a record: SHA-256 of the previous hash, in hexadecimal, and its text, in UTF-8."""
    return hashlib.sha256(f"{previous}{text}".encode()).hexdigest()


def verify_records(records: Iterable[ChainedRecord], anchors: Iterable[ChainedRecord], expected: str) -> ChainReport:
    """Check the chain, from the oldest record to the latest.

    `anchors` are the records by which the retention declares what it has removed. `expected` is a hash, or its
    beginning, that one of the records must have; empty for none.
    """
    head, checked, removed, found = Head(), 0, 0, not expected
    for record in records:
        if not checked and record.seq != 1:
            start = _find_start(record.seq - 1, anchors)
            if start is None:
                problem = f"the records before {record.seq} are missing, but the retention has not removed them"
                return ChainReport(0, 0, head, record.seq, problem, found)
            head, removed = start, start.seq
            found = found or start.hash.startswith(expected)
        if record.seq != head.seq + 1:
            problem = f"the records {head.seq + 1} to {record.seq - 1} are missing"
            return ChainReport(checked, removed, head, head.seq + 1, problem, found)
        if record.hash != compute_hash(head.hash, record.text):
            problem = "its hash does not match its text and the previous hash"
            return ChainReport(checked, removed, head, record.seq, problem, found)
        head, checked = Head(record.seq, record.hash), checked + 1
        found = found or record.hash.startswith(expected)
    return ChainReport(checked, removed, head, has_expected=found)


def _find_start(seq: int, anchors: Iterable[ChainedRecord]) -> Head | None:
    """Return the last record that was removed, as an anchor declares it."""
    for anchor in anchors:
        try:
            record = anchor.parse_record()
        except (ValueError, AttributeError):
            continue
        if record.get("through") == seq and isinstance(record.get("hash"), str):
            return Head(seq, record["hash"])
    return None
