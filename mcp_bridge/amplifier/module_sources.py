"""Where modules are: a path, an installed package, a git repository that has been fetched (Module Source Protocol)."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.request import url2pathname

from mcp_bridge.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge.amplifier.interfaces import ModuleSource, ModuleSourceResolver

__all__ = [
    "FileSource",
    "GitSource",
    "ModuleLoadError",
    "ModuleNotFoundError",
    "ModuleSource",
    "ModuleSourceResolver",
    "PackageSource",
]

GROUP = "amplifier.modules"
"""The group of entry points that modules are in."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A module in a folder, or in one file, of this machine; a path or a `file://` address."""

    path: str | Path

    def resolve(self) -> Path:
        """The path, made absolute. Raises ModuleNotFoundError where nothing is there."""
        text = str(self.path)
        if text.startswith("file://"):
            text = url2pathname(text.removeprefix("file://"))
        found = Path(text).expanduser().resolve()
        if not found.exists():
            raise ModuleNotFoundError(f"{text}: no such file or folder. Check the source of the module")
        return found


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A module in an installed package, by its importable name or that of its distribution."""

    package: str

    def resolve(self) -> Path:
        """The package's folder, or its file. Raises ModuleNotFoundError where it is not installed."""
        spec = _spec(self.package.replace("-", "_")) or _spec(self._declared())
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(
                f"the package '{self.package}' is not installed. Install it where the bridge runs"
            )
        origin = Path(spec.origin)
        return origin.parent if origin.name == "__init__.py" else origin

    def _declared(self) -> str:
        """What its distribution calls the module."""
        try:
            found = distribution(self.package).entry_points.select(group=GROUP)
        except (PackageNotFoundError, ValueError):
            return ""
        return next((entry.module for entry in found), "")


@dataclass(frozen=True, slots=True)
class GitSource:
    """A module in a git repository that has been fetched into `folder`; fetching it is no business of a start.

    `uri` is `git+https://HOST/PATH@REF` or `git+file://PATH@REF`, with `#subdirectory=FOLDER` where it is not at the
    top.
    """

    uri: str
    folder: Path | None = None

    def resolve(self) -> Path:
        """The folder that has it. Raises ModuleNotFoundError where it has not been fetched."""
        if self.folder is None or not self.folder.exists():
            raise ModuleNotFoundError(f"{self.uri} is not here yet. Run: mcp-bridge module lock")
        return self.folder


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name) if name else None
    except (ImportError, ValueError, AttributeError):
        return None
