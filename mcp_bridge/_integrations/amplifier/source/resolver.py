"""Finds the modules of a plan by their `source`: a path, an installed package, or a locked git repository."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge._integrations.amplifier.module_sources import FileSource, GitSource, PackageSource
from mcp_bridge._integrations.amplifier.source.checkouts import Checkouts, hash_files, remove_compiled
from mcp_bridge._integrations.amplifier.source.git import GitAddress, is_git_source, parse_address, redact_userinfo
from mcp_bridge._integrations.amplifier.source.lock_file import LockFile
from mcp_bridge._settings.documents.value_text import describe_value


class Resolver:
    """The `ModuleSourceResolver` of a source.

    A module's source is a path, `file://PATH`, `package:NAME`, `git+URL@REF`, or an object with `resolve`. A repository
    must match a pattern of `git`, and `mcp-bridge module lock` must have fetched it: the resolver fetches nothing. It
    verifies each checkout once.

    Args:
        directory: Relative paths start here, and the lock file is here.
        git: The patterns of allowed repositories.
        modules: The folder of the checkouts; None for the default.
        file: The settings file, for the command in errors.
    """

    def __init__(
        self, directory: Path, *, git: Sequence[str] = (), modules: Path | None = None, file: str = ""
    ) -> None:
        self._directory = directory
        self._git = tuple(git)
        self._modules = modules
        self._command = f"mcp-bridge module lock {shlex.quote(file) if file else 'FILE'}"
        self._hashes: dict[Path, str] = {}
        self._sources: dict[str, GitSource] = {}

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """Find a module. Raises ModuleNotFoundError if the plan names no source, or the source is not allowed."""
        hint = source_hint if source_hint is not None else profile_hint
        if hint is None:
            raise ModuleNotFoundError(f"the plan gives no source for '{module_id}'")
        if isinstance(hint, os.PathLike) or hasattr(hint, "resolve"):
            return hint
        if isinstance(hint, str):
            if is_git_source(hint):
                if hint not in self._sources:
                    self._sources[hint] = self._resolve_git(parse_address(hint))
                return self._sources[hint]
            if hint.startswith("package:"):
                return PackageSource(hint.removeprefix("package:"))
            if hint.startswith("file://"):
                return FileSource(hint)
            if "://" not in hint:
                return FileSource(self._directory / Path(hint).expanduser())
        forms = "a path, file://PATH, package:NAME, or git+https://HOST/PATH@REF"
        value = redact_userinfo(describe_value(hint))
        raise ModuleNotFoundError(f"the source of '{module_id}' is {value}. Write {forms}")

    def _resolve_git(self, address: GitAddress) -> GitSource:
        address.require_allowed(self._git)
        entry = LockFile.read(self._directory).modules.get(address.uri)
        if entry is None:
            raise ModuleNotFoundError(f"{address.uri} is not locked. Run: {self._command}")
        checkout = Checkouts(self._modules).locate(address, entry.commit)
        if not checkout.is_dir():
            raise ModuleNotFoundError(
                f"{address.uri} is locked, but commit {entry.commit[:12]} is not on this machine. Run: {self._command}"
            )
        self._check_files(checkout, entry.hash, address)
        return GitSource(address.uri, checkout / address.subdirectory)

    def _check_files(self, checkout: Path, locked_hash: str, address: GitAddress) -> None:
        """Raise ModuleLoadError if the files differ from the locked ones."""
        if checkout not in self._hashes:
            try:
                remove_compiled(checkout)
                self._hashes[checkout] = hash_files(checkout)
            except OSError as error:
                raise ModuleLoadError(f"{address.uri}: {checkout} cannot be checked: {error}") from error
        if self._hashes[checkout] != locked_hash:
            # The user may lock again while the bridge runs, so check again next time.
            del self._hashes[checkout]
            raise ModuleLoadError(
                f"{address.uri}: the files in {checkout} have changed since they were locked, and are not run. "
                f"To fetch them again, run: {self._command}"
            )
