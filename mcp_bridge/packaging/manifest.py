"""The manifest of an MCP bundle (.mcpb), version 0.4: https://github.com/modelcontextprotocol/mcpb, MANIFEST.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.packaging.project import Project
from mcp_bridge.packaging.release import OLDEST_PYTHON
from mcp_bridge.settings.environment import EnvironmentVariable

VERSION = "0.4"
"""The first version with `server.type: uv`."""
START = "start.py"
"""The script that the bundle starts; hosts may use `entry_point` or `mcp_config`."""
PLATFORMS = ("darwin", "linux", "win32")
_NUMBER = r"(?:0|[1-9][0-9]*)"
_SEMANTIC = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Details of a package that the user has given; the others come from the settings."""

    version: str | None = None
    text: str | None = None
    author: str | None = None
    license: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEntries:
    """What the server publishes: the tools' names, as clients see them, with their descriptions."""

    tools: Sequence[tuple[str, str]] = ()
    has_prompts: bool = False


def build_manifest(project: Project, entries: PublishedEntries, description: Description) -> dict[str, Any]:
    """Build the manifest of a bundle. Raises ConfigError for a version that is not semantic."""
    manifest: dict[str, Any] = {
        "manifest_version": VERSION,
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
        manifest["prompts_generated"] = True  # listing a prompt would require its text, which is made on request
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
    given = (description.text or "").strip() or (project.instructions or "").strip()
    text = given or f"Tools of {project.title or project.name}"
    return " ".join(text.splitlines()[0].split())


def _build_command(variables: Sequence[EnvironmentVariable]) -> Mapping[str, Any]:
    # Without --directory uv would look for the project in the working directory, which can be any folder.
    return {
        "command": "uv",
        "args": ["run", "--directory", "${__dirname}", START],
        "env": {variable.name: f"${{user_config.{variable.name}}}" for variable in variables},
    }


def _build_option(variable: EnvironmentVariable) -> dict[str, Any]:
    """Build an option that the user fills in; without a default, hosts would pass the unresolved reference."""
    title = variable.name.replace("_", " ").strip().capitalize() or variable.name
    option: dict[str, Any] = {"type": "string", "title": title, "sensitive": variable.is_secret}
    if variable.default is None:
        return {**option, "description": f"{variable.name} in the settings of the tools", "required": True}
    text = f"{variable.name} in the settings of the tools; may be empty"
    return {**option, "description": text, "required": False, "default": "" if variable.is_secret else variable.default}
