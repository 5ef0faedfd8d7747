"""What an entry that is taken out leaves to those that stay: that a container, or the file, was made for a bridge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp_bridge.clients.journal import Journal, Record
from mcp_bridge.documents.edit import Undo

_OF_CONTAINER = ("inside", "held", "root")


def heirs(journal: Journal, leaving: Record) -> Iterator[Record]:
    """The other records of the same file that have more to undo when this one's entry is gone, with that in them."""
    for record in journal.all():
        if record.path != leaving.path or record == leaving:
            continue
        undo: dict[str, Any] = dict(record.undo)
        if leaving.undo.get("made") is True:
            undo["made"] = True
        mine, theirs = record.undo.get("edit"), leaving.undo.get("edit")
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            undo["edit"] = inherited(mine, record.within, theirs, leaving.within)
        if undo != record.undo:
            yield replace(record, undo=undo)


def inherited(mine: Undo, within: Sequence[str], theirs: Undo, their_within: Sequence[str]) -> Undo:
    """The undo of an entry that stays, with what that of a leaving one says of the containers that both stand in."""
    found, they_found = len(within) - _created(mine), len(their_within) - _created(theirs)
    if not 0 <= they_found <= found or list(within[:found]) != list(their_within[:found]):
        return mine  # the leaving one has made nothing that this one was put into
    given = {key: theirs[key] for key in _OF_CONTAINER if key in theirs}
    if found == they_found:
        return {**given, **mine}
    kept = {key: value for key, value in mine.items() if key not in _OF_CONTAINER}
    return {**kept, **given, "created": len(within) - they_found}


def _created(undo: Undo) -> int:
    created = undo.get("created")
    return created if isinstance(created, int) else 0
