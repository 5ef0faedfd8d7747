"""From a typed function to a tool: description, schemas, and the way from JSON arguments to a call.

pydantic and docstring_parser do the work and are imported when the first signature is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from mcp_bridge.contracts.errors import InvalidArguments
from mcp_bridge.schema.callables import (
    MEND,
    annotation_of,
    called,
    context_parameter,
    documentation,
    is_context,
    prefilled,
    resolve,
    signature_of,
)
from mcp_bridge.schema.generation import generate, output_schema, refusals
from mcp_bridge.schema.text import Bind, from_text

__all__ = ["Bind", "Signature", "context_parameter", "infer", "is_context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a signature says.

    `description` is the docstring without its sections. `output_schema` is empty where the return type says
    nothing, or nothing that pydantic can describe. `bind` makes keyword arguments of JSON arguments (models,
    enums and dates built, defaults left to the function) and raises InvalidArguments with a line such as
    `$.a.b: message` for each problem. `call` is the function as it takes these keywords: itself, or a wrapper
    where it has positional-only parameters or `*args`. `context` is the parameter annotated `CallContext`.
    """

    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    bind: Bind
    call: Callable[..., Any]
    context: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arguments:
    """One pydantic model for all arguments.

    Its fields have names of their own and the parameters' as aliases: a parameter may be called `json` or
    `_x`. `names` has the parameter of each field, `filled` the fields whose default stands in a pydantic
    `Field`, where the function cannot see it. `hidden` parameters must not come in by way of `**kwargs`.
    """

    model: Any
    schema: dict[str, Any]
    names: Mapping[str, str]
    filled: frozenset[str]
    hidden: frozenset[str]


def infer(function: Callable[..., Any], *, skip: Collection[str] = (), text: bool = False) -> Signature:
    """Read a callable's signature and docstring.

    The parameters in `skip`, the context and what a partial has filled in are not in the schema. `*args` is
    an array, `**kwargs` are additional properties. With `text`, `bind` reads arguments that are text (see
    `schema.text`). Raises TypeError naming what cannot be inferred, and what to do.
    """
    signature = signature_of(function)
    context = context_parameter(function)
    hidden = frozenset((*skip, *prefilled(function), *([context] if context is not None else ())))
    shown = [item for item in signature.parameters.values() if item.name not in hidden]
    description, notes = documentation(function)
    arguments = _arguments(function, shown, notes, hidden)
    return Signature(
        description=description,
        input_schema={"type": "object", "properties": {}, **arguments.schema},
        output_schema=_returned(function, signature),
        bind=from_text(_binder(arguments)) if text else _binder(arguments),
        call=_by_name(function, signature),
        context=context,
    )


def _returned(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    try:
        return output_schema(resolve(function, signature.return_annotation))
    except (NameError, AttributeError, SyntaxError, TypeError):  # a return type that only a type checker sees
        return {}


def _arguments(
    function: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    notes: Mapping[str, str],
    hidden: frozenset[str],
) -> _Arguments:
    from pydantic import ConfigDict, create_model
    from pydantic.fields import FieldInfo

    types = {item.name: annotation_of(function, item) for item in parameters}
    named = {f"p{index}": item for index, item in enumerate(parameters) if item.kind is not item.VAR_KEYWORD}
    rest = [types[item.name] for item in parameters if item.kind is item.VAR_KEYWORD]
    fields: dict[str, Any] = {
        name: _field(item, types[item.name], notes.get(item.name)) for name, item in named.items()
    }
    if rest and rest[0] is not Any:
        fields["__pydantic_extra__"] = dict[str, rest[0]]  # type: ignore[valid-type]
    config = ConfigDict(extra="allow" if rest else "forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        model: Any = create_model("Arguments", __config__=config, **fields)
        schema = generate(model.model_json_schema, "validation")
    except refusals() as error:
        raise _blame(function, types, error) from error
    unseen = {name for name, item in named.items() if item.default is item.empty or isinstance(item.default, FieldInfo)}
    optional = {name for name, field in model.model_fields.items() if not field.is_required()}
    return _Arguments(
        model=model,
        schema=schema,
        names={name: item.name for name, item in named.items()},
        filled=frozenset(unseen & optional),
        hidden=hidden if rest else frozenset(),
    )


def _blame(function: Callable[..., Any], types: Mapping[str, Any], error: Exception) -> TypeError:
    """The error that names the first parameter whose type is refused on its own."""
    from pydantic import TypeAdapter

    for name, annotation in types.items():
        try:
            generate(TypeAdapter(annotation).json_schema, "validation")
        except refusals() as own:
            kind = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
            return TypeError(
                f"{called(function)}: parameter '{name}' has a type that JSON Schema cannot describe, {kind}: "
                f"{_reason(own)}. Annotate it with another type, {MEND}"
            )
    return TypeError(f"{called(function)}: {_reason(error)}. Change the signature, {MEND}")


def _reason(error: Exception) -> str:
    """pydantic's words without its advice on configuration and its links."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines[0].endswith(":") else lines[0]


def _field(item: inspect.Parameter, annotation: Any, note: str | None) -> tuple[Any, Any]:
    """The field of one parameter. A description in the annotation or in a `Field` default wins over the docstring's."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    own: dict[str, Any] = {"default": ... if item.default is item.empty else item.default}
    if isinstance(item.default, FieldInfo):
        annotation = Annotated[annotation, item.default]
        factory = item.default.default_factory
        own = {"default_factory": factory} if factory else {"default": item.default.get_default()}
        if item.default.is_required():
            own = {"default": ...}
    words = next(filter(None, map(_words, reversed(getattr(annotation, "__metadata__", ())))), note)
    if item.kind is item.VAR_POSITIONAL:
        annotation, own = list[annotation], {"default_factory": list}
    return annotation, Field(alias=item.name, description=words, **own)


def _words(metadata: Any) -> str | None:
    """A description in `Annotated`: text, `Field(description=…)`, or PEP 727's `Doc`."""
    told = metadata if isinstance(metadata, str) else getattr(metadata, "description", None)
    told = told or getattr(metadata, "documentation", None)
    return told if isinstance(told, str) else None


def _by_name(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """The function, callable with keywords alone."""
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


def _binder(arguments: _Arguments) -> Bind:
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError, to_json

    names, filled, hidden = arguments.names, arguments.filled, arguments.hidden
    read = arguments.model.model_validate_json

    def build(data: Any) -> Any:
        # pydantic's strict JSON mode is what the schema says: text makes dates and enums, but no numbers
        try:
            return read(to_json(data), strict=True)
        except ValidationError as error:
            if not any(item["type"] == "int_type" and _is_whole(item["input"]) for item in error.errors()):
                raise
        return read(to_json(_whole(data)), strict=True)

    def bind(data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            made = build(data)
        except ValidationError as error:
            lines = [_line(item, data) for item in error.errors(include_url=False)]
            raise InvalidArguments(list(dict.fromkeys(lines))) from error
        except PydanticSerializationError as error:
            raise InvalidArguments([f"$: {error}"]) from error
        extra = made.model_extra or {}
        if not hidden.isdisjoint(extra):
            raise InvalidArguments([f"$.{name}: not an argument of this tool" for name in extra if name in hidden])
        given = {name: getattr(made, field) for field, name in names.items() if name in data or field in filled}
        return {**extra, **given}

    return bind


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _whole(value: Any) -> Any:
    """`value` with 1.0 as 1: one number in JSON Schema (2020-12, section 6.1.1), two in Python."""
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return int(value) if _is_whole(value) else value


def _line(item: Any, data: Any) -> str:
    """One problem and its place. pydantic's own steps in between, such as a union's branches, are left out."""
    place, here = "$", data
    for part in item["loc"]:
        if isinstance(here, Mapping) and (part in here or item["type"] == "missing"):
            place, here = f"{place}.{part}", here.get(part)
        elif isinstance(here, list | tuple) and isinstance(part, int) and part < len(here):
            place, here = f"{place}[{part}]", here[part]
    return f"{place}: {item['msg']}"
