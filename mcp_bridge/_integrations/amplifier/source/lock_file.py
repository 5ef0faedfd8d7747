"""The lock file: the commits of the modules from git and the hashes of their files, and how they are locked."""

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
    Checkout,
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
    """One module: its commit, and the hash of its files."""

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
    """The lock file of a folder. `modules` are its entries by the addresses in plans."""

    path: Path
    modules: Mapping[str, LockEntry] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> LockFile:
        """Read the lock file of a folder; without a file, it has no entries. Raises ModuleLoadError."""
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
        """Replace the entries on the disk, all or none. Raises ModuleLoadError."""
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
    """A module of a plan, and the folder of its checkout."""

    address: GitAddress
    checkouts_folder: Path | None = None


class ModuleLocker:
    """Locks modules. `report` receives a line before each slow step.

    With `update`, locked modules move to the newest commit, too. Entries of other settings files stay.
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
        commit = before.commit if before is not None and not self._update else self._find_commit(address)
        checkout = checkouts.locate(address, commit)
        expected = before.hash if before is not None and before.commit == commit else ""
        content = self._ensure_files(address, commit, checkouts, checkout, expected)
        folder = checkout.get_module_folder(address.subdirectory)
        if not folder.is_dir():
            raise ModuleLoadError(f"{address.uri}: commit {commit[:12]} has no folder '{address.subdirectory}'")
        entry = LockEntry(commit=commit, hash=content)
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
        return Git()

    def _ensure_files(
        self, address: GitAddress, commit: str, checkouts: Checkouts, checkout: Checkout, expected: str
    ) -> str:
        """Fetch a commit if needed, and return the hash of its files.

        Files on the disk are used only if a lock entry has their hash. Raises ModuleLoadError if the files differ from
        the locked ones.
        """
        if checkout.files in self._hashes:
            content = self._hashes[checkout.files]
        elif expected and _has_content(checkout, expected):
            content = expected
        else:
            self._report(f"fetching {address.url} {commit[:12]}")
            content = self._fetch(address, commit, checkouts, checkout, expected)
        if expected and content != expected:
            raise _build_hash_error(address, commit)
        self._hashes[checkout.files] = content
        return content

    def _fetch(self, address: GitAddress, commit: str, checkouts: Checkouts, checkout: Checkout, expected: str) -> str:
        with checkouts.create_temporary_folder() as room:
            files = room / "files"
            self._git.fetch(address, commit, files)
            remove_compiled(files)
            check_links(files, address.uri)
            content = hash_files(files)
            # Never store files that differ from the locked ones.
            if expected and content != expected:
                raise _build_hash_error(address, commit)
            if not _has_content(checkout, content):
                try:
                    move_into_place(files, checkout.files, room)
                except OSError:
                    # Another bridge may have fetched the same commit.
                    if not _has_content(checkout, content):
                        raise
        return content


def _has_content(checkout: Checkout, content: str) -> bool:
    return checkout.is_fetched and hash_files(checkout.files) == content


def _build_hash_error(address: GitAddress, commit: str) -> ModuleLoadError:
    return ModuleLoadError(
        f"{address.uri}: the files of commit {commit[:12]} differ from those that were locked. Find out why; if the "
        "lock file is wrong, remove its entry and lock again"
    )
