"""How to install this release: from a package index, from a wheel, or from where this installation came."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mcp_bridge._version import DISTRIBUTION, __version__
from mcp_bridge.contracts.errors import ConfigError

OLDEST_PYTHON = "3.11"
LARGEST_WHEEL = 50 * 1024 * 1024
"""Bytes. The wheel of this project has less than one megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel of this distribution, for use without a package index."""

    name: str
    version: str
    content: bytes


def format_distribution(extras: Iterable[str] = ()) -> str:
    """Format the distribution with its extras: `mcp-tool-bridge[utcp]`."""
    names = ",".join(sorted(extras))
    return f"{DISTRIBUTION}[{names}]" if names else DISTRIBUTION


def format_requirement(extras: Iterable[str] = (), version: str = __version__) -> str:
    """Format `mcp-tool-bridge>=X,<Y`: this release and those compatible with it."""
    major, minor = (int(part) for part in version.split(".")[:2])
    next_major = f"0.{minor + 1}" if major == 0 else str(major + 1)
    return f"{format_distribution(extras)}>={version},<{next_major}"


def read_wheel(path: Path) -> Wheel:
    """Read a wheel of this distribution. Raises ConfigError for any other file."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    hint = f"Build one with pip wheel --no-deps FOLDER, where FOLDER has the sources of {DISTRIBUTION}"
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
        content = path.read_bytes() if path.stat().st_size <= LARGEST_WHEEL else b""
    except InvalidWheelFilename:
        raise ConfigError("this is not the name of a wheel", path=str(path), where="--wheel", hint=hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read: {reason}", path=str(path), where="--wheel", hint=hint) from None
    if name != DISTRIBUTION:
        problem = f"this is a wheel of '{name}', not of '{DISTRIBUTION}'"
        raise ConfigError(problem, path=str(path), where="--wheel", hint=hint)
    if not content.startswith(b"PK"):
        raise ConfigError("the file is not a wheel, despite its name", path=str(path), where="--wheel", hint=hint)
    return Wheel(name=path.name, version=str(version), content=content)


def find_install_source() -> str | None:
    """Find the path or git URL that this installation was installed from.

    Returns None if it came from a package index, was never installed, or its path no longer exists.
    """
    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    source = json.loads(text) if text else {}
    url = urlsplit(source.get("url", ""))
    if "vcs_info" in source:
        vcs = source["vcs_info"]
        return f"{DISTRIBUTION} @ {vcs['vcs']}+{source['url']}@{vcs['commit_id']}"
    path = Path(unquote(url.path))
    return str(path) if url.scheme == "file" and path.exists() else None
