"""Tools of smolagents: a table of inputs, and `forward` in a thread."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mcp_bridge.contracts.content import Content
from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.frameworks.blocks import of_data, of_file, of_url
from mcp_bridge.frameworks.shapes import Json, described, is_a, named

PACKAGE = "smolagents"
_OBJECTS = frozenset(("image", "audio"))
"""Types of values that no JSON can be."""


def fits(thing: object) -> bool:
    """Whether this is a tool of smolagents."""
    return is_a(thing, PACKAGE, "Tool")


def entry_of(thing: object) -> ToolEntry:
    """The tool. Raises SourceError for one that needs a picture or a sound."""
    tool: Any = thing
    name = named(tool, "smolagents")
    return ToolEntry(name, described(tool), partial(_call, tool), _schema(name, tool.inputs))


def _schema(name: str, inputs: Mapping[str, Any]) -> Json:
    properties: Json = {}
    required: list[str] = []
    for key, given in inputs.items():
        optional = bool(given.get("nullable"))
        kinds = given.get("type")
        kinds = [kinds] if isinstance(kinds, str) else list(kinds or ())
        known = [kind for kind in kinds if kind not in _OBJECTS]
        if kinds and not known:
            if optional:
                continue
            raise SourceError(
                f"the smolagents tool '{name}' needs {kinds[0]} as '{key}', which no client can send. "
                "Have it take a URL or a path instead"
            )
        properties[key] = _property({**given, "type": known if len(known) != 1 else known[0]})
        if not optional:
            required.append(key)
    made: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**made, "required": required} if required else made


def _property(given: Mapping[str, Any]) -> Json:
    """One input as JSON Schema: `any` is no type, `nullable` is one more; what else stands there stays."""
    made = {key: _below(value) for key, value in given.items() if key not in ("type", "nullable")}
    kinds = given.get("type")
    kinds = [kinds] if isinstance(kinds, str) else list(kinds or ())
    if not kinds or "any" in kinds:
        return made
    if given.get("nullable"):
        kinds = [*kinds, *(() if "null" in kinds else ("null",))]
        if isinstance(made.get("enum"), list) and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
    return {"type": kinds[0] if len(kinds) == 1 else kinds, **made}


def _below(value: Any) -> Any:
    """The same for the schemas inside, such as `items`."""
    if isinstance(value, Mapping):
        return _property(value) if "type" in value or "nullable" in value else {k: _below(v) for k, v in value.items()}
    return [_below(item) for item in value] if isinstance(value, list) else value


def _call(tool: Any, data: Json) -> Any:
    return _read(tool(**(data or {})), str(tool.output_type))


def _read(answer: Any, kind: str) -> Any:
    """Pictures and sounds as content; anything else as it is."""
    if is_a(answer, PACKAGE, "AgentImage"):
        return _picture(answer.to_raw())
    if is_a(answer, PACKAGE, "AgentAudio"):
        return _file(answer.to_string())
    if is_a(answer, PACKAGE, "AgentType"):
        return answer.to_raw()
    if is_a(answer, "PIL", "Image"):
        return _picture(answer)
    if kind in _OBJECTS and isinstance(answer, bytes):
        return of_data(answer)
    if kind in _OBJECTS and isinstance(answer, str | Path):
        return _file(answer)
    if kind in _OBJECTS and answer is not None:  # arrays, which smolagents itself knows how to write down
        wrapped = import_module(f"{PACKAGE}.agent_types").handle_agent_output_types(answer, kind)
        return wrapped if wrapped is answer else _read(wrapped, kind)
    return answer


def _picture(image: Any) -> Content:
    """A picture of PIL as PNG."""
    written = io.BytesIO()
    image.save(written, format="png")
    return of_data(written.getvalue(), "image/png")


def _file(place: str | Path) -> Content:
    """A file, or the link to one."""
    return of_url(str(place)) if "://" in str(place) or str(place).startswith("data:") else of_file(place)
