"""Builds the handlers and wrappers of decorated functions, for the decorators of tools, resources and prompts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, cast, get_args, get_origin

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._contracts.prompt import Completions
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._json_schema.callables import find_context_parameter, get_callable_name, read_annotation, read_signature
from mcp_bridge._runtime.signatures import get_signature

if TYPE_CHECKING:
    from mcp_bridge._contracts.tasks import TaskMode, ToolTasks
    from mcp_bridge._json_schema.inference import Signature
    from mcp_bridge._json_schema.text_arguments import Bind

_SCALARS = str | int | float | bool
Convert = Callable[[Any], Any]
"""Converts a valid JSON value to the type of an annotation."""


def get_function_name(function: Callable[..., Any]) -> str:
    """Return the function's name. For a callable object without a name, return that of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def read_declared_tasks(tasks: ToolTasks | TaskMode | None) -> ToolTasks | None:
    """Return the options of a decorator for tasks. Raises ValueError for invalid ones."""
    if tasks is None:
        return None
    # Tools without this option do not need the import.
    from mcp_bridge._contracts.tasks import read_tool_tasks

    return read_tool_tasks(tasks)


def make_typed_handler(
    function: Callable[..., Any], signature: Signature, bind: Bind | None = None
) -> Callable[..., Any]:
    """Make a handler from a function with typed parameters. It takes one mapping, and is async if the function is.

    The handler takes a context only if the function does: the server derives from its signature whether a call may ask
    the user something. `bind` turns the mapping into keyword arguments, by default `signature.bind`.
    """

    from mcp_bridge._engine.authoring.dependencies import make_injecting_handler, plan_dependencies

    call, context = signature.call, signature.context
    bind = bind or signature.bind
    if (plan := plan_dependencies(function)) is not None:
        return make_injecting_handler(
            function, plan, lambda data, values: call(**bind({} if data is None else data), **values), context
        )
    if is_async(function):
        if context is None:

            async def run_async(data: Any) -> Any:
                return await call(**bind({} if data is None else data))

            return run_async

        async def run_async_with_context(data: Any, ctx: RunningCall | None = None) -> Any:
            return await call(**bind({} if data is None else data), **{context: ctx})

        return run_async_with_context
    if context is None:
        return lambda data: call(**bind({} if data is None else data))

    def run_with_context(data: Any, ctx: RunningCall | None = None) -> Any:
        return call(**bind({} if data is None else data), **{context: ctx})

    return run_with_context


def bind_plain(function: Callable[..., Any], signature: Signature) -> Bind | None:
    """Return a faster replacement for `signature.bind`, or None if a parameter has a type other than those of JSON.

    The pipeline has already validated the arguments by their schema, and for JSON types the schema covers every rule.
    `signature.bind` lets pydantic build arguments of other types, and so validates them a second time.
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
        if convert is not _return_unchanged:
            converters[item.name] = convert

    def bind(data: Mapping[str, Any]) -> dict[str, Any]:
        arguments = dict(data)
        for name, convert in converters.items():
            if arguments.get(name) is not None:
                arguments[name] = convert(arguments[name])
        return arguments

    return bind


def _find_converter(annotation: Any) -> Convert | None:
    """Return the conversion to a JSON type, such as `list[int] | None`, or None for an annotation of another type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        types = [argument for argument in arguments if argument is not NoneType]
        convert_type = _find_converter(types[0]) if len(types) == 1 else None
        is_optional = len(types) < len(arguments)
        if convert_type is None or convert_type is _return_unchanged or not is_optional:
            return convert_type
        return lambda value: None if value is None else convert_type(value)
    if annotation in (str, bool):
        return _return_unchanged
    # JSON has one type of number: 1.0 may be an int, 1 a float.
    if annotation in (int, float):
        return cast("Convert", annotation)
    if origin is list and (convert_item := _find_converter(arguments[0])) is not None:
        if convert_item is _return_unchanged:
            return list
        return lambda items: [convert_item(item) for item in items]
    if origin is dict and arguments[0] is str and (convert_value := _find_converter(arguments[1])) is not None:
        if convert_value is _return_unchanged:
            return dict
        return lambda items: {key: convert_value(value) for key, value in items.items()}
    return None


def _return_unchanged(value: Any) -> Any:
    return value


def infer_visible_signature(function: Callable[..., Any], *, text: bool = False) -> Signature:
    """Infer the signature that clients see, without the context and dependencies.

    With `text`, arguments arrive as text (see `infer_signature`). Raises TypeError as `infer_signature` does.
    """
    from mcp_bridge._engine.authoring.dependencies import find_dependencies
    from mcp_bridge._json_schema.inference import infer_signature

    _check_has_no_self(function)
    return infer_signature(function, skip=find_dependencies(function), text=text)


def _check_has_no_self(function: Callable[..., Any]) -> None:
    """Raise TypeError for a decorator in the body of a class: clients would have to send `self`."""
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    # A function outside of all classes, or one that is defined in another function, is no method.
    if not owner or owner.endswith("<locals>"):
        return
    first_name = next(iter(read_signature(function).parameters), "")
    if first_name in ("self", "cls"):
        raise TypeError(
            f"{owner}.{name} is a method, and clients cannot send '{first_name}'. Decorate the method of an instance, "
            "outside of the class"
        )


def make_data_handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a handler from a function with one parameter for the input data.

    This is the function itself, or a wrapper that resolves its dependencies.
    """
    # Without such a parameter, the start saves the import below.
    if not _may_have_marks(function):
        return function
    from mcp_bridge._engine.authoring.dependencies import make_injecting_handler, plan_dependencies

    plan = plan_dependencies(function)
    if plan is None:
        return function
    context = find_context_parameter(function)
    return make_injecting_handler(function, plan, lambda data, values: function(data, **values), context)


def _may_have_marks(function: Callable[..., Any]) -> bool:
    """Whether a parameter has an annotation or a default. Either may be a `Depends`."""
    try:
        parameters = get_signature(function).parameters.values()
    except (TypeError, ValueError):
        # Some builtins have no signature.
        return False
    return any(item.annotation is not item.empty or item.default is not item.empty for item in parameters)


def collect_completions(
    function: Callable[..., Any],
    signature: Signature,
    names: Collection[str],
    completions: Mapping[str, Completions] | None,
) -> dict[str, Completions]:
    """Return the completions of the arguments `names`.

    `completions`, the option of the decorator, takes precedence. Other arguments have completions if their type lists
    all values, as enums do. Raises TypeError for completions of an unknown argument, and for text instead of a list.
    """
    if completions is not None and not isinstance(completions, Mapping):
        raise TypeError(
            f"{get_callable_name(function)}: completions are {completions!r}. "
            "Pass lists by name, as {'unit': ['C', 'F']}"
        )
    # Tools have no completions, so their start does not need this module.
    from mcp_bridge._json_schema.text_arguments import list_choices

    for name, values in (completions or {}).items():
        if isinstance(values, str):
            raise TypeError(
                f"{get_callable_name(function)}: completions for '{name}' are text, {values!r}. Pass a list of texts"
            )
        if name not in names:
            raise TypeError(
                f"{get_callable_name(function)}: completions are given for '{name}', which is not an argument"
            )
    choices = {name: values for name, values in list_choices(signature.input_schema).items() if name in names}
    return {**choices, **(completions or {})}


def attach_entry(function: Callable[..., Any], attribute: str, entry: Any) -> Callable[..., Any]:
    """Return a wrapper of the function with the entry as an attribute.

    The function itself has no such attribute, so it can be decorated several times with different entries.
    """
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    setattr(wrapper, attribute, entry)
    return wrapper
