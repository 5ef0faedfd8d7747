"""Build the JSON Schemas of what clients send, from the official types: one file for each protocol revision.

The types are those by which the SDK validates: `mcp_types.methods` maps each method and version to one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_types.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, CLIENT_RESULTS
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

Schema = dict[str, Any]

FOLDER = Path(__file__).parent.parent / "mcp_bridge" / "_server" / "schemas"
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
"""The revisions with types of their own. The SDK, too, checks earlier versions by the types of 2025-11-25."""
DROPPED = frozenset({"title", "description", "default"})
MAPS = frozenset({"properties", "$defs"})
"""Keywords whose keys are names, not keywords."""
DEFINITIONS = "#/$defs/"


def build_files() -> Iterator[tuple[Path, str]]:
    """Yield each file and its text."""
    for version in (HANDSHAKE, STATELESS):
        yield FOLDER / f"{version}.json", _format(build_schemas(version))


def build_schemas(version: str) -> dict[str, Schema]:
    """The schemas of a revision: `params` and `results` by method, and the definitions that they refer to.

    2026-07-28 has no requests of servers: the results that it defines are the `inputResponses` of its clients.
    """
    messages = {
        method: model
        for (method, of), model in [*CLIENT_REQUESTS.items(), *CLIENT_NOTIFICATIONS.items()]
        if of == version
    }
    answers = {method: model for (method, of), model in CLIENT_RESULTS.items() if of == HANDSHAKE}
    models = [*messages.values(), *(answers.values() if version == HANDSHAKE else ())]
    raw = models_json_schema([(model, "validation") for model in models])[1]["$defs"]
    definitions = {name: simplify(schema) for name, schema in raw.items()}
    params = {method: simplify(_get_params(model, raw)) for method, model in messages.items()}
    results = {
        method: {"$ref": DEFINITIONS + model.__name__}
        for method, model in answers.items()
        if model.__name__ in definitions
    }
    used = _collect_definitions([*params.values(), *results.values()], definitions)
    return {"params": params, "results": results, "$defs": {name: definitions[name] for name in sorted(used)}}


def _get_params(model: type[BaseModel], definitions: dict[str, Schema]) -> Schema:
    """The schema of a message's params. Optional params are those that may be null: they are checked as `{}`."""
    schema: Schema = definitions[model.__name__]["properties"]["params"]
    alternatives = schema.get("anyOf", [schema])
    (params,) = (part for part in alternatives if part != {"type": "null"})
    return params


def simplify(schema: Any) -> Any:
    """A schema without texts and without keywords that accept everything."""
    if not isinstance(schema, dict):
        return schema
    made: Schema = {}
    for keyword, value in schema.items():
        if keyword in MAPS:
            made[keyword] = {name: simplify(part) for name, part in value.items()}
        elif keyword == "anyOf":
            made[keyword] = [simplify(part) for part in value]
        elif keyword == "enum":
            # Literals with the same values are equal, so Python may replace one by another with another order.
            made[keyword] = sorted(value)
        elif keyword not in DROPPED:
            made[keyword] = simplify(value)
    if made.get("$ref") == f"{DEFINITIONS}JSONValue":  # any value; checking it would visit all of it
        return {}
    for keyword, accepting in (("additionalProperties", ({}, True)), ("properties", ({},)), ("items", ({},))):
        if made.get(keyword) in accepting:
            del made[keyword]
    if {"const", "enum"} & made.keys():
        made.pop("type", None)
    return _merge_alternatives(made)


def _merge_alternatives(schema: Schema) -> Schema:
    """Replace alternatives by a list of types: `string or null` instead of either a string or null.

    Each remaining keyword restricts values of one type, so it keeps its meaning.
    """
    parts = schema.get("anyOf", ())
    if {} in parts:
        return {}
    if len(parts) == 2 and parts[1] == {"type": "null"} and "enum" in parts[0]:
        return {"enum": [*parts[0]["enum"], None]}
    types = list(dict.fromkeys(part["type"] for part in parts if "type" in part))
    if not parts or len(types) < len(parts):
        return schema
    if "number" in types:
        types = [name for name in types if name != "integer"]
    merged = {keyword: value for part in parts for keyword, value in part.items()}
    return {**merged, "type": types}


def _collect_definitions(schemas: list[Any], definitions: dict[str, Schema]) -> set[str]:
    """The names of the definitions that schemas refer to, directly and through others."""
    names: set[str] = set()
    waiting = [*schemas]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).removeprefix(DEFINITIONS)
            if name and name not in names:
                names.add(name)
                waiting.append(definitions[name])
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return names


def _format(schemas: dict[str, Schema]) -> str:
    """Compact JSON with a line for each method and definition."""
    groups = []
    for group, rows in schemas.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in rows.items()]
        groups.append(f" {json.dumps(group)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(groups) + "\n}\n"
