"""ApiDocument: an OpenAPI document (3.0 or 3.1) as plain data, whose references are resolved where they are used.

A document is neither copied nor expanded as a whole, so that a large one costs what its selected operations cost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._runtime.exact_json import load_json
from mcp_bridge._version import DISTRIBUTION

Json = Mapping[str, Any]

MAX_DOCUMENT = 64 * 1024 * 1024
"""The maximum number of bytes of a document. GitHub's has 13 million."""
MAX_VALUES = 2_000_000
"""The maximum number of values of a YAML document whose aliases are followed: they can double at each level."""
MAX_REFERENCES = 32
"""The maximum number of references that lead from one to the next."""


class ApiDocument:
    """An OpenAPI document. `is_3_0` says which JSON Schema its schemas are written in."""

    def __init__(self, data: Any) -> None:
        self.data: Json = check_version(data)
        self.is_3_0 = str(data["openapi"]).startswith("3.0")

    @property
    def info(self) -> Json:
        """The `info` object; empty if there is none."""
        return as_mapping(self.data.get("info"))

    @cached_property
    def security_schemes(self) -> Mapping[str, Json]:
        """The security schemes by name, without those whose references are wrong."""
        found: dict[str, Json] = {}
        for name, given in as_mapping(as_mapping(self.data.get("components")).get("securitySchemes")).items():
            with suppress(SourceError):
                found[str(name)] = self.resolve_node(given)
        return found

    @cached_property
    def children(self) -> Mapping[str, list[str]]:
        """The references of schemas, by the references in their `allOf`."""
        children: dict[str, list[str]] = {}
        for name, schema in as_mapping(as_mapping(self.data.get("components")).get("schemas")).items():
            members = as_mapping(schema).get("allOf")
            for member in members if isinstance(members, list) else ():
                parent = as_mapping(member).get("$ref")
                if isinstance(parent, str):
                    children.setdefault(parent, []).append(f"#/components/schemas/{name}")
        return children

    def resolve_node(self, node: Any) -> Json:
        """Return a mapping, or what it refers to. Raises SourceError for a reference that leads to no mapping."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(node, Mapping):
                raise SourceError(f"expected a mapping, found {shorten(node)}")
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self.follow_reference(reference)
        raise SourceError(f"'{shorten(reference)}' refers to itself")

    def follow_reference(self, reference: str) -> Any:
        """Return what a reference leads to. Raises SourceError if that is nothing, or in another document."""
        if not reference.startswith("#"):
            hint = "`mcp-bridge import openapi` makes one document of several"
            raise SourceError(f"'{shorten(reference)}' refers to another document. {hint}")
        found = resolve_pointer(reference, self.data)
        if found is None:
            raise SourceError(f"'{shorten(reference)}' does not resolve")
        return found


def read_document(path: Path) -> ApiDocument:
    """Read a document from a file. May block. Raises SourceError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return ApiDocument(parse_document(content))
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from error


def parse_document(content: bytes) -> Any:
    """Parse JSON or YAML. Raises SourceError."""
    if len(content) > MAX_DOCUMENT:
        raise SourceError(f"it has more than {MAX_DOCUMENT // 2**20} MiB")
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        try:
            return load_json(content.removeprefix(b"\xef\xbb\xbf"))
        except orjson.JSONDecodeError as error:
            raise SourceError(f"it is not valid JSON: {error}") from None
    return _parse_yaml(content)


def check_version(data: Any) -> Json:
    """Return the document if it is one of OpenAPI 3. Raises SourceError."""
    version = data.get("openapi") if isinstance(data, Mapping) else None
    if isinstance(version, str) and re.match(r"3\.\d", version):
        return dict(data)
    if isinstance(data, Mapping) and "swagger" in data:
        raise SourceError("it is a Swagger 2 document. Convert it to OpenAPI 3, for example with swagger2openapi")
    raise SourceError("it is not an OpenAPI document: expected `openapi: 3.0.x` or `openapi: 3.1.x` in it")


def as_mapping(value: Any) -> Json:
    """Return a mapping, or an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def shorten(value: Any) -> str:
    """Return a value as short text for an error."""
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]} …"


def _parse_yaml(content: bytes) -> Any:
    """Parse YAML 1.2. PyYAML parses in C, twelve times as fast as ruamel.yaml, which matters for megabytes."""
    try:
        import yaml
    except ImportError:
        hint = f"Run `pip install '{DISTRIBUTION}[openapi]'`, or convert the document to JSON"
        raise SourceError(f"YAML documents need the package PyYAML. {hint}") from None
    from mcp_bridge._sources.openapi.yaml_loader import JsonTypesLoader

    try:
        data = yaml.load(content, Loader=JsonTypesLoader)  # noqa: S506 - derived from the safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark is not None else ""
        raise SourceError(f"it is not valid YAML{place}: {getattr(error, 'problem', None) or error}") from None
    except (RecursionError, ValueError) as error:
        raise SourceError(f"it is not valid YAML: {error}") from None
    _check_size(data)
    return data


def _check_size(data: Any) -> None:
    """Check the number of values, because aliases can double at each level, or lead back to where they are."""
    stack, left = [data], MAX_VALUES
    while stack:
        value = stack.pop()
        left -= 1
        if left < 0:
            raise SourceError(f"it has more than {MAX_VALUES} values if its aliases are followed")
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
