"""What is installed to have this release of the bridge: from an index, from a wheel, or as it is installed here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mcp_bridge._version import DISTRIBUTION, __version__
from mcp_bridge.contracts.errors import ConfigError

OLDEST_PYTHON = "3.11"
LARGEST_WHEEL = 50 * 1024 * 1024
"""Bytes. That of this project has less than one megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel of this distribution, to be put where there is no index that has it."""

    name: str
    version: str
    content: bytes

    @property
    def digest(self) -> str:
        """Its SHA-256, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def called(extras: Iterable[str] = ()) -> str:
    """The distribution with its extras: `mcp-tool-bridge[utcp]`."""
    names = ",".join(sorted(extras))
    return f"{DISTRIBUTION}[{names}]" if names else DISTRIBUTION


def requirement(extras: Iterable[str] = (), version: str = __version__) -> str:
    """`mcp-tool-bridge>=X,<Y`: this release and those that keep its promises."""
    major, minor = (int(part) for part in version.split(".")[:2])
    below = f"0.{minor + 1}" if major == 0 else str(major + 1)
    return f"{called(extras)}>={version},<{below}"


def read_wheel(path: Path) -> Wheel:
    """The wheel at a path. Raises ConfigError for a file that is no wheel of this distribution."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    hint = f"Build one: pip wheel --no-deps FOLDER, with the folder of {DISTRIBUTION}'s sources"
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
        content = path.read_bytes() if path.stat().st_size <= LARGEST_WHEEL else b""
    except InvalidWheelFilename:
        raise ConfigError("not the name of a wheel", path=str(path), where="--wheel", hint=hint) from None
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot be read: {told}", path=str(path), where="--wheel", hint=hint) from None
    if name != DISTRIBUTION:
        problem = f"a wheel of '{name}', not of '{DISTRIBUTION}'"
        raise ConfigError(problem, path=str(path), where="--wheel", hint=hint)
    if not content.startswith(b"PK"):
        raise ConfigError("no wheel, though it is called one", path=str(path), where="--wheel", hint=hint)
    return Wheel(name=path.name, version=str(version), content=content)


def origin() -> str | None:
    """What pip was given when it installed the bridge that runs here, where that was no name: a path, or a git address.

    None where it came from an index, was never installed, or is no longer where it was.
    """
    try:
        written = _installed().read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    found = json.loads(written) if written else {}
    address = urlsplit(found.get("url", ""))
    if "vcs_info" in found:
        vcs = found["vcs_info"]
        return f"{DISTRIBUTION} @ {vcs['vcs']}+{found['url']}@{vcs['commit_id']}"
    path = Path(unquote(address.path))
    return str(path) if address.scheme == "file" and path.exists() else None


def _installed() -> Distribution:
    return distribution(DISTRIBUTION)
