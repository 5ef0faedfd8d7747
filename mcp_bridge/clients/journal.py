"""What was installed where, kept so that it can be taken out again: a file for each entry, so that none gets lost."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mcp_bridge.contracts.errors import ConfigError

MAX_BYTES = 1 << 20
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An entry that was installed."""

    client: str
    scope: str
    path: str
    """The client's file, absolute."""
    within: Sequence[str]
    """The keys that lead to its servers there: the servers of all projects may be in one file."""
    name: str
    value: Mapping[str, Any]
    """The entry as it was written: references to secrets, never their values."""
    settings: str
    """The settings that it serves, absolute."""
    undo: Mapping[str, Any]
    """JSON data that takes the entry out without a trace."""
    when: str
    """The time, in the form of ISO 8601."""


class Journal:
    """The records below a folder. Each is a file of its own: two programs at once overwrite nothing of each other's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def remember(self, record: Record) -> None:
        """Keep the record, in the place of one about the same entry. Raises ConfigError where it cannot be written."""
        path = self._path(_key(record))
        try:
            text = json.dumps({"version": _VERSION, **asdict(record)}, indent=2, sort_keys=True)
            self._write(path, f"{text}\n".encode())
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror or error}", path=str(path)) from None
        except (TypeError, ValueError, RecursionError):
            raise ConfigError("what is to be noted is not JSON data", path=str(path)) from None

    def find(self, client: str, scope: str, path: str | Path, within: Sequence[str], name: str) -> Record | None:
        """The record about an entry, None where there is none that can be read."""
        key = [client, scope, str(path), *within, name]
        found = _read(self._path(key))
        return found if isinstance(found, Record) and _key(found) == key else None

    def forget(self, record: Record) -> None:
        """Remove the record about this entry, if there is one. Raises ConfigError where it cannot be removed."""
        path = self._path(_key(record))
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot be removed: {error.strerror or error}", path=str(path)) from None

    def all(self) -> Sequence[Record]:
        """The records that can be read, by client, file and name."""
        found = [record for record in map(_read, self._files()) if isinstance(record, Record)]
        return sorted(found, key=_key)

    def problems(self) -> Sequence[str]:
        """A line for each file among the records that is none."""
        return [found for found in map(_read, self._files()) if isinstance(found, str)]

    def _path(self, key: Sequence[str]) -> Path:
        return self._folder / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"

    def _files(self) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            yield from sorted(path for path in self._folder.iterdir() if path.suffix == ".json")

    def _write(self, path: Path, data: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self._folder)
        try:
            with open(file, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(file)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _key(record: Record) -> list[str]:
    """What tells records apart."""
    return [record.client, record.scope, record.path, *record.within, record.name]


def _read(path: Path) -> Record | str | None:
    """The record in a file; what is wrong with it; None where there is no file."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return f"{path}: not a record" if path.exists() else None
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror or error}"
    except (ValueError, RecursionError):
        return f"{path}: not JSON"
    return _record(data) or f"{path}: not a record"


def _record(data: Any) -> Record | None:
    if not isinstance(data, dict) or data.get("version") != _VERSION:
        return None
    kinds = {"within": list, "value": dict, "undo": dict}
    names = [field.name for field in fields(Record)]
    if not all(isinstance(data.get(name), kinds.get(name, str)) for name in names):
        return None
    if not all(isinstance(key, str) for key in data["within"]):
        return None
    return Record(**{name: data[name] for name in names} | {"within": tuple(data["within"])})
