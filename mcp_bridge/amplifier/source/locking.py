"""Locking: modules from git are fetched, and it is written down which commits these are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_bridge.amplifier.errors import ModuleLoadError
from mcp_bridge.amplifier.source.addresses import Address
from mcp_bridge.amplifier.source.checkouts import Checkout, Checkouts, check_links, digest, put, without_compiled
from mcp_bridge.amplifier.source.dependencies import (
    agree,
    check_python,
    clashing,
    install,
    missing,
    needed,
    present,
    site_of,
)
from mcp_bridge.amplifier.source.fetching import Git
from mcp_bridge.amplifier.source.lock_file import Entry, LockFile
from mcp_bridge.contracts.errors import BridgeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """What was done about one module; `was` is the commit that was locked before, if any."""

    uri: str
    entry: Entry
    was: str = ""
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was locked, which addresses are no more in the lock file, and what failed; then nothing was written."""

    locked: Sequence[Locked] = ()
    removed: Sequence[str] = ()
    failed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A module that a plan names, and the folder that it is to be in."""

    address: Address
    modules: Path | None = None


class Locking:
    """One run over a lock file: `file` names the settings, in the folder of that, `said` hears what takes time.

    With `update` it looks for new commits also where one is locked.
    """

    def __init__(self, lock: LockFile, file: str, *, update: bool = False, said: Callable[[str], None]) -> None:
        self._lock = lock
        self._file = file
        self._update = update
        self._said = said
        self._meant: dict[tuple[str, str], str] = {}
        self._fresh: dict[Path, str] = {}
        self._git: Git | None = None

    def run(self, wanted: Sequence[Wanted]) -> Outcome:
        """Lock these modules, and write the lock file unless one of them fails."""
        made: dict[str, Locked] = {}
        failed: list[str] = []
        for one in dict.fromkeys(wanted):
            try:
                made[one.address.uri] = self._locked(one)
            except (BridgeError, OSError) as error:
                failed.append(str(error))
        if failed:
            return Outcome(failed=list(dict.fromkeys(failed)))
        entries = {uri: entry for uri, entry in self._others() if uri not in made}
        entries |= {uri: one.entry for uri, one in made.items()}
        removed = sorted(set(self._lock.modules) - set(entries))
        self._lock.write(entries)
        return Outcome(locked=list(made.values()), removed=removed)

    def _others(self) -> Iterator[tuple[str, Entry]]:
        """What other settings in this folder use."""
        for uri, entry in self._lock.modules.items():
            users = tuple(name for name in self._users(entry) if name != self._file)
            if users:
                yield uri, replace(entry, used_by=users)

    def _users(self, entry: Entry) -> list[str]:
        return [name for name in entry.used_by if (self._lock.path.parent / name).is_file()]

    def _locked(self, one: Wanted) -> Locked:
        address, checkouts = one.address, Checkouts(one.modules)
        before = self._lock.modules.get(address.uri)
        kept = before if before is not None and not self._update else None
        commit = kept.commit if kept is not None else self._commit(address)
        checkout = checkouts.of(address, commit)
        expected = before.hash if before is not None and before.commit == commit else ""
        content = self._fetched(address, commit, checkouts, checkout, expected)
        if not checkout.below(address.subdirectory).is_dir():
            raise ModuleLoadError(f"{address.uri}: commit {commit[:12]} has no folder '{address.subdirectory}'")
        versions = before.installed if before is not None and not self._update else ()
        entry = Entry(
            commit=commit,
            hash=content,
            used_by=tuple(sorted({*(self._users(before) if before is not None else ()), self._file})),
            installed=self._supplied(address, checkouts, checkout, versions),
        )
        was = before.commit if before is not None else ""
        return Locked(uri=address.uri, entry=entry, was=was, folder=checkout.below(address.subdirectory))

    def _commit(self, address: Address) -> str:
        known = (address.url, address.ref)
        if known not in self._meant:
            self._said(f"looking at {address.url}")
            self._meant[known] = self._program().commit_of(address)
        return self._meant[known]

    def _program(self) -> Git:
        if self._git is None:
            self._git = Git()
        return self._git

    def _fetched(self, address: Address, commit: str, checkouts: Checkouts, checkout: Checkout, expected: str) -> str:
        """Have a commit on the disk: its hash. What is there already will do only where a lock says what it has to be.

        Raises ModuleLoadError where the repository gives something else than was locked.
        """
        if checkout.files in self._fresh:
            content = self._fresh[checkout.files]
        elif expected and _has(checkout, expected):
            content = expected
        else:
            self._said(f"fetching {address.url} {commit[:12]}")
            content = self._fetch(address, commit, checkouts, checkout, expected)
        if expected and content != expected:
            raise _other(address, commit)
        self._fresh[checkout.files] = content
        return content

    def _fetch(self, address: Address, commit: str, checkouts: Checkouts, checkout: Checkout, expected: str) -> str:
        with checkouts.room() as room:
            files = room / "files"
            self._program().fetch(address, commit, files)
            without_compiled(files)
            check_links(files, address.uri)
            content = digest(files)
            if expected and content != expected:
                raise _other(address, commit)
            if not _has(checkout, content):
                try:
                    put(files, checkout.files, room)
                except OSError:  # another bridge may have been quicker
                    if not _has(checkout, content):
                        raise
        return content

    def _supplied(
        self, address: Address, checkouts: Checkouts, checkout: Checkout, versions: Sequence[str]
    ) -> tuple[str, ...]:
        """Have what the module needs where the bridge runs, or installed beside it: what that is, with its versions."""
        folder = checkout.below(address.subdirectory)
        check_python(folder, address.uri)
        requirements = needed(folder, address.uri)
        if not requirements:
            return ()
        clashes = clashing(requirements, sys.path)
        if clashes:
            raise ModuleLoadError(f"{address.uri} needs {', '.join(clashes)} with the bridge, and that is found first")
        lacking = missing(requirements, sys.path)
        site = site_of(checkout.sites, address.subdirectory)
        there = present(site)
        if not lacking:
            return tuple(versions)
        if not self._update and not missing(lacking, [str(site)]) and agree(there, versions):
            return tuple(versions or there)
        self._said(f"installing {', '.join(str(one) for one in lacking)}")
        with checkouts.room() as room:
            install(lacking, room / "site", address.uri, versions)
            put(room / "site", site, room)
        return tuple(versions or present(site))


def _has(checkout: Checkout, content: str) -> bool:
    return checkout.is_there and digest(checkout.files) == content


def _other(address: Address, commit: str) -> ModuleLoadError:
    return ModuleLoadError(
        f"{address.uri}: the files of commit {commit[:12]} are others than were locked. Find out why; if the lock file "
        "is wrong, take its entry out and lock again"
    )
