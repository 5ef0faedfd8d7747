"""The hash chain of records: the hash of each record covers its text and the hash of the previous record.

A change or removal of a record breaks all hashes after it. Anyone who can write the file can also recompute these
hashes, so only a hash that is stored elsewhere proves the records up to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

FIRST = "0" * 64
"""The previous hash of the first record."""


class ChainedRecord(NamedTuple):
    """A stored record: its number, counted from 1, its JSON text, and its hash."""

    seq: int
    text: str
    hash: str

    def parse_record(self) -> dict[str, Any]:
        """Return the record. Raises ValueError or AttributeError if the text is not a JSON object."""
        return dict(json.loads(self.text).items())


class Head(NamedTuple):
    """The last record of a chain: its number and hash. Both are those of an empty chain by default."""

    seq: int = 0
    hash: str = FIRST


class ChainReport(NamedTuple):
    """The result of a verification.

    Attributes:
        checked: The number of checked records.
        removed: The number of earlier records that the retention has removed.
        head: The last intact record.
        broken: The number of the first record that does not match, or None.
        problem: The problem of this record.
        has_expected: Whether a record has the expected hash; True if none is expected.
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

    `anchors` are the records about the removal of others by the retention. `expected` is the hash,
    or the beginning of the hash, of one of the records; empty for none.
    """
    head = Head()
    checked = 0
    removed = 0
    has_expected = not expected
    for record in records:
        if not checked and record.seq != 1:
            start = _find_start(record.seq - 1, anchors)
            if start is None:
                problem = f"the records before {record.seq} are missing, but the retention has not removed them"
                return ChainReport(0, 0, head, record.seq, problem, has_expected)
            head = start
            removed = start.seq
            has_expected = has_expected or start.hash.startswith(expected)
        if record.seq != head.seq + 1:
            problem = f"the records {head.seq + 1} to {record.seq - 1} are missing"
            return ChainReport(checked, removed, head, head.seq + 1, problem, has_expected)
        if record.hash != compute_hash(head.hash, record.text):
            problem = "its hash does not match its text and the previous hash"
            return ChainReport(checked, removed, head, record.seq, problem, has_expected)
        head = Head(record.seq, record.hash)
        checked += 1
        has_expected = has_expected or record.hash.startswith(expected)
    return ChainReport(checked, removed, head, has_expected=has_expected)


def _find_start(seq: int, anchors: Iterable[ChainedRecord]) -> Head | None:
    """Return the record with this number, if an anchor declares that the records up to it were removed."""
    for anchor in anchors:
        try:
            record = anchor.parse_record()
        except (ValueError, AttributeError):
            continue
        if record.get("through") == seq and isinstance(record.get("hash"), str):
            return Head(seq, record["hash"])
    return None
