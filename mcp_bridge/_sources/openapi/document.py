"""ApiDocument: an OpenAPI document (3.0 or 3.1) as plain data, and the functions that read and check it.

References are resolved where they are used: a document is neither copied nor expanded as a whole, so a large one costs
only as much as its selected operations.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.walking import get_list, get_mapping
from mcp_bridge._runtime.exact_json import load_json
from mcp_bridge._version import DISTRIBUTION

Json = Mapping[str, Any]

VARIABLE = re.compile(r"\{([^{}]+)\}")
"""A variable in a path or in the URL of a server."""

MAX_DOCUMENT = 64 * 1024 * 1024
"""The maximum number of bytes of a document. GitHub's has 13 million."""
MAX_VALUES = 2_000_000
"""The maximum number of values of a YAML document if its aliases are followed. Nested aliases multiply them."""
MAX_REFERENCES = 32
"""The maximum length of a chain of references. A longer one is a circle."""


class ApiDocument:
    """An OpenAPI document. If `is_3_0`, its schemas follow OpenAPI 3.0, otherwise JSON Schema 2020-12."""

    def __init__(self, data: Any) -> None:
        self.data: Json = check_version(data)
        self.is_3_0 = str(data["openapi"]).startswith("3.0")

    @property
    def info(self) -> Json:
        """The `info` object; empty if there is none."""
        return get_mapping(self.data, "info")

    @cached_property
    def security_schemes(self) -> Mapping[str, Json]:
        """The security schemes by name, without those with a wrong reference."""
        schemes: dict[str, Json] = {}
        for name, scheme in get_mapping(get_mapping(self.data, "components"), "securitySchemes").items():
            with suppress(SourceError):
                schemes[str(name)] = self.resolve_node(scheme)
        return schemes

    @cached_property
    def children(self) -> Mapping[str, list[str]]:
        """The references of the schemas that extend each schema: those with a reference to it in their `allOf`."""
        children: dict[str, list[str]] = {}
        for name, schema in get_mapping(get_mapping(self.data, "components"), "schemas").items():
            for member in get_list(as_mapping(schema), "allOf"):
                parent = as_mapping(member).get("$ref")
                if isinstance(parent, str):
                    children.setdefault(parent, []).append(f"#/components/schemas/{name}")
        return children

    def resolve_node(self, node: Any) -> Json:
        """Return a mapping, or the target of its reference. Raises SourceError if there is no mapping."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(node, Mapping):
                raise SourceError(f"expected a mapping, found {shorten(node)}")
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self.follow_reference(reference)
        raise SourceError(f"'{shorten(reference)}' refers to itself")

    def follow_reference(self, reference: str) -> Any:
        """Return the target of a reference. Raises SourceError if there is none, or if it is in another document."""
        if not reference.startswith("#"):
            hint = "`mcp-bridge import openapi` makes one document of several"
            raise SourceError(f"'{shorten(reference)}' refers to another document. {hint}")
        target = resolve_pointer(reference, self.data)
        if target is None:
            raise SourceError(f"'{shorten(reference)}' does not resolve")
        return target


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


def clean_name(text: str) -> str:
    """Return text with underscores in place of characters that are not allowed in names."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text)


def number_name(name: str, names: Container[str]) -> str:
    """Return an unused name: the given one, or one with a number after it."""
    candidate, number = name, 1
    while candidate in names:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _parse_yaml(content: bytes) -> Any:
    """Parse YAML 1.2. This uses PyYAML, because its parser in C is twelve times as fast as ruamel.yaml on megabytes."""
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
    """Count the values, because nested aliases can double them each time, or an alias can contain itself."""
    stack, count = [data], 0
    while stack:
        value = stack.pop()
        count += 1
        if count > MAX_VALUES:
            raise SourceError(f"it has more than {MAX_VALUES} values if its aliases are followed")
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
