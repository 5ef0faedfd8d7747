"""Infers the parts of a tool from a typed function: description, schemas, and the conversion of JSON to arguments.

Importing pydantic takes 80 ms. If all types of the arguments are plain, `plain_types` describes them, and the first
call builds the pydantic model for parsing arguments. Only other types need pydantic at the start.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

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
    """A description of a function.

    Attributes:
        description: The docstring without its sections.
        input_schema: The schema of the arguments.
        output_schema: The schema of results. Empty if the return type is not specific, or unsupported by pydantic.
        bind: Converts JSON arguments to keyword arguments. It builds models, enums and dates, and omits missing
            arguments with defaults. Raises InvalidArguments with a line such as `$.a.b: message` for each problem.
        call: The function, or a wrapper that accepts keywords for positional-only parameters and `*args`.
        context: The name of the parameter annotated `CallContext`.
    """

    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    bind: Bind
    call: Callable[..., Any]
    context: str | None


def infer_signature(function: Callable[..., Any], *, skip: Collection[str] = (), text: bool = False) -> Signature:
    """Read a callable's signature and docstring.

    `*args` becomes an array, and `**kwargs` become additional properties. The schema has neither the context nor
    arguments that a partial has bound. Raises TypeError for a signature without a schema.

    Args:
        function: Any callable.
        skip: Parameters that are not in the schema.
        text: Whether arguments arrive as text (see `bind_from_text`).
    """
    signature = read_signature(function)
    context = find_context_parameter(function)
    hidden_names = {*skip, *list_bound_keywords(function)}
    if context is not None:
        hidden_names.add(context)
    parameters = [item for item in signature.parameters.values() if item.name not in hidden_names]
    description, notes = parse_docstring(function)
    types = {item.name: read_annotation(function, item) for item in parameters}
    build_binder = functools.cache(partial(_build_binder, function, parameters, types, notes, hidden_names))
    schema = describe_arguments(parameters, types, notes)
    if schema is None:
        schema, bind = build_binder()
    else:

        def bind(data: Mapping[str, Any]) -> dict[str, Any]:
            # The first call builds the model.
            _, bind_arguments = build_binder()
            return bind_arguments(data)

    return Signature(
        description=description,
        input_schema={"type": "object", "properties": {}, **schema},
        output_schema=_infer_output(function, signature),
        bind=bind_from_text(bind) if text else bind,
        call=_accept_keywords(function, signature),
        context=context,
    )


def _infer_output(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """Return the schema of the results, or an empty one if the return annotation cannot be resolved."""
    try:
        annotation = resolve_annotation(function, signature.return_annotation)
        schema = describe_result(annotation)
        if schema is None:
            from mcp_bridge._json_schema.generation import generate_output_schema

            schema = generate_output_schema(annotation)
        return schema
    except (NameError, AttributeError, SyntaxError, TypeError):
        # The annotation cannot be resolved, for example because its type is imported only for type checkers.
        return {}


def _build_binder(
    function: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    types: Mapping[str, Any],
    notes: Mapping[str, str],
    hidden_names: Set[str],
) -> tuple[dict[str, Any], Bind]:
    """Return the schema of arguments, and a function that parses them with one pydantic model for all of them.

    The fields of the model have generated names, with those of the parameters as aliases, because a parameter may be
    called `json` or `_x`.
    """
    from pydantic import ConfigDict, create_model
    from pydantic.fields import FieldInfo

    from mcp_bridge._json_schema.generation import UNSUPPORTED_TYPE, generate_schema

    names: dict[str, str] = {}
    fields: dict[str, Any] = {}
    fields_without_plain_default = set[str]()
    extra: Literal["allow", "forbid"] = "forbid"
    for index, item in enumerate(parameters):
        annotation = types[item.name]
        if item.kind is item.VAR_KEYWORD:
            extra = "allow"
            if annotation is not Any:
                fields["__pydantic_extra__"] = dict[str, annotation]  # type: ignore[valid-type]
            continue
        field_name = f"p{index}"
        names[field_name] = item.name
        fields[field_name] = _build_field(item, annotation, notes.get(item.name))
        if item.default is item.empty or isinstance(item.default, FieldInfo):
            fields_without_plain_default.add(field_name)
    config = ConfigDict(extra=extra, arbitrary_types_allowed=False, protected_namespaces=())
    try:
        model: Any = create_model("Arguments", __config__=config, **fields)
        schema = generate_schema(model.model_json_schema, "validation")
    except UNSUPPORTED_TYPE as error:
        raise _describe_unsupported_type(function, types, error) from error
    # If such a field is optional, its default is in a pydantic `Field`. Python does not apply this default to a call of
    # the function, so `bind` has to pass it.
    pydantic_defaults = {name for name in fields_without_plain_default if not model.model_fields[name].is_required()}
    return schema, _make_binder(model, names, pydantic_defaults, hidden_names)


def _describe_unsupported_type(function: Callable[..., Any], types: Mapping[str, Any], error: Exception) -> TypeError:
    """Return an error with the parameter of an unsupported type."""
    from pydantic import TypeAdapter

    from mcp_bridge._json_schema.generation import UNSUPPORTED_TYPE, generate_schema

    for name, annotation in types.items():
        try:
            generate_schema(TypeAdapter(annotation).json_schema, "validation")
        except UNSUPPORTED_TYPE as type_error:
            type_name = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
            return TypeError(
                f"{get_callable_name(function)}: parameter '{name}' has a type that JSON Schema cannot describe, "
                f"{type_name}: {_format_reason(type_error)}. Annotate it with another type, {SCHEMA_HINT}"
            )
    return TypeError(f"{get_callable_name(function)}: {_format_reason(error)}. Change the signature, {SCHEMA_HINT}")


def _format_reason(error: Exception) -> str:
    """Return the message of pydantic without its advice on configuration and its links."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()]
    # A SchemaError begins with the path, such as `Error building "model" validator:`, and ends with the reason.
    if lines[0].endswith(":"):
        return lines[-1]
    return lines[0].partition(". Set `arbitrary_types_allowed")[0]


def _build_field(item: inspect.Parameter, annotation: Any, note: str | None) -> tuple[Any, Any]:
    """Return the field of a parameter for `create_model`.

    A description in the annotation or in a `Field` default takes precedence over the `note` from the docstring.
    """
    from pydantic import Field
    from pydantic.fields import FieldInfo

    options: dict[str, Any] = {}
    if isinstance(item.default, FieldInfo):
        # pydantic reads the default and the constraints of this `Field` from the annotation.
        annotation = Annotated[annotation, item.default]
    elif item.default is not item.empty:
        options = {"default": item.default}
    description = note
    for metadata in getattr(annotation, "__metadata__", ()):
        description = _read_description(metadata) or description
    if item.kind is item.VAR_POSITIONAL:
        annotation = list[annotation]
        options = {"default_factory": list}
    return annotation, Field(alias=item.name, description=description, **options)


def _read_description(metadata: Any) -> str | None:
    """Return the description in metadata of `Annotated`: text, `Field(description=…)` or PEP 727's `Doc`."""
    if isinstance(metadata, str):
        return metadata
    text = getattr(metadata, "description", None) or getattr(metadata, "documentation", None)
    return text if isinstance(text, str) else None


def _accept_keywords(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """Return the function, or a wrapper that accepts keywords for positional-only parameters and `*args`."""
    parameters = signature.parameters.values()
    if not any(item.kind in (item.POSITIONAL_ONLY, item.VAR_POSITIONAL) for item in parameters):
        return function
    names = [item.name for item in parameters if item.kind is not item.VAR_KEYWORD]
    keywords_name = next((item.name for item in parameters if item.kind is item.VAR_KEYWORD), None)

    def call(**keywords: Any) -> Any:
        arguments = {name: keywords.pop(name) for name in names if name in keywords}
        if keywords_name is not None:
            arguments[keywords_name] = keywords
        bound = inspect.BoundArguments(signature, arguments)
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)

    return call


def _make_binder(model: Any, names: Mapping[str, str], pydantic_defaults: Set[str], hidden_names: Set[str]) -> Bind:
    """Make a function that parses arguments.

    Args:
        model: The pydantic model.
        names: The parameters by the names of its fields.
        pydantic_defaults: Fields with a default that only pydantic knows.
        hidden_names: Parameters that must not be passed through `**kwargs`.
    """
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError, to_json

    parse = model.model_validate_json

    def parse_arguments(data: Any) -> Any:
        # Only the strict JSON mode of pydantic accepts exactly what the schema does: text for dates and enums, but not
        # for numbers.
        try:
            return parse(to_json(data), strict=True)
        except ValidationError as error:
            if not any(item["type"] == "int_type" and _is_whole(item["input"]) for item in error.errors()):
                raise
        # It also rejects 1.0 for an integer, which JSON Schema allows.
        return parse(to_json(_convert_whole_floats(data)), strict=True)

    def bind(data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            instance = parse_arguments(data)
        except ValidationError as error:
            lines = [_format_line(item, data) for item in error.errors(include_url=False)]
            raise InvalidArguments(list(dict.fromkeys(lines))) from error
        except PydanticSerializationError as error:
            raise InvalidArguments([f"$: {error}"]) from error
        extra = instance.model_extra or {}
        if not hidden_names.isdisjoint(extra):
            names_in_both = [name for name in extra if name in hidden_names]
            raise InvalidArguments([f"$.{name}: not an argument of this tool" for name in names_in_both])
        arguments = dict(extra)
        for field, name in names.items():
            if name in data or field in pydantic_defaults:
                arguments[name] = getattr(instance, field)
        return arguments

    return bind


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _convert_whole_floats(value: Any) -> Any:
    """Turn 1.0 into 1. They are the same number in JSON Schema (2020-12, validation 6.1.1), but not in pydantic."""
    if isinstance(value, Mapping):
        return {key: _convert_whole_floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_convert_whole_floats(item) for item in value]
    return int(value) if _is_whole(value) else value


def _format_line(error: Any, data: Any) -> str:
    """Return a problem of pydantic with the path in the data.

    pydantic's own path has further steps, such as the branches of a union.
    """
    path, node = "$", data
    for step in error["loc"]:
        if isinstance(node, Mapping) and (step in node or error["type"] == "missing"):
            path, node = f"{path}.{step}", node.get(step)
        elif isinstance(node, list | tuple) and isinstance(step, int) and step < len(node):
            path, node = f"{path}[{step}]", node[step]
    return f"{path}: {error['msg']}"
