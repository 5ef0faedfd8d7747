"""The manifest of an MCP bundle (.mcpb), version 0.4: https://github.com/modelcontextprotocol/mcpb, MANIFEST.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.packaging.project import Project
from mcp_bridge.packaging.release import OLDEST_PYTHON
from mcp_bridge.settings.environment import Variable

VERSION = "0.4"
"""The first with `server.type: uv`."""
START = "start.py"
"""What the bundle starts, with or without `mcp_config`: hosts may do either."""
PLATFORMS = ("darwin", "linux", "win32")
_NUMBER = r"(?:0|[1-9][0-9]*)"
_SEMANTIC = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What is told about a package: the settings say what is not given."""

    version: str | None = None
    text: str | None = None
    author: str | None = None
    licence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What the bridge has when it is running: the tools' names as clients see them, and their descriptions."""

    tools: Sequence[tuple[str, str]] = ()
    prompts: bool = False


def manifest(project: Project, offered: Offered, description: Description) -> dict[str, Any]:
    """The manifest of a project's bundle. Raises ConfigError for a version that is not semantic."""
    made: dict[str, Any] = {
        "manifest_version": VERSION,
        "name": project.name,
        "display_name": project.title or project.name,
        "version": semantic_version(project, description),
        "description": described(project, description),
        "author": {"name": description.author or "unknown"},
        "server": {"type": "uv", "entry_point": START, "mcp_config": _command(project.variables)},
        "tools": [{"name": name, "description": text} for name, text in offered.tools],
        "tools_generated": False,
        "compatibility": {"platforms": list(PLATFORMS), "runtimes": {"python": f">={OLDEST_PYTHON}"}},
    }
    if offered.prompts:
        made["prompts_generated"] = True  # a listed prompt would need its text, which is made when it is asked for
    if project.instructions:
        made["long_description"] = project.instructions
    if description.licence:
        made["license"] = description.licence
    if project.variables:
        made["user_config"] = {variable.name: _option(variable) for variable in project.variables}
    return made


def semantic_version(project: Project, description: Description) -> str:
    """The given version, or the settings', or 1.0.0. Raises ConfigError for one that is not semantic."""
    version = description.version or project.version or "1.0.0"
    if not _SEMANTIC.fullmatch(version):
        hint = "Write it as 1.2.3, with --package-version or as 'version' in the settings"
        raise ConfigError(f"'{version}' is no semantic version", where="--package-version", hint=hint)
    return version


def described(project: Project, description: Description) -> str:
    """One line: what was given, or how the instructions begin, or what it is."""
    given = (description.text or "").strip() or (project.instructions or "").strip()
    text = given or f"Tools of {project.title or project.name}"
    return " ".join(text.splitlines()[0].split())


def _command(variables: Sequence[Variable]) -> Mapping[str, Any]:
    # --directory: uv looks for the project from where it stands, and a host stands anywhere.
    return {
        "command": "uv",
        "args": ["run", "--directory", "${__dirname}", START],
        "env": {variable.name: f"${{user_config.{variable.name}}}" for variable in variables},
    }


def _option(variable: Variable) -> dict[str, Any]:
    """What a person is asked for. A default that is there keeps hosts from handing on the reference itself."""
    title = variable.name.replace("_", " ").strip().capitalize() or variable.name
    option: dict[str, Any] = {"type": "string", "title": title, "sensitive": variable.secret}
    if variable.default is None:
        return {**option, "description": f"{variable.name} in the settings of the tools", "required": True}
    told = f"{variable.name} in the settings of the tools; may stay empty"
    return {**option, "description": told, "required": False, "default": "" if variable.secret else variable.default}
