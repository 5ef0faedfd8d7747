"""An MCP bundle: a zip with a manifest, a pyproject.toml for uv, the settings, and the files that they need."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.packaging.manifest import START, Description, Offered, manifest
from mcp_bridge.packaging.project import Project
from mcp_bridge.packaging.release import OLDEST_PYTHON, Wheel, called, requirement

FOLDER = "project"
"""Where the project's own files are, so that none of them is in the way of the bundle's."""
WHEELS = "wheels"
SHORTEST = 8
"""Values of secrets that are shorter are not searched for: they stand in ordinary text too."""
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The only date in a bundle, so that the same project makes the same bytes."""
_START = '''"""Serve the tools of this bundle over stdio."""

import os
import sys
from pathlib import Path

for name, value in list(os.environ.items()):
    if value.startswith("${{user_config."):  # a host has handed on the reference to an option that was left empty
        del os.environ[name]

sys.argv[1:] = ["serve", str(Path(__file__).resolve().parent / "{folder}" / {entry})]

from mcp_bridge.cli import main  # noqa: E402

main()
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The bytes of a bundle, and what is in it: names with sizes in bytes."""

    content: bytes
    files: Mapping[str, int]


def bundle(
    project: Project,
    offered: Offered,
    description: Description,
    *,
    wheel: Wheel | None = None,
    secrets: Iterable[str] = (),
) -> Bundle:
    """The bundle of a project, which has the bridge from an index or from the wheel that is put into it.

    Raises ConfigError when one of the `secrets` stands in a file that would be packed, or a file cannot be read.
    """
    made: dict[str, bytes] = {
        "manifest.json": _json(manifest(project, offered, description)),
        "pyproject.toml": _pyproject(project, wheel).encode(),
        START: _START.format(folder=FOLDER, entry=ascii(project.entry)).encode(),
    }
    made |= {f"{FOLDER}/{name}": _read(path) for name, path in project.files.items()}
    _check(made, secrets)
    if wheel is not None:
        made[f"{WHEELS}/{wheel.name}"] = wheel.content
    return Bundle(content=_zipped(made), files={name: len(content) for name, content in sorted(made.items())})


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", errors="replace")


def _pyproject(project: Project, wheel: Wheel | None) -> str:
    """What uv installs. The wheel, where there is one, stands for every version of its distribution."""
    import tomlkit

    bridge = requirement(project.extras) if wheel is None else f"{called(project.extras)}=={wheel.version}"
    uv: dict[str, Any] = {"package": False}
    if wheel is not None:
        uv["sources"] = {DISTRIBUTION: {"path": f"{WHEELS}/{wheel.name}"}}
    document = {
        "project": {
            "name": f"{project.name}-bundle",
            "version": "1",
            "requires-python": f">={OLDEST_PYTHON}",
            "dependencies": [bridge, *project.requirements],
        },
        "tool": {"uv": uv},
    }
    return tomlkit.dumps(document)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=str(path), hint="Check its mode") from None


def _check(made: Mapping[str, bytes], secrets: Iterable[str]) -> None:
    long = [value for value in secrets if len(value) >= SHORTEST]
    as_json = (json.dumps(value, ensure_ascii=False)[1:-1] for value in long)
    values = [value.encode(errors="surrogateescape") for value in (*long, *as_json)]
    for name, content in made.items():
        if any(value in content for value in values):
            hint = "Take it out, and refer to the variable: ${NAME}"
            raise ConfigError("the value of a variable of the settings stands in this file", path=name, hint=hint)


def _zipped(made: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with ZipFile(written, "w", ZIP_DEFLATED) as archive:
        for name, content in sorted(made.items()):
            entry = ZipInfo(name, _FIRST_DAY)
            entry.compress_type = ZIP_DEFLATED
            entry.create_system = 3  # as on Unix, whatever made it
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return written.getvalue()
