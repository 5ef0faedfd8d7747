"""Where the modules of a plan are: what their `source` says, as a path, a package, or a repository that was locked."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bridge.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge.amplifier.module_sources import FileSource, GitSource, PackageSource
from mcp_bridge.amplifier.source.addresses import Address, is_git, parsed
from mcp_bridge.amplifier.source.checkouts import Checkout, Checkouts, digest, without_compiled
from mcp_bridge.amplifier.source.dependencies import missing, needed, site_of
from mcp_bridge.amplifier.source.lock_file import LockFile


class Resolver:
    """A `ModuleSourceResolver`; relative paths start at `directory`, where the lock file is too.

    A source is a path, `file://PATH`, `package:NAME`, `git+URL@REF`, or an object that resolves itself. What is in git
    is allowed by the patterns `git`, was locked and fetched by `mcp-bridge module lock` of the settings `file`, and is
    in the folder `modules`: nothing is fetched here. It is looked at once, and stays as it is for this resolver's life.
    """

    def __init__(
        self, directory: Path, *, git: Sequence[str] = (), modules: Path | None = None, file: str = ""
    ) -> None:
        self._directory = directory
        self._git = tuple(git)
        self._modules = modules
        self._command = f"mcp-bridge module lock {shlex.quote(file) if file else 'FILE'}"
        self._checked: dict[Path, str] = {}
        self._known: dict[str, GitSource] = {}

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """Where the module is. Raises ModuleNotFoundError where no source says so, or where it is not allowed."""
        hint = source_hint if source_hint is not None else profile_hint
        if hint is None:
            raise ModuleNotFoundError(f"the plan gives no source for '{module_id}'")
        if isinstance(hint, os.PathLike) or hasattr(hint, "resolve"):
            return hint
        if not isinstance(hint, str):
            raise _unknown(module_id)
        if is_git(hint):
            if hint not in self._known:
                self._known[hint] = self._of_git(parsed(hint))
            return self._known[hint]
        if hint.startswith("package:"):
            return PackageSource(hint.removeprefix("package:"))
        if hint.startswith("file://"):
            return FileSource(hint)
        if "://" in hint:
            raise _unknown(module_id)
        return FileSource(self._directory / Path(hint).expanduser())

    def _of_git(self, address: Address) -> GitSource:
        address.check(self._git)
        entry = LockFile.of(self._directory).modules.get(address.uri)
        if entry is None:
            raise ModuleNotFoundError(f"{address.uri} is not locked. Run: {self._command}")
        checkout = Checkouts(self._modules).of(address, entry.commit)
        if not checkout.is_there:
            raise ModuleNotFoundError(
                f"{address.uri} is locked, but commit {entry.commit[:12]} is not on this machine. Run: {self._command}"
            )
        self._check(checkout, entry.hash, address)
        self._supply(checkout, address)
        return GitSource(address.uri, checkout.below(address.subdirectory))

    def _check(self, checkout: Checkout, expected: str, address: Address) -> None:
        """Raises ModuleLoadError where a file is another than when it was locked."""
        if checkout.files not in self._checked:
            try:
                without_compiled(checkout.files)
                self._checked[checkout.files] = digest(checkout.files)
            except OSError as error:
                raise ModuleLoadError(f"{address.uri}: {checkout.files} cannot be checked: {error}") from error
        if self._checked[checkout.files] != expected:
            del self._checked[checkout.files]
            raise ModuleLoadError(
                f"{address.uri}: the files in {checkout.files} have changed since they were locked, and are not run. "
                f"To fetch them again, run: {self._command}"
            )

    def _supply(self, checkout: Checkout, address: Address) -> None:
        """Have what the module needs searched, after all else. Raises ModuleNotFoundError where it is missing."""
        requirements = needed(checkout.below(address.subdirectory), address.uri)
        lacking = missing(requirements, sys.path) if requirements else []
        if not lacking:
            return
        site = str(site_of(checkout.sites, address.subdirectory))
        if missing(lacking, [site]):
            names = ", ".join(str(one) for one in lacking)
            raise ModuleNotFoundError(f"{address.uri} needs {names}, which is not here. Run: {self._command}")
        sys.path.append(site)


def _unknown(module_id: str) -> ModuleNotFoundError:
    kinds = "a path, file://PATH, package:NAME, or git+https://HOST/PATH@REF"
    return ModuleNotFoundError(f"the source of '{module_id}' is none that is known. Write {kinds}")
