"""DefinitionLock: the lock file next to a settings file, with the accepted definitions of upstreams.

Users keep it in version control, so its text is stable: indented JSON with sorted keys. For each server, it has the
definition and the fingerprint of each entry, by kind and name:

    {"version": 1, "servers": {"mail": {"tools": {"send": {"fingerprint": "sha256:...", "definition": {...}}}}}}
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._runtime.file_replacement import replace_file
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.user_folders import get_state_folder, hash_path
from mcp_bridge._upstream.trust.fingerprints import KINDS, DefinitionKey, compute_fingerprint

VERSION = 1
MAX_FILE = 64 * 1024 * 1024
"""The maximum number of bytes of a lock file that are read."""
_SUFFIX = ".lock.json"
_PROGRAM_FOLDERS = frozenset({"Application Support", "AppData"})
"""The folders of programs on macOS and Windows. Elsewhere, programs have hidden folders."""

Definition = Mapping[str, Any]


class DefinitionLockError(BridgeError):
    """The lock file cannot be read or written."""


class DefinitionLock:
    """The lock file of a settings file. Several processes can share it.

    Attributes:
        path: The path of the file: next to the settings, or in the state folder if it cannot be there.
        command: The command line with which users accept definitions.
    """

    def __init__(self, settings_file: Path) -> None:
        self.path = _locate(settings_file)
        self.command = f"mcp-bridge trust {shlex.quote(settings_file.name)}"
        # The stamp and the content of the file when it was last read.
        self._parsed: tuple[tuple[int, ...], dict[str, dict[str, Any]]] | None = None

    @property
    def modified(self) -> int:
        """The time of the last change of the file in nanoseconds, or 0 if there is no file."""
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0

    def read_server(self, server: str) -> dict[DefinitionKey, Definition] | None:
        """Return the definitions of a server, or None if the server is not known. Raises DefinitionLockError."""
        kinds = self._read_all().get(server)
        if kinds is None:
            return None
        definitions = {}
        for kind, entries in kinds.items():
            for name, entry in entries.items():
                key = DefinitionKey(kind, name)
                definitions[key] = self._check_entry(server, key, entry)
        return definitions

    def accept_definitions(self, server: str, definitions: Mapping[DefinitionKey, Definition]) -> None:
        """Add definitions of a server, or replace them. Raises DefinitionLockError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = self.path.parent
            # No other bridge writes the file at the same time.
            with system.lock_folder(folder, get_state_folder() / "locks" / hash_path(folder)):
                servers = self._read_all()
                # The content is shared with `_parsed`, so it is copied before the change.
                kinds = {kind: dict(entries) for kind, entries in servers.get(server, {"tools": {}}).items()}
                for (kind, name), definition in definitions.items():
                    entry = {"fingerprint": compute_fingerprint(definition), "definition": definition}
                    kinds.setdefault(kind, {})[name] = entry
                self._replace_file({**servers, server: kinds})
        except OSError as error:
            raise DefinitionLockError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _read_all(self) -> dict[str, dict[str, dict[str, Any]]]:
        try:
            with self.path.open("rb") as file:
                # All servers of the settings read the file. A replacement has another inode, so it is not missed.
                status = os.fstat(file.fileno())
                stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                if self._parsed is not None and self._parsed[0] == stamp:
                    return self._parsed[1]
                data = json.loads(file.read(MAX_FILE))
            if data["version"] != VERSION:
                raise DefinitionLockError(f"{self.path} has version {data['version']}, but only {VERSION} is supported")
            servers = {}
            for name, server in data["servers"].items():
                kinds = {kind: dict(server.get(kind, {})) for kind in KINDS}
                servers[str(name)] = {**kinds, "tools": dict(server["tools"])}
            self._parsed = (stamp, servers)
            return servers
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise DefinitionLockError(f"{self.path} cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DefinitionLockError(
                f"{self.path} is not a lock file ({error}). Restore a good version of it, or delete it to trust the "
                "servers as they are now"
            ) from error

    def _check_entry(self, server: str, key: DefinitionKey, entry: Any) -> Definition:
        try:
            definition: Definition = entry["definition"]
            if compute_fingerprint(definition) == entry["fingerprint"]:
                return definition
            problem = "the fingerprint does not match the definition"
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            problem = str(error)
        raise DefinitionLockError(
            f"{self.path}: the entry of '{key}' of '{server}' is invalid: {problem}. Restore a good version of it"
        )

    def _replace_file(self, servers: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        # Empty kinds are left out, except for `tools`, which a reader requires.
        used_kinds = {}
        for name, kinds in servers.items():
            used_kinds[name] = {kind: entries for kind, entries in kinds.items() if entries or kind == "tools"}
        data = {"version": VERSION, "servers": used_kinds}
        text = json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        replace_file(self.path, text.encode())


def _locate(settings: Path) -> Path:
    """Return the lock file of a settings file."""
    path = settings.with_name(settings.name + _SUFFIX)
    is_writable = not _belongs_to_program(settings) and os.access(settings.parent, os.W_OK)
    if is_writable or path.exists():
        return path
    return get_state_folder() / (hash_path(settings) + _SUFFIX)


def _belongs_to_program(settings: Path) -> bool:
    """Return whether a file is in a folder of another program, such as a client, where no file should be added."""
    for name in settings.parent.parts:
        if name in _PROGRAM_FOLDERS or (name.startswith(".") and name != ".."):
            return True
    return settings.name.startswith(".") and str(settings.parent) == os.path.realpath(os.path.expanduser("~"))
