"""Reads signatures, resolved annotations and docstrings of callables, and adapts completion functions to handlers."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge._contracts.context import CallContext
from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._runtime.signatures import get_signature

SCHEMA_HINT = "or give input_schema="
_CONTEXT_NAMES = ("CallContext", "RunningCall")
"""The names of the context for authors, and of its subclass for code of the bridge."""
_SECTION_SIGNS = frozenset("\n:@")
"""A docstring without any of these characters has no sections, and needs no parser."""


def find_context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter annotated `CallContext` (optional, as text, or through an alias), or None.

    Accepts any callable: functions, partials, bound methods, classes, objects with `__call__`, builtins.
    """
    try:
        parameters = get_signature(function).parameters.values()
        bound_names = list_bound_keywords(function)
        for item in parameters:
            if item.name in bound_names:
                continue
            try:
                annotation = resolve_annotation(function, item.annotation)
            except (NameError, AttributeError, SyntaxError, TypeError):
                annotation = item.annotation
            if is_context(annotation):
                return item.name
    except (TypeError, ValueError):
        # Some builtins have no signature.
        pass
    return None


def is_context(annotation: Any) -> bool:
    """Whether an annotation is the class of the call context, also in a union, in `Annotated`, or as text."""
    if isinstance(annotation, str):
        return _is_context_text(annotation)
    if isinstance(annotation, typing.ForwardRef):
        return _is_context_text(annotation.__forward_arg__)
    if type(annotation).__name__ == "TypeAliasType":
        # `type Context = CallContext`, or its equivalent in typing_extensions, whose import would cost start-up time.
        return is_context(annotation.__value__)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(map(is_context, arguments))
    if origin is typing.Annotated:
        return is_context(arguments[0])
    return isinstance(annotation, type) and origin is None and issubclass(annotation, CallContext)


def _is_context_text(text: str) -> bool:
    try:
        return _is_context_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        # A null byte is a ValueError.
        return False


def _is_context_node(node: ast.expr) -> bool:
    """Whether the syntax tree of an annotation names the call context."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _CONTEXT_NAMES
        case ast.Constant(value=str(text)):
            return _is_context_text(text)
        case ast.BinOp(left=left, right=right):
            return _is_context_node(left) or _is_context_node(right)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=content):
            arguments = content.elts if isinstance(content, ast.Tuple) else [content]
            if name == "Annotated":
                return _is_context_node(arguments[0])
            return name in {"Optional", "Union"} and any(map(_is_context_node, arguments))
    return False


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature with unresolved annotations. Raises TypeError for a callable without one."""
    try:
        return get_signature(function)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{get_callable_name(function)} has no signature to read. Wrap it in a function, {SCHEMA_HINT}"
        ) from error


def list_bound_keywords(function: Callable[..., Any]) -> frozenset[str]:
    """Return the bound keywords of partials. Clients must not see or set them, because they may be secret."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func
    return frozenset(names)


def read_annotation(function: Callable[..., Any], item: inspect.Parameter) -> Any:
    """Return a parameter's annotation as a type, or `Any` if it has none. Raises TypeError for an unknown name."""
    if item.annotation is item.empty:
        return Any
    try:
        return resolve_annotation(function, item.annotation)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        name = getattr(error, "name", None) or item.annotation
        raise TypeError(
            f"{get_callable_name(function)}: parameter '{item.name}': '{name}' in its annotation cannot be resolved. "
            f"Define or import it at the top of the module, {SCHEMA_HINT}"
        ) from error


def resolve_annotation(function: Callable[..., Any], annotation: Any) -> Any:
    """Return an annotation of a callable, with text evaluated in the module of the callable.

    Raises NameError, AttributeError, SyntaxError or TypeError if the evaluation does.
    """

    # get_type_hints resolves only the annotations of an object, so the annotation is put into a new function.
    def holder() -> None: ...

    holder.__annotations__ = {"annotation": annotation}
    target = _unwrap(function)
    names: dict[str, Any] | None = getattr(target, "__globals__", None)
    if names is None:
        names = vars(sys.modules.get(getattr(target, "__module__", None) or "builtins", typing))
    # The type parameters of `def function[T](...)` are not among its globals.
    type_parameters = {item.__name__: item for item in getattr(target, "__type_params__", ())}
    if type_parameters:
        names = {**names, **type_parameters}
    return typing.get_type_hints(holder, names, include_extras=True)["annotation"]


def _unwrap(function: Callable[..., Any]) -> Any:
    """Return the function inside partials and wrappers, the `__call__` of an object, or a class itself."""
    target: Any = function
    while isinstance(target, functools.partial) or hasattr(target, "__wrapped__"):
        target = target.func if isinstance(target, functools.partial) else inspect.unwrap(target)
    if inspect.isroutine(target) or isinstance(target, type):
        return target
    return inspect.unwrap(type(target).__call__)


def get_callable_name(function: Callable[..., Any]) -> str:
    """Return the qualified name of a callable, for errors."""
    return str(getattr(_unwrap(function), "__qualname__", function))


def parse_docstring(function: Callable[..., Any]) -> tuple[str, Mapping[str, str]]:
    """Return the docstring without its sections, and the description of each parameter (Google, NumPy, reST).

    It may be inherited. The docstring of an object is that of its `__call__` or of its class.
    """
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isroutine(target) or isinstance(target, type) or hasattr(target, "__wrapped__"):
        text = inspect.getdoc(target) or ""
    else:
        text = inspect.cleandoc(type(target).__call__.__doc__ or type(target).__doc__ or "")
    if _SECTION_SIGNS.isdisjoint(text):
        return text.strip(), {}
    from docstring_parser import parse

    docstring = parse(text)
    paragraphs = [docstring.short_description, docstring.long_description]
    descriptions: dict[str, str] = {}
    for item in docstring.params:
        if item.description:
            for name in item.arg_name.split(","):
                descriptions[name.strip().lstrip("*")] = inspect.cleandoc(item.description)
    return "\n\n".join(paragraph.strip() for paragraph in paragraphs if paragraph), descriptions


def adapt_completion(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Turn a completion function of the author into a handler of `{"value": ..., "known": ...}`.

    The first parameter of the function receives `value`, the text so far. The second, if there is one, receives
    `known`, the completed arguments.
    """
    positional = [
        item
        for item in get_signature(function).parameters.values()
        if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD, item.VAR_POSITIONAL)
    ]
    takes_known = len(positional) > 1 or any(item.kind is item.VAR_POSITIONAL for item in positional)

    def list_arguments(data: Any) -> tuple[Any, ...]:
        return (data["value"], data["known"]) if takes_known else (data["value"],)

    if is_async(function):

        async def complete_value(data: Any) -> Any:
            return await function(*list_arguments(data))

        return complete_value
    return lambda data: function(*list_arguments(data))
