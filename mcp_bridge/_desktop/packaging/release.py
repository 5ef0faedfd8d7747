"""Describes how other machines install this release: from a package index, a wheel, or the source of this installation.

A wheel of the running package can be built here, so that a bundle or an image needs no package index.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._version import DISTRIBUTION, __version__

OLDEST_PYTHON = "3.11"
LARGEST_WHEEL = 50 * 1024 * 1024
"""The maximum size of a wheel in bytes. That of this project has less than two megabytes."""
_WHEEL_FILE = "Wheel-Version: 1.0\nGenerator: mcp-bridge\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_INSTALLATION_METADATA = frozenset(
    {"RECORD", "WHEEL", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"}
)
"""Files of the metadata that describe an installation, and those that are written anew for each wheel."""
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive, so that the same content gives the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel of this distribution, for use without a package index."""

    name: str
    version: str
    content: bytes


def format_distribution(extras: Iterable[str] = ()) -> str:
    """Format the distribution with its extras: `mcp-tool-bridge[utcp]`."""
    names = ",".join(sorted(extras))
    if not names:
        return DISTRIBUTION
    return f"{DISTRIBUTION}[{names}]"


def format_requirement(extras: Iterable[str] = (), version: str = __version__) -> str:
    """Format `mcp-tool-bridge>=X,<Y`: this release and those compatible with it."""
    major, minor = (int(number) for number in version.split(".")[:2])
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


def build_wheel() -> Wheel:
    """Build a wheel of the running package, from its files and its metadata. Needs no network.

    An editable installation gives the files of its checkout. Raises ConfigError if there is no metadata of this
    version.
    """
    hint = "Use --wheel FILE, or --from-index once the package is on your package index"
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        raise ConfigError(f"'{DISTRIBUTION}' is not installed, so it cannot be packed", hint=hint) from None
    if installed.version != __version__:
        problem = f"the metadata of '{DISTRIBUTION}' is of {installed.version}, and its files are of {__version__}"
        raise ConfigError(problem, hint="Install it again: pip install -e FOLDER")
    stem = f"{DISTRIBUTION.replace('-', '_')}-{__version__}"
    package = Path(__file__).parents[2]
    files = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for path in installed.files or ():
        is_metadata = path.parts[0].endswith(".dist-info") and "__pycache__" not in path.parts
        if is_metadata and path.name not in _INSTALLATION_METADATA:
            files["/".join([f"{stem}.dist-info", *path.parts[1:]])] = path.read_binary()
    files[f"{stem}.dist-info/WHEEL"] = _WHEEL_FILE.encode()
    record = f"{stem}.dist-info/RECORD"
    lines = []
    for name, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(sha256(content).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    files[record] = f"{''.join(lines)}{record},,\n".encode()
    return Wheel(name=f"{stem}-py3-none-any.whl", version=__version__, content=build_zip(files))


def build_zip(files: Mapping[str, bytes]) -> bytes:
    """Build an archive of files by name; the same files give the same bytes."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = ZipInfo(name, _TIMESTAMP)
            entry.compress_type = ZIP_DEFLATED
            # 3 is Unix. Otherwise, the system that builds the archive would be written there.
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def find_install_source() -> str | None:
    """Find the path or git URL of this installation.

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
