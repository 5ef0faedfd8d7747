"""The journal of installations, for `uninstall`.

Each entry has its own file. So concurrent programs do not overwrite each other's records.
"""

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
from mcp_bridge._runtime.user_folders import get_state_folder
from mcp_bridge._settings.documents.editor import Change

MAX_BYTES = 1 << 20
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationRecord:
    """An installed entry."""

    client: str
    scope: str
    path: str
    """The client's file, absolute."""
    within: Sequence[str]
    """The keys that lead to the servers in the file, which may have the servers of several projects."""
    name: str
    value: Mapping[str, Any]
    """The entry as it was written: with references to secrets, never their values."""
    settings: str
    """The settings that it serves, absolute."""
    change: Change
    """The change of the file, which can be reverted."""
    made_file: bool
    """Whether the file was created for the entry."""
    made_folders: Sequence[str]
    """The folders that were created for the file."""
    when: str
    """The time in ISO 8601."""


class InstallationJournal:
    """The records in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def backup_folder(self) -> Path:
        """The folder for backups of the files of all clients."""
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
        """Return the record of an entry; None if there is none, or it cannot be read."""
        key = [client, scope, str(path), *within, name]
        record = _read_record(self._get_path(key))
        if record is None or _get_key(record) != key:
            return None
        return record

    def remove_record(self, record: InstallationRecord) -> None:
        """Remove the record of this entry, if it exists. Raises ConfigError if it cannot be removed."""
        path = self._get_path(_get_key(record))
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot be removed: {error.strerror or error}", path=str(path)) from None

    def list_records(self) -> Sequence[InstallationRecord]:
        """List the readable records, by client, file and name."""
        paths: list[Path] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            paths = [path for path in self._folder.iterdir() if path.suffix == ".json"]
        return sorted(filter(None, map(_read_record, paths)), key=_get_key)

    def _get_path(self, key: Sequence[str]) -> Path:
        return self._folder / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"


def open_journal() -> InstallationJournal:
    """Open the journal of this user."""
    return InstallationJournal(get_state_folder())


def iter_inheriting_records(journal: InstallationJournal, leaving: InstallationRecord) -> Iterator[InstallationRecord]:
    """Yield new records for the other entries of a file, if the file was created for the leaving entry.

    With them, the removal of the last entry removes the file and its folders.
    """
    for record in journal.list_records():
        if leaving.made_file and record.path == leaving.path and record != leaving:
            yield replace(record, made_file=True, made_folders=leaving.made_folders)


def _get_key(record: InstallationRecord) -> list[str]:
    return [record.client, record.scope, record.path, *record.within, record.name]


def _read_record(path: Path) -> InstallationRecord | None:
    """Read the record in a file, or return None if it is not a record or cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("version") != _VERSION:
        return None
    types: Mapping[str, type] = {"value": dict, "change": dict, "made_file": bool, "within": list, "made_folders": list}
    values: dict[str, Any] = {field.name: data.get(field.name) for field in fields(InstallationRecord)}
    if not all(isinstance(value, types.get(name, str)) for name, value in values.items()):
        return None
    for name in ("within", "made_folders"):
        if not all(isinstance(text, str) for text in values[name]):
            return None
        values[name] = tuple(values[name])
    return InstallationRecord(**values)
