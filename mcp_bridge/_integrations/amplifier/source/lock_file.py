"""Reads and writes the lock file, with the commits of modules from git and the hashes of their files.

`ModuleLocker` fetches and locks modules for the command `mcp-bridge module lock`. At a start, `Resolver` only reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._integrations.amplifier.errors import ModuleLoadError
from mcp_bridge._integrations.amplifier.source.checkouts import (
    Checkouts,
    check_links,
    hash_files,
    move_into_place,
    remove_compiled,
)
from mcp_bridge._integrations.amplifier.source.git import COMMIT, Git, GitAddress
from mcp_bridge._runtime.file_replacement import replace_file

LOCK_FILE_NAME = "amplifier.lock.json"
VERSION = 1
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """The locked commit of a module, and the hash of the commit's files."""

    commit: str
    hash: str

    @classmethod
    def parse(cls, data: Any) -> LockEntry:
        """Parse an entry. Raises ValueError, KeyError or TypeError if it is invalid."""
        entry = cls(commit=data["commit"], hash=data["hash"])
        if not COMMIT.fullmatch(entry.commit) or not _HASH.fullmatch(entry.hash):
            raise ValueError("a commit has 40 digits, a hash 64")
        return entry


@dataclass(frozen=True, slots=True)
class LockFile:
    """The lock file of a folder. `modules` has its entries by the addresses of modules, as the plans write them."""

    path: Path
    modules: Mapping[str, LockEntry] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> LockFile:
        """Read the lock file of a folder. If there is none, the result has no entries. Raises ModuleLoadError."""
        path = directory / LOCK_FILE_NAME
        try:
            data = json.loads(path.read_bytes())
            if data["version"] != VERSION:
                raise ModuleLoadError(f"{path} has version {data['version']}, but only {VERSION} is supported")
            return cls(path, {uri: LockEntry.parse(entry) for uri, entry in data["modules"].items()})
        except FileNotFoundError:
            return cls(path)
        except OSError as error:
            raise ModuleLoadError(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModuleLoadError(
                f"{path} is not a lock file ({error}). Restore a good version of it, or delete it and lock again"
            ) from error

    def write(self, modules: Mapping[str, LockEntry]) -> None:
        """Replace the entries in the file. If that fails, the file is unchanged. Raises ModuleLoadError."""
        if modules == self.modules:
            return
        data = {"version": VERSION, "modules": {uri: asdict(modules[uri]) for uri in sorted(modules)}}
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        try:
            replace_file(self.path, text.encode(), mode=0o666)
        except OSError as error:
            raise ModuleLoadError(f"{self.path} cannot be written: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedModule:
    """A locked module; `previous_commit` is empty if it was not locked before."""

    uri: str
    entry: LockEntry
    previous_commit: str = ""
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOutcome:
    """The locked modules. If there are `errors`, nothing was written."""

    locked: Sequence[LockedModule] = ()
    errors: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RequestedModule:
    """A module of a plan, and its source's folder for checkouts; None for the default."""

    address: GitAddress
    checkouts_folder: Path | None = None


class ModuleLocker:
    """Locks modules: it finds their commits, fetches these and writes the hashes of their files to the lock file.

    Locked modules keep their commit, unless `update` is set. The entries of other modules stay, because several
    settings files can share a lock file. `report` receives a line before each slow step.
    """

    def __init__(self, lock: LockFile, *, update: bool = False, report: Callable[[str], None]) -> None:
        self._lock = lock
        self._update = update
        self._report = report
        self._commits: dict[tuple[str, str], str] = {}
        self._hashes: dict[Path, str] = {}

    def lock(self, requests: Sequence[RequestedModule]) -> LockOutcome:
        """Lock these modules, and write the lock file unless one of them fails."""
        modules: dict[str, LockedModule] = {}
        errors: list[str] = []
        for module in dict.fromkeys(requests):
            try:
                modules[module.address.uri] = self._lock_module(module)
            except (BridgeError, OSError) as error:
                errors.append(str(error))
        if errors:
            return LockOutcome(errors=list(dict.fromkeys(errors)))
        self._lock.write({**self._lock.modules, **{uri: module.entry for uri, module in modules.items()}})
        return LockOutcome(locked=list(modules.values()))

    def _lock_module(self, module: RequestedModule) -> LockedModule:
        address, checkouts = module.address, Checkouts(module.checkouts_folder)
        before = self._lock.modules.get(address.uri)
        if before is not None and not self._update:
            commit = before.commit
        else:
            commit = self._find_commit(address)
        checkout = checkouts.locate(address, commit)
        locked_hash = ""
        if before is not None and before.commit == commit:
            locked_hash = before.hash
        content_hash = self._ensure_files(address, commit, checkouts, checkout, locked_hash)
        folder = checkout / address.subdirectory
        if not folder.is_dir():
            raise ModuleLoadError(f"{address.uri}: commit {commit[:12]} has no folder '{address.subdirectory}'")
        entry = LockEntry(commit=commit, hash=content_hash)
        previous_commit = before.commit if before is not None else ""
        return LockedModule(uri=address.uri, entry=entry, previous_commit=previous_commit, folder=folder)

    def _find_commit(self, address: GitAddress) -> str:
        key = (address.url, address.ref)
        if key not in self._commits:
            self._report(f"looking at {address.url}")
            self._commits[key] = self._git.find_commit(address)
        return self._commits[key]

    @cached_property
    def _git(self) -> Git:
        # If all files are on the disk, git need not be installed.
        return Git()

    def _ensure_files(
        self, address: GitAddress, commit: str, checkouts: Checkouts, checkout: Path, locked_hash: str
    ) -> str:
        """Fetch a commit if needed, and return the hash of its files.

        Files on the disk are used only if they have the hash of the lock entry. Raises ModuleLoadError if the files
        differ from the locked ones.
        """
        if checkout in self._hashes:
            content_hash = self._hashes[checkout]
        elif locked_hash and _has_content(checkout, locked_hash):
            content_hash = locked_hash
        else:
            self._report(f"fetching {address.url} {commit[:12]}")
            content_hash = self._fetch(address, commit, checkouts, checkout, locked_hash)
        if locked_hash and content_hash != locked_hash:
            raise _build_hash_error(address, commit)
        self._hashes[checkout] = content_hash
        return content_hash

    def _fetch(self, address: GitAddress, commit: str, checkouts: Checkouts, checkout: Path, locked_hash: str) -> str:
        with checkouts.create_temporary_folder() as temporary:
            files = temporary / "files"
            self._git.fetch(address, commit, files)
            remove_compiled(files)
            check_links(files, address.uri)
            content_hash = hash_files(files)
            # Never store files that differ from the locked ones.
            if locked_hash and content_hash != locked_hash:
                raise _build_hash_error(address, commit)
            if not _has_content(checkout, content_hash):
                try:
                    move_into_place(files, checkout, temporary)
                except OSError:
                    # Another bridge may have fetched the same commit.
                    if not _has_content(checkout, content_hash):
                        raise
        return content_hash


def _has_content(checkout: Path, content_hash: str) -> bool:
    return checkout.is_dir() and hash_files(checkout) == content_hash


def _build_hash_error(address: GitAddress, commit: str) -> ModuleLoadError:
    return ModuleLoadError(
        f"{address.uri}: the files of commit {commit[:12]} differ from those that were locked. Find out why; if the "
        "lock file is wrong, remove its entry and lock again"
    )
