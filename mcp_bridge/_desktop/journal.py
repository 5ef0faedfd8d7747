"""The journal of installations, for `uninstall`: a file for each entry, so that concurrent programs lose none."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.file_replacement import replace_file
from mcp_bridge._settings.documents.edit import Undo

MAX_BYTES = 1 << 20
_VERSION = 1
_MAX_REPLACED = 5
"""How many entries of one name that replaced each other can be restored."""
_CONTAINER_KEYS = ("inside", "held", "root")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationRecord:
    """An entry that was installed."""

    client: str
    scope: str
    path: str
    """The client's file, absolute."""
    within: Sequence[str]
    """The keys that lead to its servers there: one file may have the servers of all projects."""
    name: str
    value: Mapping[str, Any]
    """The entry as it was written: with references to secrets, never their values."""
    settings: str
    """The settings that it serves, absolute."""
    undo: Mapping[str, Any]
    """JSON data that removes the entry without a trace."""
    when: str
    """The time in ISO 8601."""

    @property
    def replaced(self) -> Mapping[str, Any] | None:
        """What restores the entry that this one replaced; None if it replaced none."""
        replaced = self.undo.get("replaced")
        return replaced if isinstance(replaced, Mapping) else None

    @property
    def made_folders(self) -> Sequence[str]:
        """The folders that were made for the file."""
        folders = self.undo.get("folders")
        return [folder for folder in folders if isinstance(folder, str)] if isinstance(folders, list) else []

    @property
    def edit_undo(self) -> Undo | None:
        """The undo of the edit; None if the record has none."""
        undo = self.undo.get("edit")
        return undo if isinstance(undo, Mapping) else None


class InstallationJournal:
    """The records in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def backup_folder(self) -> Path:
        """The folder for backups that must not be beside their file: that of a project belongs to its repository."""
        return self._folder / "backups"

    def store_record(self, record: InstallationRecord) -> None:
        """Write the record; it replaces one of the same entry. Raises ConfigError if it cannot be written."""
        path = self._get_path(_get_key(record))
        try:
            text = json.dumps({"version": _VERSION, **asdict(record)}, indent=2, sort_keys=True)
            replace_file(path, f"{text}\n".encode(), sync=True)
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror or error}", path=str(path)) from None
        except (TypeError, ValueError, RecursionError):
            raise ConfigError("the record is not JSON data", path=str(path)) from None

    def find_record(
        self, client: str, scope: str, path: str | Path, within: Sequence[str], name: str
    ) -> InstallationRecord | None:
        """Return the record of an entry; None if there is no readable one."""
        key = [client, scope, str(path), *within, name]
        found = _read_record(self._get_path(key))
        return found if found is not None and _get_key(found) == key else None

    def remove_record(self, record: InstallationRecord) -> None:
        """Remove the record of this entry, if it exists. Raises ConfigError if it cannot be removed."""
        path = self._get_path(_get_key(record))
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot be removed: {error.strerror or error}", path=str(path)) from None

    def list_records(self) -> Sequence[InstallationRecord]:
        """List the records that can be read, by client, file and name."""
        return sorted(filter(None, map(_read_record, self._iter_files())), key=_get_key)

    def _get_path(self, key: Sequence[str]) -> Path:
        return self._folder / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"

    def _iter_files(self) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            yield from sorted(path for path in self._folder.iterdir() if path.suffix == ".json")


def open_journal() -> InstallationJournal:
    """Open the journal of this user."""
    from platformdirs import user_state_path

    return InstallationJournal(user_state_path("mcp-bridge", appauthor=False))


def keep_replaced_record(undo: Mapping[str, Any], replaced: InstallationRecord) -> Mapping[str, Any]:
    """Add the record of the entry that was replaced to the undo of the one that replaces it."""
    inner = dict(replaced.undo)
    depth, at = 1, inner
    while isinstance(below := at.get("replaced"), dict) and isinstance(record := below.get("record"), dict):
        depth, at = depth + 1, record.get("undo", {})
    if depth >= _MAX_REPLACED:
        inner.pop("replaced", None)
    kept = {**asdict(replaced), "undo": inner}
    return {**undo, "replaced": {**undo["replaced"], "record": kept}}


def get_replaced_record(record: InstallationRecord) -> InstallationRecord | None:
    """Return the record of the entry that this one replaced, if it was a bridge that had been installed."""
    return _parse_record(record.replaced.get("record")) if record.replaced is not None else None


def iter_inheriting_records(journal: InstallationJournal, leaving: InstallationRecord) -> Iterator[InstallationRecord]:
    """Pass on what a removed entry would have undone: the changed records of the other entries in its file.

    A container, or the file itself, may have been made for the first of several entries; the last one removes it.
    """
    for record in journal.list_records():
        if record.path != leaving.path or record == leaving:
            continue
        undo: dict[str, Any] = dict(record.undo)
        if leaving.undo.get("made") is True:
            undo |= {"made": True, "folders": leaving.undo.get("folders", [])}
        mine, theirs = record.edit_undo, leaving.edit_undo
        if mine is not None and theirs is not None:
            undo["edit"] = merge_undo(mine, record.within, theirs, leaving.within)
        if undo != record.undo:
            yield replace(record, undo=undo)


def merge_undo(mine: Undo, within: Sequence[str], theirs: Undo, their_within: Sequence[str]) -> Undo:
    """Merge a removed entry's undo of the containers that both are in into the undo of an entry that remains."""
    found, they_found = len(within) - _count_created(mine), len(their_within) - _count_created(theirs)
    if not 0 <= they_found <= found or list(within[:found]) != list(their_within[:found]):
        return mine  # the leaving entry made nothing that this one was added to
    given = {key: theirs[key] for key in _CONTAINER_KEYS if key in theirs}
    if found == they_found:
        return {**given, **mine}
    others = {key: value for key, value in mine.items() if key not in _CONTAINER_KEYS}
    return {**others, **given, "created": len(within) - they_found}


def _count_created(undo: Undo) -> int:
    created = undo.get("created")
    return created if isinstance(created, int) else 0


def _get_key(record: InstallationRecord) -> list[str]:
    return [record.client, record.scope, record.path, *record.within, record.name]


def _read_record(path: Path) -> InstallationRecord | None:
    """Read the record in a file; None if it is not a record or cannot be read."""
    try:
        data = json.loads(path.read_bytes()) if path.is_file() and path.stat().st_size <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    return _parse_record(data) if isinstance(data, dict) and data.get("version") == _VERSION else None


def _parse_record(data: Any) -> InstallationRecord | None:
    if not isinstance(data, Mapping):
        return None
    kinds: Mapping[str, Any] = {"within": (list, tuple), "value": dict, "undo": dict}
    names = [field.name for field in fields(InstallationRecord)]
    if not all(isinstance(data.get(name), kinds.get(name, str)) for name in names):
        return None
    if not all(isinstance(key, str) for key in data["within"]):
        return None
    return InstallationRecord(**{name: data[name] for name in names} | {"within": tuple(data["within"])})
