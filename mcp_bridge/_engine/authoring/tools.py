"""@tool turns a function into a tool, with a schema that its author gives or that its signature implies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, cast, get_args, get_origin, overload

from mcp_bridge._contracts.hints import ToolHints, add_hints
from mcp_bridge._contracts.tool import Tags, ToolEntry, list_tags
from mcp_bridge._engine.authoring.functions import (
    Decorator,
    F,
    attach_entry,
    get_function_name,
    infer_visible_signature,
    make_data_handler,
    make_typed_handler,
    read_declared_tasks,
)
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._json_schema.callables import get_callable_name, read_annotation, read_signature
from mcp_bridge._json_schema.headers import check_headers

if TYPE_CHECKING:
    from mcp_bridge._contracts.tasks import TaskMode, ToolTasks
    from mcp_bridge._json_schema.inference import Signature
    from mcp_bridge._json_schema.text_arguments import Bind

_SCALARS = str | int | float | bool
Convert = Callable[[Any], Any]


@overload
def tool(
    function: F,
    /,
    *,
    name: str = "",
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    tags: Tags | None = None,
    registry: ToolRegistry | None = None,
    title: str | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    tasks: ToolTasks | TaskMode | None = None,
) -> F: ...
@overload
def tool(
    name: str = "",
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    tags: Tags | None = None,
    registry: ToolRegistry | None = None,
    *,
    title: str | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    tasks: ToolTasks | TaskMode | None = None,
) -> Decorator: ...
def tool(
    function: str | Callable[..., Any] = "",
    /,
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    tags: Tags | None = None,
    registry: ToolRegistry | None = None,
    *,
    name: str = "",
    title: str | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    tasks: ToolTasks | TaskMode | None = None,
) -> Any:
    """Turn a function into a tool, and register it in `registry` if given.

    It is a decorator, with or without arguments, whose first one may be the name; `tool(function, name="plus")` makes a
    tool of a function that is defined elsewhere.

    Name, description, schemas and parameter descriptions come from the signature and the docstring, and the function is
    called with keywords, unless `input_schema` is given; then, as always with `mcp_bridge.tool_use.tool`, the function
    receives the input data as its one argument. In both forms, a parameter annotated `CallContext` receives the context
    of the call.

    `read_only`, `destructive`, `idempotent` and `open_world` are hints for clients, and become MCP's `annotations`.
    `tasks` says how its calls become tasks, where these are enabled: `optional`, `required`, `forbidden` or ToolTasks.

    The decorated function can be called as before, and has the attribute `tool_entry`. Raises ValueError if the name
    already exists in `registry` or `tasks` is invalid, and TypeError if no schema can be inferred, a `Header` is
    invalid or `tags` is text.
    """

    if isinstance(function, str) and function and name:
        raise TypeError(f"a tool has one name, and was given two, {function!r} and {name!r}")
    hints = ToolHints(read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=open_world)
    declared = read_declared_tasks(tasks)
    if isinstance(tags, str):
        raise TypeError(f"tags are text, {tags!r}. Pass a list of texts")

    def decorate(function: Callable[..., Any], known_as: str) -> Callable[..., Any]:
        entry = _build_tool_entry(function, known_as, description, input_schema, output_schema)
        entry.tags, entry.title = list_tags(tags), title
        entry.annotations, entry.icons, entry.meta = add_hints(annotations, hints), list(icons or ()), dict(meta or {})
        entry.tasks = declared
        if registry is not None:
            registry.register(entry)
        return attach_entry(function, "tool_entry", entry)

    if callable(function):
        return decorate(function, name)
    return functools.partial(decorate, known_as=function or name)


def _build_tool_entry(
    function: Callable[..., Any],
    name: str,
    description: str,
    input_schema: dict[str, Any] | None,
    output_schema: dict[str, Any] | None,
) -> ToolEntry:
    known_as = name or get_function_name(function)
    if input_schema is not None:
        text = description or function.__doc__ or ""
        return ToolEntry(known_as, text, make_data_handler(function), input_schema, output_schema or {})
    signature = infer_visible_signature(function)
    for problem in check_headers(signature.input_schema):
        raise TypeError(f"{get_callable_name(function)}: {problem}")
    return ToolEntry(
        known_as,
        description or signature.description,
        make_typed_handler(function, signature, _bind_plain(function, signature)),
        signature.input_schema,
        signature.output_schema if output_schema is None else output_schema,
    )


def _bind_plain(function: Callable[..., Any], signature: Signature) -> Bind | None:
    """Return a function that binds arguments without validating them again, or None unless all have plain JSON types.

    The pipeline has validated the arguments by their schema, which for these types says all that there is to say.
    Arguments of other types are built by pydantic, which validates them a second time.
    """
    schema = signature.input_schema
    if schema.get("additionalProperties") is not False:
        return None
    converters: dict[str, Convert] = {}
    for item in read_signature(function).parameters.values():
        if item.name not in schema["properties"]:
            continue
        convert = _find_converter(read_annotation(function, item))
        has_plain_default = item.default is item.empty or isinstance(item.default, _SCALARS | None)
        if convert is None or not has_plain_default or item.kind is item.VAR_POSITIONAL:
            return None
        if convert is not _keep:
            converters[item.name] = convert

    def bind(data: Mapping[str, Any]) -> dict[str, Any]:
        bound = dict(data)
        for name, convert in converters.items():
            if bound.get(name) is not None:
                bound[name] = convert(bound[name])
        return bound

    return bind


def _find_converter(annotation: Any) -> Convert | None:
    """Return what makes a value of a JSON type, such as `list[int] | None`, from valid JSON; None for other types."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        types = [part for part in parts if part is not NoneType]
        convert = _find_converter(types[0]) if len(types) == 1 else None
        return _convert_optional(convert) if convert is not None and len(types) < len(parts) else convert
    if annotation in (str, bool):
        return _keep
    if annotation in (int, float):  # JSON has one type of number: 1.0 may be an int, 1 a float
        return cast("Convert", annotation)
    if origin is list and (convert := _find_converter(parts[0])) is not None:
        return _convert_items(convert)
    if origin is dict and parts[0] is str and (convert := _find_converter(parts[1])) is not None:
        return _convert_values(convert)
    return None


def _keep(value: Any) -> Any:
    return value


def _convert_optional(convert: Convert) -> Convert:
    return convert if convert is _keep else lambda value: None if value is None else convert(value)


def _convert_items(convert: Convert) -> Convert:
    return list if convert is _keep else lambda items: [convert(item) for item in items]


def _convert_values(convert: Convert) -> Convert:
    return dict if convert is _keep else lambda items: {key: convert(value) for key, value in items.items()}
