"""Checks messages of clients by the JSON Schemas of their protocol revision. docs/generate_params.py generates these.

A valid message costs one `is_valid`, which visits only what its schema restricts. The walk that explains invalid ones
stops after five problems and repeats no values, because they may be secret or large.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, RpcError
from mcp_bridge._json_schema.references import extend_path, resolve_pointer
from mcp_bridge._json_schema.type_sets import get_type, has_type, list_declared_types
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, STATELESS, has_feature
from mcp_bridge._runtime.exact_json import dump_json, load_json

if TYPE_CHECKING:
    import jsonschema_rs

_FOLDER = Path(__file__).parent / "schemas"
_MAX_PROBLEMS = 5
_MAX_KEY = 100
"""The maximum number of characters of a client's key that a message repeats."""
_MAX_WALKED = 10
"""The maximum number of items that are walked. Beyond it, a compiled validator first finds the invalid ones."""
_REQUIRED = "required field missing"

_Schema = Mapping[str, Any]
_Problem = tuple[str, str]
"""A path such as `.arguments.name`, and what is wrong there."""


@cache
def load_param_schemas(version: str) -> Mapping[str, MessageSchema]:
    """Return the schemas of the params of requests and notifications, by method. Others are not checked."""
    return _load_schemas(has_feature(version, STATELESS))["params"]


def is_larger(params: Any, most: int) -> bool:
    """Whether params have more than `most` bytes as JSON, or are nested too deeply to be written."""
    try:
        return len(dump_json(params)) > most
    except TypeError:
        return True


def list_result_problems(method: str, version: str, result: Any) -> list[str]:
    """List at most five problems of a client's result for a request of this method.

    In 2026-07-28 the results are the `inputResponses` of a request.
    """
    schema = _load_schemas(has_feature(version, STATELESS))["results"].get(method)
    return [] if schema is None or schema.is_valid(result) else schema.list_problems(result, "result")


class MessageSchema:
    """The schema of one kind of message, compiled on first use. `root` has its definitions.

    A valid first message is walked instead, so that a start does not wait for the import of jsonschema-rs.
    """

    def __init__(self, schema: _Schema, root: _Schema) -> None:
        self._schema = schema
        self._root = root
        self.is_valid: Callable[[Any], bool] = self._check_first

    def _check_first(self, data: Any) -> bool:
        self.is_valid = self._check_second
        return not self.list_problems(data, "") or self._check_second(data)

    def _check_second(self, data: Any) -> bool:
        self.is_valid = self._compile(self._schema).is_valid
        return self.is_valid(data)

    def _compile(self, schema: _Schema) -> jsonschema_rs.Validator:
        # This import takes 20 ms.
        import jsonschema_rs

        return jsonschema_rs.validator_for({**schema, "$defs": self._root["$defs"]}, offline=True)

    def make_error(self, method: str, params: Any) -> RpcError:
        """Return the error for invalid params."""
        problems = "; ".join(self.list_problems(params, "params"))
        return RpcError(INVALID_PARAMS, f"Invalid parameters of {method}: {problems}")

    def list_problems(self, data: Any, name: str) -> list[str]:
        """Return lines such as `uri: required field missing`. `name` is the path of the data as a whole."""
        problems = islice(self._walk(data, self._schema, ""), _MAX_PROBLEMS)
        return [f"{path.lstrip('.') or name}: {text}" for path, text in problems]

    def _walk(self, data: Any, schema: _Schema, path: str) -> Iterator[_Problem]:
        alternatives = [*self._iter_alternatives(schema)]
        fitting = [
            alternative
            for alternative in alternatives
            if "type" not in alternative or has_type(data, list_declared_types(alternative))
        ]
        if not fitting:
            types = dict.fromkeys(name for alternative in alternatives for name in list_declared_types(alternative))
            types.pop("null", None)
            yield path, f"expected type {' or '.join(types)}, got {get_type(data)}"
        elif len(fitting) > 1 and (problem := _check_tag(data, fitting)):
            yield extend_path(path, problem[0]), problem[1]
        else:
            yield from self._walk_value(data, _select_alternative(data, fitting), path)

    def _walk_value(self, data: Any, schema: _Schema, path: str) -> Iterator[_Problem]:
        values = [schema["const"]] if "const" in schema else schema.get("enum", [data])
        if data not in values:
            yield path, _describe_values(values)
        elif isinstance(data, dict):
            yield from ((extend_path(path, key), _REQUIRED) for key in schema.get("required", ()) if key not in data)
            for key, property_schema in schema.get("properties", {}).items():
                if key in data:
                    yield from self._walk(data[key], property_schema, extend_path(path, key))
            if (items := schema.get("additionalProperties")) is not None:
                yield from self._walk_items(data.items(), len(data), items, path)
        elif isinstance(data, list):
            if (items := schema.get("items")) is not None:
                yield from self._walk_items(enumerate(data), len(data), items, path)
        elif data is not None:
            yield from _check_bounds(data, schema, path)

    def _walk_items(
        self, items: Iterable[tuple[Any, Any]], count: int, schema: _Schema, path: str
    ) -> Iterator[_Problem]:
        """Yield the problems of a list, or of an object with any keys."""
        is_valid = self._compile(schema).is_valid if count > _MAX_WALKED else None
        for key, value in items:
            if is_valid is None or not is_valid(value):
                yield from self._walk(value, schema, extend_path(path, _truncate_key(key)))

    def _iter_alternatives(self, schema: _Schema) -> Iterator[_Schema]:
        """Yield the schemas of `anyOf`, with references resolved. The data has to match one of them."""
        if "$ref" in schema:
            schema = resolve_pointer(schema["$ref"], self._root)
        if "anyOf" not in schema:
            yield schema
        for alternative in schema.get("anyOf", ()):
            yield from self._iter_alternatives(alternative)


# There are two files, and they never change.
@cache
def _load_schemas(is_stateless: bool) -> dict[str, dict[str, MessageSchema]]:
    """Load the schemas of a revision. Versions before 2025-11-25 have its schemas, as in the official types."""
    root = load_json((_FOLDER / f"{STATELESS if is_stateless else HANDSHAKE}.json").read_bytes())
    return {
        group: {method: MessageSchema(schema, root) for method, schema in root[group].items()}
        for group in ("params", "results")
    }


def _get_tags(schema: _Schema) -> dict[str, Any]:
    """Return the properties with one possible value, such as `type`. They distinguish alternatives."""
    properties = schema.get("properties", {})
    return {key: property_schema["const"] for key, property_schema in properties.items() if "const" in property_schema}


def _check_tag(data: Any, alternatives: list[_Schema]) -> _Problem | None:
    """Return the key and the problem of a tag if it fits none of the alternatives."""
    tags = [tag for alternative in alternatives for tag in _get_tags(alternative).items()]
    if not tags or len(tags) < len(alternatives) or any(data.get(key) == value for key, value in tags):
        return None
    key = tags[0][0]
    return key, _describe_values([value for _, value in tags]) if key in data else _REQUIRED


def _select_alternative(data: Any, alternatives: list[_Schema]) -> _Schema:
    """Return the most likely alternative: its tag fits, and it has most of the data's keys."""

    def rate(schema: _Schema) -> tuple[bool, int]:
        has_tag = any(data.get(key) == value for key, value in _get_tags(schema).items())
        return has_tag, len(schema.get("properties", {}).keys() & data.keys())

    return max(alternatives, key=rate) if len(alternatives) > 1 else alternatives[0]


def _check_bounds(data: Any, schema: _Schema, path: str) -> Iterator[_Problem]:
    if "minimum" in schema and data < schema["minimum"]:
        yield path, f"value < minimum {schema['minimum']}"
    if "maximum" in schema and data > schema["maximum"]:
        yield path, f"value > maximum {schema['maximum']}"


def _describe_values(values: list[Any]) -> str:
    return f"value not in enum {json.dumps([value for value in values if value is not None])}"


def _truncate_key(key: Any) -> Any:
    return key if isinstance(key, int) or len(key) <= _MAX_KEY else f"{key[:_MAX_KEY]}... ({len(key)} characters)"
