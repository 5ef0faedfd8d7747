"""Selects the operations of a document, names their tools, and reads their parameters, bodies and responses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._json_schema.walking import get_list, get_mapping
from mcp_bridge._policies.base import includes
from mcp_bridge._sources.openapi.document import VARIABLE, ApiDocument, Json, clean_name, number_name
from mcp_bridge._sources.openapi.parameters import Parameter

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_NAME = 64
"""The maximum number of characters of a tool's name that all clients accept."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
"""Characters that some clients do not accept in the names of tools."""
_MAX_ARGUMENT = 64
"""The maximum number of characters of the name of an argument."""
_IGNORED_HEADERS = frozenset(
    {
        "accept", "authorization", "connection", "content-length", "content-type", "cookie", "host", "te",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that are not parameters (OpenAPI 3.1.1, 4.8.12.1), or that frame the request."""
_ALLOWED_STYLES = {
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "cookie": ("form",),
    "path": ("simple", "label", "matrix"),
    "header": ("simple",),
}
"""The styles of parameters by their location, the default one first."""
_MEDIA_ORDER = (
    re.compile(r"application/json"),
    re.compile(r"application/(?!json-patch)[\w.-]+\+json"),
    re.compile(r"application/x-www-form-urlencoded"),
    re.compile(r"multipart/form-data"),
    re.compile(r".*json.*|\*/\*|application/\*"),
    re.compile(r"text/plain"),
    re.compile(r".*"),
)
"""The media types of bodies, the most suitable one for models first."""


class Operation(NamedTuple):
    """An operation of the document.

    Attributes:
        id: The `operationId`, or an empty text.
        item: The object of the path, which the operations of other methods share.
        content: The object of the operation.
    """

    id: str
    method: str
    path: str
    tags: Sequence[str]
    item: Json
    content: Json

    @property
    def place(self) -> str:
        """The method and the path, for users."""
        return f"{self.method.upper()} {self.path}"


class DeclaredParameter(NamedTuple):
    """A parameter with its schema and its description for callers."""

    parameter: Parameter
    schema: Any
    is_required: bool
    description: str


class DeclaredBody(NamedTuple):
    """The declared body of requests, in the media type that suits models best (`_MEDIA_ORDER`)."""

    media_type: str
    schema: Any
    encoding: Mapping[str, Any]
    is_required: bool
    description: str


def find_operations(document: ApiDocument, problems: list[str], patterns: Sequence[str] = ()) -> Iterator[Operation]:
    """Yield the operations whose place matches the patterns (see `includes`). Without patterns, all operations match.

    Adds a problem for each path that cannot be read.
    """
    for path, node in get_mapping(document.data, "paths").items():
        try:
            item = document.resolve_node(node)
        except SourceError as error:
            problems.append(f"{path}: {error}")
            continue
        for method in METHODS:
            content = item.get(method)
            # Keys of `paths` that do not begin with a slash are extensions.
            if not isinstance(content, Mapping) or not str(path).startswith("/"):
                continue
            tags = [str(tag) for tag in get_list(content, "tags")]
            operation = Operation(str(content.get("operationId") or ""), method, str(path), tags, item, content)
            if includes(patterns, (operation.place,)):
                yield operation


def name_operations(operations: Iterable[Operation]) -> dict[str, Operation]:
    """Return the operations by the names of their tools.

    The name is the `operationId`, or else the method and the path, with `_` in place of unsafe characters.
    """
    operations_by_name: dict[str, Operation] = {}
    for operation in operations:
        base = _UNSAFE.sub("_", operation.id or f"{operation.method}{operation.path}").strip("_") or operation.method
        name, number = _limit_name(base), 1
        while name in operations_by_name:
            number += 1
            name = _limit_name(f"{base}_{number}")
        operations_by_name[name] = operation
    return operations_by_name


def _limit_name(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    # The digest keeps names apart that begin alike.
    suffix = f"_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return name[: MAX_NAME - len(suffix)] + suffix


def read_parameters(document: ApiDocument, operation: Operation) -> list[DeclaredParameter]:
    """Read the parameters of an operation and its path. Raises SourceError for one that is wrong."""
    # A parameter of the operation overrides one of the path that has the same name and location.
    nodes: dict[tuple[str, str], Json] = {}
    for node in get_list(operation.item, "parameters") + get_list(operation.content, "parameters"):
        parameter = document.resolve_node(node)
        name, location = parameter.get("name"), parameter.get("in")
        if not isinstance(name, str) or location not in _ALLOWED_STYLES:
            raise SourceError("a parameter needs a `name`, and an `in` that is path, query, header or cookie")
        if location != "header" or name.lower() not in _IGNORED_HEADERS:
            nodes[name, location] = parameter
    # Some documents do not declare the parameters of paths, but a request needs them.
    for name in VARIABLE.findall(operation.path):
        nodes.setdefault((name, "path"), {"required": True, "schema": {"type": "string"}})
    argument_names: set[str] = set()
    if operation.content.get("requestBody") is not None:
        argument_names.add("body")
    parameters = []
    for (name, location), node in nodes.items():
        argument = _choose_argument(name, location, argument_names)
        argument_names.add(argument)
        parameters.append(_read_parameter(document, node, name, location, argument))
    return parameters


def _read_parameter(document: ApiDocument, node: Json, name: str, location: str, argument: str) -> DeclaredParameter:
    media_type, schema = "", node.get("schema")
    content = get_mapping(node, "content")
    if content:
        # The `content` of a parameter has exactly one media type (OpenAPI 3.1.1, "Parameter Object").
        first_type, media = next(iter(content.items()))
        media_type = str(first_type)
        schema = document.resolve_node(media).get("schema")
    style, explode = node.get("style"), node.get("explode")
    if style not in _ALLOWED_STYLES[location]:
        style = _ALLOWED_STYLES[location][0]
    if not isinstance(explode, bool):
        explode = style == "form"
    allow_reserved = node.get("allowReserved") is True and location == "query"
    parameter = Parameter(name, location, argument, style, explode, allow_reserved, media_type)
    is_required = location == "path" or node.get("required") is True
    return DeclaredParameter(parameter, schema, is_required, str(node.get("description") or ""))


def _choose_argument(name: str, location: str, argument_names: Container[str]) -> str:
    """Choose the name of the argument for a parameter: its own name, in characters clients accept.

    If another argument has this name, the location is appended (`id_query`), or else a number.
    """
    base = clean_name(name).strip("_")[:_MAX_ARGUMENT] or location
    if base not in argument_names:
        return base
    if f"{base}_{location}" not in argument_names:
        return f"{base}_{location}"
    return number_name(base, argument_names)


def read_body(document: ApiDocument, operation: Operation) -> DeclaredBody | None:
    """Read the body of an operation's requests. Raises SourceError for a wrong reference."""
    node = operation.content.get("requestBody")
    if node is None:
        return None
    body = document.resolve_node(node)
    content = get_mapping(body, "content")
    if not content:
        return None
    media_type = min(content, key=_rank_media_type)
    media = document.resolve_node(content[media_type])
    return DeclaredBody(
        str(media_type),
        media.get("schema"),
        get_mapping(media, "encoding"),
        body.get("required") is True,
        str(body.get("description") or ""),
    )


def _rank_media_type(media_type: Any) -> int:
    # The last pattern of the order matches every name.
    name = str(media_type).partition(";")[0].strip().lower()
    return next(rank for rank, pattern in enumerate(_MEDIA_ORDER) if pattern.fullmatch(name))


def list_success_responses(document: ApiDocument, operation: Operation) -> list[Json]:
    """Return the responses with a status of 2xx, or else the default one. Raises SourceError for a wrong reference."""
    responses = get_mapping(operation.content, "responses")
    nodes = [node for status, node in responses.items() if str(status).startswith("2")]
    if not nodes and "default" in responses:
        nodes = [responses["default"]]
    return [document.resolve_node(node) for node in nodes]
