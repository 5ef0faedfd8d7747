"""From a typed function to a tool: description, schemas, and the way from JSON arguments to keyword arguments.

pydantic and docstring_parser do the work and are imported when the first signature is read.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_bridge.contracts.content import Content
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import InvalidArguments
from mcp_bridge.contracts.results import Result
from mcp_bridge.contracts.tool import ToolResult

_CONTEXT_NAME = CallContext.__name__
_WORDLESS = (str, bytes, bytearray, None, type(None), Any, object, inspect.Parameter.empty, ToolResult, Result)
_MEND = "Annotate it with a type that JSON Schema can describe, or give input_schema="
Bind = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a signature says.

    `bind` makes keyword arguments of JSON arguments (models, enums and dates built, defaults left to the
    function) and raises InvalidArguments with a line for each problem. `context` is the parameter annotated
    `CallContext`. `output_schema` is empty where the return type says nothing, or nothing that pydantic knows.
    """

    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    bind: Bind
    context: str | None


def infer(function: Callable[..., Any]) -> Signature:
    """Read a function's signature and docstring. Raises TypeError naming what cannot be inferred, and what to do."""
    description, notes = _docstring(function)
    hints = _hints(function)
    parameters = [_checked(function, item) for item in inspect.signature(function).parameters.values()]
    context = context_parameter(function)
    model, names = _model(function, [item for item in parameters if item.name != context], hints, notes)
    return Signature(
        description=description,
        input_schema=_input_schema(model, parameters, hints),
        output_schema=_output_schema(hints.get("return", inspect.Parameter.empty)),
        bind=_binder(model, names),
        context=context,
    )


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the parameter annotated `CallContext` (alone, optional or as text), or None."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return None
    return next((name for name, item in parameters.items() if is_context(item.annotation)), None)


def is_context(annotation: Any) -> bool:
    """Whether an annotation means the call context."""
    if isinstance(annotation, str):
        return any(word.strip(" '\"").rsplit(".", 1)[-1] == _CONTEXT_NAME for word in _alternatives(annotation))
    if isinstance(annotation, type):
        return issubclass(annotation, CallContext)
    return any(is_context(part) for part in typing.get_args(annotation) if part is not type(None))


def _alternatives(annotation: str) -> list[str]:
    inner = annotation.strip()
    if inner.endswith("]") and "Optional[" in inner:
        inner = inner[inner.index("[") + 1 : -1]
    return inner.split("|")


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description without its sections, and each parameter's own."""
    from docstring_parser import parse

    text = inspect.getdoc(_inner(function)) or ""
    parsed = parse(text)
    words = [part.strip() for part in (parsed.short_description, parsed.long_description) if part]
    return "\n\n".join(words), {item.arg_name: item.description for item in parsed.params if item.description}


def _inner(function: Callable[..., Any]) -> Any:
    """The function under partials, and the `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = _inner(function)
    if isinstance(target, type):
        target = vars(target).get("__init__", target)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{_called(function)}: the annotation '{error.name}' cannot be resolved. "
            "Import it at the top of the module, or give input_schema="
        ) from error
    except TypeError:  # builtins without annotations
        return {}


def _called(function: Callable[..., Any]) -> str:
    return str(getattr(_inner(function), "__qualname__", function))


def _checked(function: Callable[..., Any], item: inspect.Parameter) -> inspect.Parameter:
    """Arguments come by name, so every parameter must take a name."""
    if item.kind in (item.VAR_POSITIONAL, item.POSITIONAL_ONLY):
        sign = "*" if item.kind is item.VAR_POSITIONAL else ""
        raise TypeError(
            f"{_called(function)}: parameter '{sign}{item.name}' cannot be given by name. "
            "Make it an ordinary parameter, or give input_schema="
        )
    return item


def _model(
    function: Callable[..., Any],
    parameters: list[inspect.Parameter],
    hints: Mapping[str, Any],
    notes: Mapping[str, str],
) -> tuple[Any, dict[str, str]]:
    """One pydantic model for all arguments, and its field names by parameter.

    Fields have names of their own and the parameters' as aliases: a parameter may be called `json` or `_x`.
    """
    from pydantic import ConfigDict, create_model
    from pydantic.errors import PydanticUserError

    names = {f"p{index}": item.name for index, item in enumerate(parameters) if item.kind is not item.VAR_KEYWORD}
    by_name = {item.name: item for item in parameters}
    fields: dict[str, Any] = {
        field: _field(by_name[name], hints.get(name, Any), notes.get(name)) for field, name in names.items()
    }
    open_ended = any(item.kind is item.VAR_KEYWORD for item in parameters)
    config = ConfigDict(
        extra="allow" if open_ended else "forbid", arbitrary_types_allowed=False, protected_namespaces=()
    )
    try:
        model = create_model("Arguments", __config__=config, **fields)
        model.model_json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        raise TypeError(f"{_called(function)}: {str(error).splitlines()[0]}. {_MEND}") from error
    return model, names


def _field(item: inspect.Parameter, annotation: Any, note: str | None) -> tuple[Any, Any]:
    """The field of one parameter. A description in the annotation wins over the docstring's."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    described = [part for part in getattr(annotation, "__metadata__", ()) if isinstance(part, FieldInfo | str)]
    words = next((part if isinstance(part, str) else part.description for part in described), None) or note
    default = ... if item.default is item.empty else item.default
    return annotation, Field(default, alias=item.name, description=words, validate_default=False)


def _input_schema(model: Any, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> dict[str, Any]:
    schema = _schema(model.model_json_schema, "validation")
    schema.setdefault("properties", {})
    for item in parameters:
        if item.kind is item.VAR_KEYWORD:
            schema["additionalProperties"] = _output_schema(hints.get(item.name, Any), "validation") or True
    for prop in schema["properties"].values():
        if prop.get("default", ...) is None and not _allows_null(prop):
            del prop["default"]
    return schema


def _allows_null(prop: Mapping[str, Any]) -> bool:
    return "null" in str(prop.get("anyOf", "")) or prop.get("type") == "null"


def _output_schema(
    annotation: Any, mode: typing.Literal["validation", "serialization"] = "serialization"
) -> dict[str, Any]:
    """The schema of a return type; empty where it says nothing, or is beyond pydantic."""
    if annotation in _WORDLESS or _is_content(annotation):
        return {}
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    if typing.get_origin(annotation) in _AWAITABLES:
        return _output_schema(typing.get_args(annotation)[-1], mode)
    try:
        return _schema(TypeAdapter(annotation).json_schema, mode)
    except (PydanticUserError, TypeError, NameError):
        return {}


_AWAITABLES = (
    types.CoroutineType,
    typing.get_origin(typing.Coroutine[Any, Any, Any]),
    typing.get_origin(typing.Awaitable[Any]),
)


def _is_content(annotation: Any) -> bool:
    """Content blocks, ToolResults and bytes, alone, in a union or in a list: nothing that a schema describes."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return issubclass(annotation, Content | ToolResult | Result | bytes)
    return any(_is_content(part) for part in typing.get_args(annotation))


def _schema(make: Callable[..., dict[str, Any]], mode: str) -> dict[str, Any]:
    """A JSON Schema without the titles that pydantic makes up."""
    schema = make(mode=mode, schema_generator=_generator())
    schema.pop("title", None)
    for name, part in schema.get("$defs", {}).items():
        if part.get("title") == name:
            del part["title"]
    return schema


@functools.cache
def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Fields without titles of their own have none."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


def _binder(model: Any, names: Mapping[str, str]) -> Bind:
    from pydantic import ValidationError

    validate = model.model_validate

    def bind(data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            made = validate(data)
        except ValidationError as error:
            raise InvalidArguments([_line(item) for item in error.errors(include_url=False)]) from error
        given = {names[field]: getattr(made, field) for field in made.model_fields_set if field in names}
        return {**(made.model_extra or {}), **given}

    return bind


def _line(item: Any) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
    return f"${place}: {item['msg']}"
