"""The JSON Schema (2020-12) of the settings file, for editors. Imported late, because it imports pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mcp_bridge._settings.model import PolicySettings, Settings, SourceSettings

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{", "description": "A reference to an environment variable: ${NAME}."}
_NOT_SCHEMAS = ("const", "default", "enum", "examples")


def build_json_schema(
    option_models: Mapping[str, type[BaseModel]], policy_models: Mapping[str, type[BaseModel]] = MappingProxyType({})
) -> dict[str, Any]:
    """Build the schema. The `type` of a source, and the name of a policy, select the model of the options.

    A type or policy that is not in the models is valid only if it names a plugin (`module:attribute`).
    """
    models: list[type[BaseModel]] = [Settings, SourceSettings, PolicySettings]
    models += [*option_models.values(), *policy_models.values()]
    references, schema = models_json_schema([(model, "validation") for model in models])
    definitions = schema["$defs"]
    names = {model: references[model, "validation"]["$ref"].rsplit("/", 1)[1] for model in models}
    common_keys = definitions[names[SourceSettings]]
    for source_type, model in option_models.items():
        definitions[f"source:{source_type}"] = _merge_source(common_keys, definitions[names[model]], source_type)
    definitions[names[SourceSettings]] = _build_source(list(option_models))
    policy_names = {policy: names[model] for policy, model in policy_models.items()}
    definitions[names[PolicySettings]] = _build_policy(policy_names)
    root = definitions.pop(names[Settings])
    root["properties"]["$schema"] = {"type": "string", "description": "The URL of this schema, for editors."}
    document: dict[str, Any] = _allow_references({**root, "$defs": definitions})
    return {"$schema": _DIALECT, **document}


def _build_source(types: list[str]) -> dict[str, Any]:
    """Build the schema of a source. The type selects the schema of all its keys."""
    type_schema = {"anyOf": [{"enum": types}, {"type": "string", "pattern": ".:."}]}
    rules = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"$ref": f"#/$defs/source:{name}"},
        }
        for name in types
    ]
    conditions = {"allOf": rules} if rules else {}
    return {"type": "object", "properties": {"type": type_schema}, "required": ["type"], **conditions}


def _build_policy(models: Mapping[str, str]) -> dict[str, Any]:
    """Build the schema of an item of `policy`: a name, or a mapping from one name to its options.

    `models` has the name of the definition of each policy's options.
    """
    plugin = ".:."
    options = {name: {"anyOf": [{"$ref": f"#/$defs/{model}"}, {"type": "null"}]} for name, model in models.items()}
    return {
        "anyOf": [
            {"enum": list(models)},
            {"type": "string", "pattern": plugin},
            {
                "type": "object",
                "properties": options,
                "patternProperties": {plugin: {"type": ["object", "null"]}},
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }


def _merge_source(common_keys: dict[str, Any], options: dict[str, Any], source_type: str) -> dict[str, Any]:
    """Merge the schemas of the common keys of all sources, and of the options of one type. Allow no other keys."""
    type_schema = {**common_keys["properties"]["type"], "const": source_type}
    return {
        "additionalProperties": False,
        **options,
        "type": "object",
        "properties": {**common_keys["properties"], **options.get("properties", {}), "type": type_schema},
        "required": ["type", *options.get("required", [])],
    }


def _allow_references(node: Any) -> Any:
    """Allow a reference to an environment variable wherever the schema requires a number or a boolean.

    In place of text, the schema already allows it.
    """
    if isinstance(node, list):
        return [_allow_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    schema: dict[str, Any] = {}
    for key, item in node.items():
        schema[key] = item if key in _NOT_SCHEMAS else _allow_references(item)
    if schema.get("type") not in ("integer", "number", "boolean"):
        return schema
    annotations = {key: schema.pop(key) for key in ("title", "description", "default") if key in schema}
    return {**annotations, "anyOf": [schema, _REFERENCE]}
