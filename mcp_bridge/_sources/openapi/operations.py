"""Reads the operations of a document: their names, parameters, bodies and responses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._settings.sections import SettingsModel
from mcp_bridge._sources.openapi.document import ApiDocument, Json, as_mapping
from mcp_bridge._sources.openapi.parameters import Parameter

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_NAME = 64
"""The maximum number of characters of a tool's name that all clients accept."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_UNSAFE_ARGUMENT = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_ARGUMENT = 64
_IGNORED_HEADERS = frozenset(
    {
        "accept", "authorization", "connection", "content-length", "content-type", "cookie", "host", "te",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that are not parameters (OpenAPI 3.1.1, 4.8.12.1), or that frame the request."""
_STYLES = {"query": "form", "cookie": "form", "path": "simple", "header": "simple"}
_ALLOWED_STYLES = {
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "cookie": ("form",),
    "path": ("simple", "label", "matrix"),
    "header": ("simple",),
}
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


_PATTERN = " A pattern (`*`, `?`)."


class OperationRule(SettingsModel):
    """Operations that match all of these patterns."""

    operation_id: str | None = Field(default=None, description=f"The `operationId`.{_PATTERN}")
    tag: str | None = Field(default=None, description=f"A tag of the operation.{_PATTERN}")
    path: str | None = Field(default=None, description=f"The path, such as `/users/*`.{_PATTERN}")
    method: str | None = Field(default=None, description=f"The method, such as `get`.{_PATTERN}")

    @model_validator(mode="after")
    def _check_any(self) -> OperationRule:
        if not self.model_fields_set:
            raise ValueError("give operation_id, tag, path or method")
        return self

    def matches(self, operation: Operation) -> bool:
        """Whether an operation matches."""
        wanted = ((self.operation_id, operation.id), (self.path, operation.path))
        if any(pattern is not None and not fnmatchcase(value, pattern) for pattern, value in wanted):
            return False
        if self.method is not None and not fnmatchcase(operation.method, self.method.lower()):
            return False
        return self.tag is None or any(fnmatchcase(tag, self.tag) for tag in operation.tags)


class Operation(NamedTuple):
    """An operation: its place in the document, and its content as it is there."""

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
    """A parameter with what a model needs to know about it."""

    parameter: Parameter
    schema: Any
    required: bool
    description: str


class DeclaredBody(NamedTuple):
    """The body of requests, in the most suitable one of its media types."""

    media_type: str
    schema: Any
    encoding: Mapping[str, Any]
    required: bool
    description: str


def find_operations(
    document: ApiDocument, rules: Sequence[OperationRule], excluded: Sequence[OperationRule], problems: list[str]
) -> Iterator[Operation]:
    """Yield the operations that match any of the rules (all if there are none) and none of the excluded ones."""
    for path, given in as_mapping(document.data.get("paths")).items():
        try:
            item = document.resolve_node(given)
        except SourceError as error:
            problems.append(f"{path}: {error}")
            continue
        for method in METHODS:
            content = item.get(method)
            if not isinstance(content, Mapping) or not str(path).startswith("/"):
                continue
            tags = content.get("tags")
            names = [str(tag) for tag in tags] if isinstance(tags, list) else []
            operation = Operation(str(content.get("operationId") or ""), method, str(path), names, item, content)
            is_selected = not rules or any(rule.matches(operation) for rule in rules)
            if is_selected and not any(rule.matches(operation) for rule in excluded):
                yield operation


def name_operations(operations: Iterable[Operation]) -> dict[str, Operation]:
    """Return the operations by the names of their tools: their ids, or else method and path, in letters for clients."""
    named: dict[str, Operation] = {}
    for operation in operations:
        base = _UNSAFE.sub("_", operation.id or f"{operation.method}{operation.path}").strip("_") or operation.method
        name, number = _limit_name(base), 1
        while name in named:
            number += 1
            name = _limit_name(f"{base}_{number}")
        named[name] = operation
    return named


def _limit_name(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def read_parameters(document: ApiDocument, operation: Operation) -> list[DeclaredParameter]:
    """Read the parameters of an operation and its path. Raises SourceError for one that is wrong."""
    found: dict[tuple[str, str], Json] = {}
    for given in (*_as_list(operation.item.get("parameters")), *_as_list(operation.content.get("parameters"))):
        parameter = document.resolve_node(given)
        name, location = parameter.get("name"), parameter.get("in")
        if not isinstance(name, str) or location not in _STYLES:
            raise SourceError("a parameter needs a `name`, and an `in` that is path, query, header or cookie")
        if location != "header" or name.lower() not in _IGNORED_HEADERS:
            found[name, location] = parameter
    for name in re.findall(r"\{([^{}]+)\}", operation.path):
        if (name, "path") not in found:
            found[name, "path"] = {"required": True, "schema": {"type": "string"}}
    return _declare_parameters(document, found, has_body=operation.content.get("requestBody") is not None)


def _declare_parameters(
    document: ApiDocument, found: Mapping[tuple[str, str], Json], *, has_body: bool
) -> list[DeclaredParameter]:
    taken = {"body"} if has_body else set()
    declared = []
    for (name, location), given in found.items():
        argument = _choose_argument(name, location, taken)
        taken.add(argument)
        media_type, schema = _read_content(document, given)
        style = given.get("style")
        if style not in _ALLOWED_STYLES[location]:
            style = _STYLES[location]
        explode = given.get("explode")
        parameter = Parameter(
            name,
            location,
            argument,
            style,
            explode if isinstance(explode, bool) else style == "form",
            given.get("allowReserved") is True and location == "query",
            media_type,
        )
        required = location == "path" or given.get("required") is True
        declared.append(DeclaredParameter(parameter, schema, required, str(given.get("description") or "")))
    return declared


def _choose_argument(name: str, location: str, taken: set[str]) -> str:
    """Choose the name of an argument; clients accept only some characters."""
    base = _UNSAFE_ARGUMENT.sub("_", name).strip("_")[:_MAX_ARGUMENT] or location
    argument = base if base not in taken else f"{base}_{location}"
    number = 1
    while argument in taken:
        number += 1
        argument = f"{base}_{number}"
    return argument


def _read_content(document: ApiDocument, parameter: Json) -> tuple[str, Any]:
    """Return the media type and the schema of a parameter; most have no media type."""
    content = as_mapping(parameter.get("content"))
    for media_type, media in content.items():
        return str(media_type), as_mapping(document.resolve_node(media)).get("schema")
    return "", parameter.get("schema")


def read_body(document: ApiDocument, operation: Operation) -> DeclaredBody | None:
    """Read the body of an operation's requests. Raises SourceError for a wrong reference."""
    given = operation.content.get("requestBody")
    if given is None:
        return None
    body = document.resolve_node(given)
    content = as_mapping(body.get("content"))
    if not content:
        return None
    media_type = min(content, key=_rank_media_type)
    media = document.resolve_node(content[media_type])
    return DeclaredBody(
        str(media_type),
        media.get("schema"),
        as_mapping(media.get("encoding")),
        body.get("required") is True,
        str(body.get("description") or ""),
    )


def _rank_media_type(media_type: Any) -> int:
    kind = str(media_type).partition(";")[0].strip().lower()
    return next(rank for rank, pattern in enumerate(_MEDIA_ORDER) if pattern.fullmatch(kind))


def list_success_responses(document: ApiDocument, operation: Operation) -> list[Json]:
    """Return the responses of success, or the default one. Raises SourceError for a wrong reference."""
    responses = as_mapping(operation.content.get("responses"))
    found = [response for status, response in responses.items() if str(status).startswith("2")]
    if not found and "default" in responses:
        found = [responses["default"]]
    return [document.resolve_node(response) for response in found]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
