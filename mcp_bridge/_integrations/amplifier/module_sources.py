"""The sources of modules: a path, an installed package, and a fetched git repository (Module Source Protocol 1.0.0)."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from mcp_bridge._integrations.amplifier.errors import ModuleNotFoundError
from mcp_bridge._runtime.platform import system

ENTRY_POINT_GROUP = "amplifier.modules"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A module in a local folder or file; `path` is a path or a `file://` address.

    >>> FileSource(".").resolve() == Path.cwd()
    True
    """

    path: str | Path

    def resolve(self) -> Path:
        """Return the absolute path. Raises ModuleNotFoundError if it does not exist."""
        text = str(self.path)
        if text.startswith("file://"):
            try:
                text = system.convert_uri_path(text.removeprefix("file://"))
            except ValueError as error:
                raise ModuleNotFoundError(f"{text}: {error}. Check the source of the module") from error
        path = Path(text).expanduser().resolve()
        if not path.exists():
            raise ModuleNotFoundError(f"{text}: no such file or folder. Check the source of the module")
        return path


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A module in an installed package, named by its import name or its distribution.

    >>> PackageSource("amplifier-module-none").resolve()
    Traceback (most recent call last):
    mcp_bridge._integrations.amplifier.errors.ModuleNotFoundError: the package 'amplifier-module-none' is not ...
    """

    package: str

    def resolve(self) -> Path:
        """Return the folder or file of the package. Raises ModuleNotFoundError if it is not installed."""
        spec = _find_spec(self.package.replace("-", "_"))
        if spec is None:
            # The import name of a distribution may differ from its own name.
            spec = _find_spec(self._find_entry_module())
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(
                f"the package '{self.package}' is not installed. Install it where the bridge runs"
            )
        origin = Path(spec.origin)
        return origin.parent if origin.name == "__init__.py" else origin

    def _find_entry_module(self) -> str:
        """Return the module of the distribution's first entry point, or an empty string."""
        try:
            points = distribution(self.package).entry_points.select(group=ENTRY_POINT_GROUP)
        except (PackageNotFoundError, ValueError):
            return ""
        return next((entry.module for entry in points), "")


@dataclass(frozen=True, slots=True)
class GitSource:
    """A module in a git repository that was fetched into `folder`.

    Only the command `mcp-bridge module lock` fetches repositories. The start of a server never does.

    `uri` is `git+https://HOST/PATH@REF` or `git+file://PATH@REF`, with `#subdirectory=FOLDER` for a module in a
    subfolder.

    >>> GitSource("git+https://example.com/modules@v1#subdirectory=forecast").resolve()
    Traceback (most recent call last):
    mcp_bridge._integrations.amplifier.errors.ModuleNotFoundError: git+https://... has not been fetched. Run: ...
    """

    uri: str
    folder: Path | None = None

    def resolve(self) -> Path:
        """Return the folder. Raises ModuleNotFoundError if the repository has not been fetched."""
        if self.folder is None or not self.folder.exists():
            raise ModuleNotFoundError(f"{self.uri} has not been fetched. Run: mcp-bridge module lock")
        return self.folder


def _find_spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name) if name else None
    except (ImportError, ValueError, AttributeError):
        return None
