"""Builds MCP bundles: zip files with a manifest, a pyproject.toml for uv, the settings, and the required files.

The manifest has the version 0.4: https://github.com/modelcontextprotocol/mcpb, MANIFEST.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.packaging.project import Project
from mcp_bridge._desktop.packaging.release import (
    OLDEST_PYTHON,
    Wheel,
    build_zip,
    format_distribution,
    format_requirement,
)
from mcp_bridge._settings.documents.toml_syntax import format_table
from mcp_bridge._settings.environment import EnvironmentVariable
from mcp_bridge._version import DISTRIBUTION

MANIFEST_VERSION = "0.4"
"""The first version with `server.type: uv`."""
START = "start.py"
"""The script with which hosts start the server. Some use `entry_point` of the manifest, others `mcp_config`."""
PLATFORMS = ("darwin", "linux", "win32")
_NUMBER = r"(?:0|[1-9][0-9]*)"
_SEMANTIC = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
FOLDER = "project"
"""The folder of the project's files, separate from those of the bundle itself."""
WHEELS = "wheels"
SHORTEST_SECRET = 8
"""The minimum length of a secret that is searched for in files. Shorter texts also occur in ordinary text."""
_START_SCRIPT = '''"""Serve the tools of this bundle over stdio."""

import os
import sys
from pathlib import Path

for name, value in list(os.environ.items()):
    if value.startswith("${{user_config."):  # the host has not resolved the reference to an empty option
        del os.environ[name]

sys.argv[1:] = ["serve", str(Path(__file__).resolve().parent / "{folder}" / {entry})]

from mcp_bridge._cli import main  # noqa: E402

main()
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The user's details about a package. The others come from the settings."""

    version: str | None = None
    text: str | None = None
    author: str | None = None
    license: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEntries:
    """What the server publishes: the tools' names, as clients see them, with their descriptions."""

    tools: Sequence[tuple[str, str]] = ()
    has_prompts: bool = False


def build_bundle(
    project: Project,
    entries: PublishedEntries,
    description: Description,
    *,
    wheel: Wheel | None = None,
    secrets: Iterable[str] = (),
) -> tuple[bytes, Mapping[str, int]]:
    """Return the bytes of a bundle, and its files with their sizes in bytes.

    It installs mcp-bridge from a package index, or from a wheel in the bundle.
    Raises ConfigError if a file contains one of the `secrets`, or cannot be read.
    """
    manifest = json.dumps(build_manifest(project, entries, description), indent=2, ensure_ascii=False) + "\n"
    files: dict[str, bytes] = {
        "manifest.json": manifest.encode("utf-8", errors="replace"),
        "pyproject.toml": _build_pyproject(project, wheel).encode(),
        START: _START_SCRIPT.format(folder=FOLDER, entry=ascii(project.entry)).encode(),
    }
    files |= {f"{FOLDER}/{name}": _read_file(path) for name, path in project.files.items()}
    _check_secrets(files, secrets)
    if wheel is not None:
        files[f"{WHEELS}/{wheel.name}"] = wheel.content
    return build_zip(files), {name: len(content) for name, content in sorted(files.items())}


def _build_pyproject(project: Project, wheel: Wheel | None) -> str:
    """Build the file from which uv installs; a wheel replaces the distribution of the package index."""
    bridge = format_requirement(project.extras)
    uv: dict[str, Any] = {"package": False}
    if wheel is not None:
        bridge = f"{format_distribution(project.extras)}=={wheel.version}"
        uv["sources"] = {DISTRIBUTION: {"path": f"{WHEELS}/{wheel.name}"}}
    metadata = {
        "name": f"{project.name}-bundle",
        "version": "1",
        "requires-python": f">={OLDEST_PYTHON}",
        "dependencies": [bridge, *project.requirements],
    }
    tables = (format_table(("project",), metadata), format_table(("tool", "uv"), uv))
    return "\n\n".join(tables) + "\n"


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read: {error.strerror}", path=str(path), hint="Check its permissions") from None


def _check_secrets(files: Mapping[str, bytes], secrets: Iterable[str]) -> None:
    long_secrets = [value for value in secrets if len(value) >= SHORTEST_SECRET]
    json_texts = [json.dumps(value, ensure_ascii=False)[1:-1] for value in long_secrets]
    values = [value.encode(errors="surrogateescape") for value in (*long_secrets, *json_texts)]
    for name, content in files.items():
        if any(value in content for value in values):
            hint = "Remove it, and refer to the variable: ${NAME}"
            raise ConfigError("this file contains the value of a secret variable", path=name, hint=hint)


def build_manifest(project: Project, entries: PublishedEntries, description: Description) -> dict[str, Any]:
    """Build the manifest of a bundle. Raises ConfigError if the version is not semantic."""
    manifest: dict[str, Any] = {
        "manifest_version": MANIFEST_VERSION,
        "name": project.name,
        "display_name": project.title or project.name,
        "version": choose_version(project, description),
        "description": choose_description(project, description),
        "author": {"name": description.author or "unknown"},
        "server": {"type": "uv", "entry_point": START, "mcp_config": _build_command(project.variables)},
        "tools": [{"name": name, "description": text} for name, text in entries.tools],
        "tools_generated": False,
        "compatibility": {"platforms": list(PLATFORMS), "runtimes": {"python": f">={OLDEST_PYTHON}"}},
    }
    if entries.has_prompts:
        # Listing a prompt would require its text, which is made on request.
        manifest["prompts_generated"] = True
    if project.instructions:
        manifest["long_description"] = project.instructions
    if description.license:
        manifest["license"] = description.license
    if project.variables:
        manifest["user_config"] = {variable.name: _build_option(variable) for variable in project.variables}
    return manifest


def choose_version(project: Project, description: Description) -> str:
    """Choose the given version, that of the settings, or 1.0.0. Raises ConfigError if it is not semantic."""
    version = description.version or project.version or "1.0.0"
    if not _SEMANTIC.fullmatch(version):
        hint = "Use --package-version 1.2.3, or 'version' in the settings"
        raise ConfigError(f"'{version}' is not a semantic version", where="--package-version", hint=hint)
    return version


def choose_description(project: Project, description: Description) -> str:
    """Choose one line: the given text, the first line of the instructions, or a default."""
    texts = (description.text, project.instructions, f"Tools of {project.title or project.name}")
    text = next(text.strip() for text in texts if text is not None and text.strip())
    return " ".join(text.splitlines()[0].split())


def _build_command(variables: Sequence[EnvironmentVariable]) -> Mapping[str, Any]:
    # Without --directory, uv searches for the project in the working directory, which may be any folder.
    return {
        "command": "uv",
        "args": ["run", "--directory", "${__dirname}", START],
        "env": {variable.name: f"${{user_config.{variable.name}}}" for variable in variables},
    }


def _build_option(variable: EnvironmentVariable) -> dict[str, Any]:
    """Build an option that the user fills in. Unless it is required, it has a default, which may be empty: for an
    option without a value, hosts would pass on the unresolved reference."""
    title = variable.name.replace("_", " ").strip().capitalize() or variable.name
    option: dict[str, Any] = {"type": "string", "title": title, "sensitive": variable.is_secret}
    if variable.default is None:
        return {**option, "description": f"{variable.name} in the settings of the tools", "required": True}
    text = f"{variable.name} in the settings of the tools; may be empty"
    return {**option, "description": text, "required": False, "default": "" if variable.is_secret else variable.default}
