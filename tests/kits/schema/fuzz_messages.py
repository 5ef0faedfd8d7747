"""Client messages generated from the schemas of mcp_bridge/_server/schemas: valid and almost valid ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import orjson
from hypothesis import strategies as st

from tests.kits.paths import ROOT

Json = dict[str, Any]

FOLDER = ROOT / "mcp_bridge" / "_server" / "schemas"
VERSIONS = ["2025-11-25", "2026-07-28"]
NAMES = st.sampled_from(["a", "b", "name", "type", "_meta", "", "é", "a.b"])
TEXTS = st.text(max_size=3)
NUMBERS = st.integers(-2, 2) | st.sampled_from([0.5, -1.5, 1e-7, 2**53 + 1, 2**63, -(2**64)])
"""No float with an integral value: JSON Schema takes it for an integer, the strict types do not."""
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from(["1", "true", "info", "ref/prompt", "user"])
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)


@cache
def read_schemas(version: str) -> Json:
    """Read the file with the schemas of a revision."""
    schemas: Json = orjson.loads((FOLDER / f"{version}.json").read_bytes())
    return schemas


def list_messages(group: str) -> list[tuple[str, str]]:
    """Return each method of a group (`params` or `results`) and a revision, with the version."""
    return [(method, version) for version in VERSIONS for method in read_schemas(version)[group]]


@cache
def generate_message(group: str, method: str, version: str) -> st.SearchStrategy[Any]:
    """Generate the params or results of a method: valid, or with a few invalid values."""
    return _almost(_fitting(read_schemas(version)[group][method], version))


@cache
def _defined(name: str, version: str) -> st.SearchStrategy[Any]:
    return _fitting(read_schemas(version)["$defs"][name], version)


def _fitting(schema: Json, version: str) -> st.SearchStrategy[Any]:
    """Generate data that matches a schema by construction."""
    if "$ref" in schema:
        return _defined(schema["$ref"].rsplit("/", 1)[-1], version)
    if "anyOf" in schema:
        return st.one_of([_fitting(subschema, version) for subschema in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    types = schema.get("type", [])
    names = [types] if isinstance(types, str) else types
    return st.one_of([_of_type(name, schema, version) for name in names]) if names else ANYTHING


def _of_type(name: str, schema: Json, version: str) -> st.SearchStrategy[Any]:
    if name == "object":
        parts = {key: _fitting(subschema, version) for key, subschema in schema.get("properties", {}).items()}
        required = schema.get("required", [])
        fixed = {key: parts.pop(key) for key in required}
        more = schema.get("additionalProperties")
        additional = st.dictionaries(NAMES, _fitting(more, version) if more else ANYTHING, max_size=2)
        properties = st.fixed_dictionaries(fixed, optional=parts)
        return (
            additional
            if not fixed and not parts
            else st.tuples(additional, properties).map(lambda both: _join(*both, parts))
        )
    if name == "array":
        return st.lists(_fitting(schema.get("items", {}), version), max_size=3)
    number = st.floats(schema.get("minimum", -2), schema.get("maximum", 2)).filter(lambda value: value % 1)
    return {
        "string": TEXTS,
        "boolean": st.booleans(),
        "integer": st.integers(-(2**64), 2**64),
        "number": number | st.sampled_from([0, 1]),
        "null": st.none(),
    }[name]


def _join(additional: Json, properties: Json, optional: Json) -> Json:
    """Add unknown keys to the known ones."""
    return {**{key: value for key, value in additional.items() if key not in optional}, **properties}


@st.composite
def _almost(draw: st.DrawFn, fitting: st.SearchStrategy[Any]) -> Any:
    """Generate valid data with up to two values replaced or removed."""
    data = copy.deepcopy(draw(fitting))
    for _ in range(draw(st.integers(0, 2))):
        places = [*_list_places(data)]
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        if draw(st.booleans()) and isinstance(container, dict):
            container.pop(key)
        else:
            container[key] = draw(ANYTHING)
    return data


def _list_places(data: Any) -> Iterator[tuple[Any, Any]]:
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield data, key
        yield from _list_places(data[key])
