"""The settings file as one JSON Schema (2020-12), for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{", "description": "Taken from the environment: ${NAME}."}
_NOT_SCHEMAS = ("const", "default", "enum", "examples")


def json_schema(option_models: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """The schema of the file; each source is checked by its `type` against the model of that type.

    A type that is not in `option_models` passes only when it names a plugin (`module:attribute`).
    """
    from mcp_bridge.settings.model import Settings, SourceSettings, schemas

    names, definitions = schemas([Settings, SourceSettings, *option_models.values()])
    frame = definitions[names[1]]
    for source_type, name in zip(option_models, names[2:], strict=True):
        definitions[f"source:{source_type}"] = _merged(frame, definitions[name], source_type)
    definitions[names[1]] = _by_type(list(option_models))
    root = definitions.pop(names[0])
    root["properties"]["$schema"] = {"type": "string", "description": "The address of this schema, for editors."}
    document: dict[str, Any] = _with_references({**root, "$defs": definitions})
    return {"$schema": _DIALECT, **document}


def _by_type(types: list[str]) -> dict[str, Any]:
    """One source: its type decides which definition it has to fit."""
    named = {"anyOf": [{"enum": types}, {"type": "string", "pattern": ".:."}]}
    rules = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"$ref": f"#/$defs/source:{name}"},
        }
        for name in types
    ]
    rest = {"allOf": rules} if rules else {}
    return {"type": "object", "properties": {"type": named}, "required": ["type"], **rest}


def _merged(frame: dict[str, Any], options: dict[str, Any], source_type: str) -> dict[str, Any]:
    """The frame of a source and the options of one type as one closed object."""
    kind = {**frame["properties"]["type"], "const": source_type}
    return {
        "additionalProperties": False,
        **options,
        "type": "object",
        "properties": {**frame["properties"], **options.get("properties", {}), "type": kind},
        "required": ["type", *options.get("required", [])],
    }


def _with_references(node: Any) -> Any:
    """The schema, in which numbers and truth values may also be references to the environment."""
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    done = {key: item if key in _NOT_SCHEMAS else _with_references(item) for key, item in node.items()}
    if done.get("type") not in ("integer", "number", "boolean"):
        return done
    kept = {key: done.pop(key) for key in ("title", "description", "default") if key in done}
    return {**kept, "anyOf": [done, _REFERENCE]}
