"""Reads UTCP manuals of version 1, and of earlier versions with other names for the keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._integrations.frameworks.common import Json
from mcp_bridge._settings.documents.document import Document, read_document

_TEMPLATES = ("tool_call_template", "tool_transport", "tool_provider")
_TYPES = ("call_template_type", "transport_type", "provider_type", "type")
"""The keys of version 1, and their names in earlier versions."""
_RENAMED = {"http_stream": "streamable_http"}
"""Types of calls that had another name before version 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualTool:
    """One tool of a manual. `kind` is the type of its call template, and `template` has the other keys."""

    name: str
    description: str = ""
    inputs: Json = field(default_factory=dict)
    outputs: Json = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    kind: str
    template: Json = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """The tools of a manual.

    `problems` has a line for each invalid tool. `folder` is the folder of the file; None without a file.
    """

    name: str
    folder: Path | None = None
    tools: tuple[ManualTool, ...] = ()
    problems: tuple[str, ...] = ()


def read_manual(path: str | Path) -> Manual:
    """Read a manual from a JSON or YAML file. Raises SourceError with file, line and key path."""
    file = Path(path)
    try:
        return _parse_manual(read_document(file), re.sub(r"\W", "_", file.stem), file.resolve().parent)
    except ConfigError as error:
        raise SourceError(str(error)) from error


def convert_manual(value: Any) -> Manual:
    """Convert a manual of the package utcp, or a mapping. Raises SourceError."""
    data = value
    if not isinstance(value, Mapping):
        # The package utcp writes null for keys without a value.
        data = _remove_nulls(value.model_dump(mode="json", by_alias=True))
    try:
        return _parse_manual(Document(path="", data=dict(data)), "manual", None)
    except ConfigError as error:
        raise SourceError(f"a UTCP manual: {error}") from error


def _parse_manual(document: Document, name: str, folder: Path | None) -> Manual:
    data = document.data
    if "tools" not in data:
        keys = f"Its keys: {', '.join(data) or 'none'}."
        raise document.make_error((), "a UTCP manual has a list 'tools', found none", keys)
    if not isinstance(data["tools"], list):
        raise document.make_error(("tools",), "expected a list of tools")
    tools, problems = [], []
    for index, tool in enumerate(data["tools"]):
        try:
            tools.append(_parse_tool(document, ("tools", index), tool))
        except ConfigError as error:
            problems.append(str(error))
    return Manual(name=name, folder=folder, tools=tuple(tools), problems=tuple(problems))


def _parse_tool(document: Document, key_path: tuple[str | int, ...], tool: Any) -> ManualTool:
    if not isinstance(tool, dict):
        raise document.make_error(key_path, "expected a tool, as a mapping")
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise document.make_error((*key_path, "name"), "a tool needs a name")
    for key in ("inputs", "outputs"):
        if not isinstance(tool.get(key), dict | None):
            raise document.make_error((*key_path, key), "expected a JSON Schema, as a mapping")
    template_keys = [key for key in _TEMPLATES if key in tool]
    if not template_keys:
        problem = f"the tool '{tool['name']}' has no tool_call_template, which defines how to call it"
        raise document.make_error(key_path, problem)
    call_type, template = _parse_template(document, (*key_path, template_keys[0]), tool[template_keys[0]])
    tags = tool.get("tags")
    return ManualTool(
        name=tool["name"],
        description=str(tool.get("description") or ""),
        inputs=dict(tool.get("inputs") or {}),
        outputs=dict(tool.get("outputs") or {}),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        kind=call_type,
        template=template,
    )


def _parse_template(document: Document, key_path: tuple[str | int, ...], template: Any) -> tuple[str, Json]:
    if not isinstance(template, dict):
        raise document.make_error(key_path, "expected a call template, as a mapping")
    call_type = next((template[key] for key in _TYPES if isinstance(template.get(key), str)), None)
    if call_type is None:
        raise document.make_error((*key_path, _TYPES[0]), "a call template needs a type, such as 'http' or 'cli'")
    options = {key: value for key, value in template.items() if key not in _TYPES and value is not None}
    return _RENAMED.get(call_type, call_type), options


def _remove_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _remove_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_remove_nulls(item) for item in value]
    return value
