"""Infers a tool from a typed function: description, schemas, and how JSON arguments become a call.

pydantic and docstring_parser are imported when a signature first needs them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._json_schema.callables import (
    SCHEMA_HINT,
    find_context_parameter,
    get_callable_name,
    list_bound_keywords,
    parse_docstring,
    read_annotation,
    read_signature,
    resolve_annotation,
)
from mcp_bridge._json_schema.plain_types import describe_arguments, describe_result
from mcp_bridge._json_schema.text_arguments import Bind, bind_from_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What is inferred from a function.

    Attributes:
        description: The docstring without its sections.
        input_schema: The schema of the arguments.
        output_schema: Empty if the return type says nothing, or pydantic does not support it.
        bind: Converts JSON arguments to keyword arguments (builds models, enums and dates, leaves defaults to the
            function). Raises InvalidArguments with a line such as `$.a.b: message` for each problem.
        call: The function, or a wrapper that accepts keywords for positional-only parameters and `*args`.
        context: The name of the parameter annotated `CallContext`.
    """

    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    bind: Bind
    call: Callable[..., Any]
    context: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArgumentsModel:
    """One pydantic model for all arguments.

    Its fields have generated names, with those of the parameters as aliases, because a parameter may be called `json`
    or `_x`. `names` maps fields to parameters. `filled` are the fields whose default is in a pydantic `Field`, where
    the function cannot see it. `hidden` parameters must not be passed through `**kwargs`.
    """

    model: Any
    schema: dict[str, Any]
    names: Mapping[str, str]
    filled: frozenset[str]
    hidden: frozenset[str]


def infer_signature(function: Callable[..., Any], *, skip: Collection[str] = (), text: bool = False) -> Signature:
    """Read a callable's signature and docstring.

    `*args` becomes an array, `**kwargs` become additional properties. The context and what a partial has bound are not
    in the schema. Raises TypeError for what cannot be inferred.

    Args:
        function: Any callable.
        skip: Parameters that are not in the schema.
        text: Whether arguments arrive as text (see `bind_from_text`).
    """
    signature = read_signature(function)
    context = find_context_parameter(function)
    hidden = frozenset((*skip, *list_bound_keywords(function), *([context] if context is not None else ())))
    visible = [item for item in signature.parameters.values() if item.name not in hidden]
    description, notes = parse_docstring(function)
    types = {item.name: read_annotation(function, item) for item in visible}
    schema = describe_arguments(visible, types, notes)
    if schema is not None:
        bind = _make_late_binder(lambda: _build_model(function, visible, types, notes, hidden))
    else:
        arguments = _build_model(function, visible, types, notes, hidden)
        schema, bind = arguments.schema, _make_binder(arguments)
    return Signature(
        description=description,
        input_schema={"type": "object", "properties": {}, **schema},
        output_schema=_infer_output(function, signature),
        bind=bind_from_text(bind) if text else bind,
        call=_accept_keywords(function, signature),
        context=context,
    )


def _infer_output(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    try:
        annotation = resolve_annotation(function, signature.return_annotation)
        if (schema := describe_result(annotation)) is not None:
            return schema
        from mcp_bridge._json_schema.generation import generate_output_schema

        return generate_output_schema(annotation)
    except (NameError, AttributeError, SyntaxError, TypeError):  # a type that is imported only for type checkers
        return {}


def _build_model(
    function: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    types: Mapping[str, Any],
    notes: Mapping[str, str],
    hidden: frozenset[str],
) -> _ArgumentsModel:
    from pydantic import ConfigDict, create_model
    from pydantic.fields import FieldInfo

    from mcp_bridge._json_schema.generation import UNSUPPORTED_TYPE, generate_schema

    named = {f"p{index}": item for index, item in enumerate(parameters) if item.kind is not item.VAR_KEYWORD}
    rest = [types[item.name] for item in parameters if item.kind is item.VAR_KEYWORD]
    fields: dict[str, Any] = {
        name: _build_field(item, types[item.name], notes.get(item.name)) for name, item in named.items()
    }
    if rest and rest[0] is not Any:
        fields["__pydantic_extra__"] = dict[str, rest[0]]  # type: ignore[valid-type]
    config = ConfigDict(extra="allow" if rest else "forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        model: Any = create_model("Arguments", __config__=config, **fields)
        schema = generate_schema(model.model_json_schema, "validation")
    except UNSUPPORTED_TYPE as error:
        raise _find_culprit(function, types, error) from error
    unseen = {name for name, item in named.items() if item.default is item.empty or isinstance(item.default, FieldInfo)}
    optional = {name for name, field in model.model_fields.items() if not field.is_required()}
    return _ArgumentsModel(
        model=model,
        schema=schema,
        names={name: item.name for name, item in named.items()},
        filled=frozenset(unseen & optional),
        hidden=hidden if rest else frozenset(),
    )


def _find_culprit(function: Callable[..., Any], types: Mapping[str, Any], error: Exception) -> TypeError:
    """An error that names the first parameter whose type is not supported on its own."""
    from pydantic import TypeAdapter

    from mcp_bridge._json_schema.generation import UNSUPPORTED_TYPE, generate_schema

    for name, annotation in types.items():
        try:
            generate_schema(TypeAdapter(annotation).json_schema, "validation")
        except UNSUPPORTED_TYPE as own:
            kind = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
            return TypeError(
                f"{get_callable_name(function)}: parameter '{name}' has a type that JSON Schema cannot describe, "
                f"{kind}: {_format_reason(own)}. Annotate it with another type, {SCHEMA_HINT}"
            )
    return TypeError(f"{get_callable_name(function)}: {_format_reason(error)}. Change the signature, {SCHEMA_HINT}")


def _format_reason(error: Exception) -> str:
    """pydantic's message without its advice on configuration and its links."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines[0].endswith(":") else lines[0].partition(". Set `arbitrary_types_allowed")[0]


def _build_field(item: inspect.Parameter, annotation: Any, note: str | None) -> tuple[Any, Any]:
    """A description in the annotation or in a `Field` default takes precedence over the docstring's."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    options: dict[str, Any] = {"default": ... if item.default is item.empty else item.default}
    if isinstance(item.default, FieldInfo):
        annotation = Annotated[annotation, item.default]
        factory = item.default.default_factory
        options = {"default_factory": factory} if factory else {"default": item.default.get_default()}
        if item.default.is_required():
            options = {"default": ...}
    description = next(filter(None, map(_read_description, reversed(getattr(annotation, "__metadata__", ())))), note)
    if item.kind is item.VAR_POSITIONAL:
        annotation, options = list[annotation], {"default_factory": list}
    return annotation, Field(alias=item.name, description=description, **options)


def _read_description(metadata: Any) -> str | None:
    """A description in `Annotated`: text, `Field(description=…)`, or PEP 727's `Doc`."""
    text = metadata if isinstance(metadata, str) else getattr(metadata, "description", None)
    text = text or getattr(metadata, "documentation", None)
    return text if isinstance(text, str) else None


def _accept_keywords(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    parameters = signature.parameters.values()
    if not any(item.kind in (item.POSITIONAL_ONLY, item.VAR_POSITIONAL) for item in parameters):
        return function
    named = [item.name for item in parameters if item.kind is not item.VAR_KEYWORD]
    rest = [item.name for item in parameters if item.kind is item.VAR_KEYWORD]

    def call(**given: Any) -> Any:
        arguments = {name: given.pop(name) for name in named if name in given}
        bound = inspect.BoundArguments(signature, {**arguments, **dict.fromkeys(rest, given)})
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)

    return call


def _make_late_binder(build: Callable[[], _ArgumentsModel]) -> Bind:
    """Make a binder whose model is built, and pydantic imported, when it first binds."""
    make = functools.cache(lambda: _make_binder(build()))

    def bind(data: Mapping[str, Any]) -> dict[str, Any]:
        return make()(data)

    return bind


def _make_binder(arguments: _ArgumentsModel) -> Bind:
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError, to_json

    names, filled, hidden = arguments.names, arguments.filled, arguments.hidden
    parse = arguments.model.model_validate_json

    def build_arguments(data: Any) -> Any:
        # pydantic's strict JSON mode does what the schema says: text becomes dates and enums, but not numbers
        try:
            return parse(to_json(data), strict=True)
        except ValidationError as error:
            if not any(item["type"] == "int_type" and _is_whole(item["input"]) for item in error.errors()):
                raise
        return parse(to_json(_convert_whole_floats(data)), strict=True)

    def bind(data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            model = build_arguments(data)
        except ValidationError as error:
            lines = [_format_line(item, data) for item in error.errors(include_url=False)]
            raise InvalidArguments(list(dict.fromkeys(lines))) from error
        except PydanticSerializationError as error:
            raise InvalidArguments([f"$: {error}"]) from error
        extra = model.model_extra or {}
        if not hidden.isdisjoint(extra):
            raise InvalidArguments([f"$.{name}: not an argument of this tool" for name in extra if name in hidden])
        given = {name: getattr(model, field) for field, name in names.items() if name in data or field in filled}
        return {**extra, **given}

    return bind


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _convert_whole_floats(value: Any) -> Any:
    """Turns 1.0 into 1: they are the same number in JSON Schema (2020-12, section 6.1.1), but not in pydantic."""
    if isinstance(value, Mapping):
        return {key: _convert_whole_floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_convert_whole_floats(item) for item in value]
    return int(value) if _is_whole(value) else value


def _format_line(item: Any, data: Any) -> str:
    """A problem and its path, without the steps that pydantic adds, such as the branches of a union."""
    path, here = "$", data
    for part in item["loc"]:
        if isinstance(here, Mapping) and (part in here or item["type"] == "missing"):
            path, here = f"{path}.{part}", here.get(part)
        elif isinstance(here, list | tuple) and isinstance(part, int) and part < len(here):
            path, here = f"{path}[{part}]", here[part]
    return f"{path}: {item['msg']}"
