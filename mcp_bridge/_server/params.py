"""Checks messages of clients by the JSON Schemas of their protocol revision (docs/generate_params.py).

A valid message costs one `is_valid` of jsonschema-rs. For an invalid one, a walk over the message finds the problems.
It stops after five of them, and repeats no values, because these may be secret or large.
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
"""The maximum number of problems that an error lists."""
_MAX_KEY = 100
"""The maximum number of characters of a client's key that an error repeats."""
_MAX_WALKED = 10
"""The maximum number of items of a list that are all walked. In a longer list, a validator finds the invalid ones."""
_REQUIRED = "required field missing"

_Schema = Mapping[str, Any]
_Problem = tuple[str, str]
"""A path such as `.arguments.name`, and what is wrong there."""


@cache
def load_param_schemas(version: str) -> Mapping[str, MessageSchema]:
    """Return the schemas of the params of requests and notifications by method. Other methods are not checked."""
    return _load_schemas(has_feature(version, STATELESS))["params"]


def is_larger(params: Any, limit: int) -> bool:
    """Return whether params have more than `limit` bytes as JSON, or are nested too deeply to be written."""
    try:
        return len(dump_json(params)) > limit
    except TypeError:
        return True


def list_result_problems(method: str, version: str, result: Any) -> list[str]:
    """List at most five problems of a client's result for a request of this method.

    In 2026-07-28 the results are the `inputResponses` of a request.
    """
    schema = _load_schemas(has_feature(version, STATELESS))["results"].get(method)
    return [] if schema is None or schema.is_valid(result) else schema.list_problems(result, "result")


class MessageSchema:
    """The schema of one kind of message. `root` has its definitions.

    The first message is only walked, so the first response does not wait for the import of jsonschema-rs. The schema is
    compiled for the second one, or if the walk finds a problem. `is_valid` is replaced each time.
    """

    def __init__(self, schema: _Schema, root: _Schema) -> None:
        self._schema = schema
        self._root = root
        self.is_valid: Callable[[Any], bool] = self._check_first

    def _check_first(self, data: Any) -> bool:
        self.is_valid = self._check_second
        if not self.list_problems(data, ""):
            return True
        # The walk is not exact, so the compiled schema decides.
        return self._check_second(data)

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
        """Return lines such as `uri: required field missing`. `name` is the name of the data as a whole."""
        problems = islice(self._walk(data, self._schema, ""), _MAX_PROBLEMS)
        return [f"{path.lstrip('.') or name}: {text}" for path, text in problems]

    def _walk(self, data: Any, schema: _Schema, path: str) -> Iterator[_Problem]:
        """Yield the problems of data, by the alternative of the schema the data most likely means."""
        types: dict[str, None] = {}
        alternatives: list[_Schema] = []
        for alternative in self._iter_alternatives(schema):
            alternative_types = list_declared_types(alternative)
            types.update(dict.fromkeys(alternative_types))
            if "type" not in alternative or has_type(data, alternative_types):
                alternatives.append(alternative)
        if not alternatives:
            types.pop("null", None)
            yield path, f"expected type {' or '.join(types)}, got {get_type(data)}"
            return
        tag_problem = _check_tag(data, alternatives) if len(alternatives) > 1 else None
        if tag_problem is not None:
            key, text = tag_problem
            yield extend_path(path, key), text
        else:
            yield from self._walk_value(data, _select_alternative(data, alternatives), path)

    def _walk_value(self, data: Any, schema: _Schema, path: str) -> Iterator[_Problem]:
        values = [schema["const"]] if "const" in schema else schema.get("enum", [data])
        if data not in values:
            yield path, _describe_values(values)
        elif isinstance(data, dict):
            for key in schema.get("required", ()):
                if key not in data:
                    yield extend_path(path, key), _REQUIRED
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
        """Yield the problems of the items of a list, or of the values of an object with any keys."""
        is_valid = self._compile(schema).is_valid if count > _MAX_WALKED else None
        for key, value in items:
            if is_valid is None or not is_valid(value):
                yield from self._walk(value, schema, extend_path(path, _truncate_key(key)))

    def _iter_alternatives(self, schema: _Schema) -> Iterator[_Schema]:
        """Yield the alternatives of `anyOf`, with references resolved, or the schema itself if it has none."""
        if "$ref" in schema:
            schema = resolve_pointer(schema["$ref"], self._root)
        if "anyOf" not in schema:
            yield schema
        for alternative in schema.get("anyOf", ()):
            yield from self._iter_alternatives(alternative)


# The cache has at most two items, one per file, and the files never change.
@cache
def _load_schemas(is_stateless: bool) -> dict[str, dict[str, MessageSchema]]:
    """Load the schemas of a revision. Versions before 2025-11-25 have its schemas, as in the official types."""
    root = load_json((_FOLDER / f"{STATELESS if is_stateless else HANDSHAKE}.json").read_bytes())
    schemas: dict[str, dict[str, MessageSchema]] = {}
    for group in ("params", "results"):
        schemas[group] = {method: MessageSchema(schema, root) for method, schema in root[group].items()}
    return schemas


def _get_tags(schema: _Schema) -> dict[str, Any]:
    """Return the tags of an alternative: properties with only one possible value, such as `type`."""
    properties = schema.get("properties", {})
    return {key: property_schema["const"] for key, property_schema in properties.items() if "const" in property_schema}


def _check_tag(data: Any, alternatives: list[_Schema]) -> _Problem | None:
    """Return the key and the problem of the data's tag if it fits none of the alternatives."""
    tags: list[tuple[str, Any]] = []
    for alternative in alternatives:
        tags += _get_tags(alternative).items()
    # An alternative without a tag may fit any data.
    if not tags or len(tags) < len(alternatives) or any(data.get(key) == value for key, value in tags):
        return None
    key = tags[0][0]
    if key not in data:
        return key, _REQUIRED
    return key, _describe_values([value for _, value in tags])


def _select_alternative(data: Any, alternatives: list[_Schema]) -> _Schema:
    """Return the most likely alternative: by its tag, and then by the number of common keys."""
    if len(alternatives) == 1:
        return alternatives[0]

    def rate(schema: _Schema) -> tuple[bool, int]:
        has_tag = any(data.get(key) == value for key, value in _get_tags(schema).items())
        return has_tag, len(schema.get("properties", {}).keys() & data.keys())

    return max(alternatives, key=rate)


def _check_bounds(data: Any, schema: _Schema, path: str) -> Iterator[_Problem]:
    if "minimum" in schema and data < schema["minimum"]:
        yield path, f"value < minimum {schema['minimum']}"
    if "maximum" in schema and data > schema["maximum"]:
        yield path, f"value > maximum {schema['maximum']}"


def _describe_values(values: list[Any]) -> str:
    return f"value not in enum {json.dumps([value for value in values if value is not None])}"


def _truncate_key(key: Any) -> Any:
    return key if isinstance(key, int) or len(key) <= _MAX_KEY else f"{key[:_MAX_KEY]}... ({len(key)} characters)"
