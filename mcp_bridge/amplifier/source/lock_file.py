"""The lock file: which commits the modules from git are, and what their files have to be."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge.amplifier.errors import ModuleLoadError
from mcp_bridge.amplifier.source.addresses import COMMIT

NAME = "amplifier.lock.json"
VERSION = 1
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One module: its commit, the hash of what is in that (`hash`), who names it, and what was installed for it."""

    commit: str
    hash: str
    used_by: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()

    @classmethod
    def read(cls, given: Any) -> Entry:
        """An entry from its data. Raises ValueError, KeyError or TypeError for what can be none."""
        commit, content = given["commit"], given["hash"]
        if not COMMIT.fullmatch(commit) or not _HASH.fullmatch(content):
            raise ValueError("a commit has 40 digits, a hash 64")
        lists = [given.get(name, []) for name in ("used_by", "installed")]
        if not all(isinstance(one, list) and all(isinstance(part, str) for part in one) for one in lists):
            raise TypeError("used_by and installed are lists of text")
        return cls(commit=commit, hash=content, used_by=tuple(lists[0]), installed=tuple(lists[1]))

    def data(self) -> dict[str, Any]:
        """The entry as it is written."""
        made: dict[str, Any] = {"commit": self.commit, "hash": self.hash, "used_by": sorted(self.used_by)}
        return made | ({"installed": list(self.installed)} if self.installed else {})


@dataclass(frozen=True, slots=True)
class LockFile:
    """The lock file of a folder, as it was read. Its modules are known by their addresses, as plans have them."""

    path: Path
    modules: Mapping[str, Entry] = field(default_factory=dict)

    @classmethod
    def of(cls, directory: Path) -> LockFile:
        """That of a folder; one without entries where there is none. Raises ModuleLoadError for one that is broken."""
        path = directory / NAME
        try:
            given = json.loads(path.read_bytes())
            if given["version"] != VERSION:
                raise ModuleLoadError(f"{path} is of version {given['version']}, and only {VERSION} is known here")
            return cls(path, {uri: Entry.read(entry) for uri, entry in given["modules"].items()})
        except FileNotFoundError:
            return cls(path)
        except OSError as error:
            raise ModuleLoadError(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModuleLoadError(
                f"{path} is no lock file ({error}). Take it from where it was in order, or delete it and lock again"
            ) from error

    def write(self, modules: Mapping[str, Entry]) -> None:
        """Write these modules in place of those that were read, all or nothing. Raises ModuleLoadError."""
        if modules == self.modules:
            return
        data = {"version": VERSION, "modules": {uri: modules[uri].data() for uri in sorted(modules)}}
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")
            beside.replace(self.path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise ModuleLoadError(f"{self.path} cannot be written: {error.strerror or error}") from error
