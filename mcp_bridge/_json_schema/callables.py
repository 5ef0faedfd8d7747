"""Reads callables: signatures, resolved annotations and docstrings; adapts completion functions to handlers."""

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

SCHEMA_HINT = "or give input_schema="
_CONTEXT_NAMES = ("CallContext", "RunningCall")
"""The context for authors, and the one for code of the bridge."""
_SECTION_SIGNS = frozenset("\n:@")
"""Without any of these characters, a docstring has no sections."""
_FORWARDREF = 3  # annotationlib.Format.FORWARDREF; from 3.14 on, the default format raises for unresolvable names
_FORMAT: dict[str, Any] = {"annotation_format": _FORWARDREF} if sys.version_info >= (3, 14) else {}


def find_context_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the parameter annotated `CallContext` (also optional, as text, or through an alias), or None.

    Accepts any callable: functions, partials, bound methods, classes, objects with `__call__`, builtins.
    """
    try:
        parameters = inspect.signature(function, **_FORMAT).parameters.values()
        bound = list_bound_keywords(function)
        return next(
            (item.name for item in parameters if item.name not in bound and _is_context_parameter(function, item)), None
        )
    except (TypeError, ValueError):  # some builtins have no signature
        return None


def _is_context_parameter(function: Callable[..., Any], item: inspect.Parameter) -> bool:
    try:
        return is_context(resolve_annotation(function, item.annotation))
    except (NameError, AttributeError, SyntaxError, TypeError):
        return is_context(item.annotation)


def is_context(annotation: Any) -> bool:
    """Whether an annotation is the call context: the class, in a union, in `Annotated`, or as text."""
    if isinstance(annotation, str):
        return _is_context_text(annotation)
    if isinstance(annotation, typing.ForwardRef):
        return _is_context_text(annotation.__forward_arg__)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(is_context(part) for part in parts)
    if origin is typing.Annotated:
        return is_context(parts[0])
    return isinstance(annotation, type) and origin is None and issubclass(annotation, CallContext)


def _is_context_text(text: str) -> bool:
    try:
        return _is_context_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):  # ValueError: a null byte
        return False


def _is_context_node(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _CONTEXT_NAMES
        case ast.Constant(value=str(text)):
            return _is_context_text(text)
        case ast.BinOp(left=left, right=right):
            return _is_context_node(left) or _is_context_node(right)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inside):
            parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            if name == "Annotated":
                return _is_context_node(parts[0])
            return name in {"Optional", "Union"} and any(_is_context_node(part) for part in parts)
    return False


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature with unresolved annotations. Raises TypeError for a callable without one."""
    try:
        return inspect.signature(function, **_FORMAT)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{get_callable_name(function)} has no signature to read. Wrap it in a function, {SCHEMA_HINT}"
        ) from error


def list_bound_keywords(function: Callable[..., Any]) -> frozenset[str]:
    """The keywords that partials have bound. Callers must not see them: they may be secret."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func
    return frozenset(names)


def read_annotation(function: Callable[..., Any], item: inspect.Parameter) -> Any:
    """A parameter's annotation as a type; `Any` if it has none. Raises TypeError for a name that cannot be resolved."""
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
    """An annotation of this callable, with text evaluated in the module that defines the callable.

    Raises NameError, AttributeError, SyntaxError or TypeError if the evaluation does.
    """

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    return typing.get_type_hints(holder, _get_namespace(_unwrap(function)), include_extras=True)["it"]


def _get_namespace(target: Any) -> dict[str, Any]:
    names: dict[str, Any] | None = getattr(target, "__globals__", None)
    if names is None:
        names = vars(sys.modules.get(getattr(target, "__module__", None) or "builtins", typing))
    return names


def _unwrap(function: Callable[..., Any]) -> Any:
    """The function inside partials and wrappers, the `__call__` of an object, or a class as it is."""
    target: Any = function
    while isinstance(target, functools.partial) or hasattr(target, "__wrapped__"):
        target = target.func if isinstance(target, functools.partial) else inspect.unwrap(target)
    if inspect.isroutine(target) or isinstance(target, type):
        return target
    return inspect.unwrap(type(target).__call__)


def get_callable_name(function: Callable[..., Any]) -> str:
    return str(getattr(_unwrap(function), "__qualname__", function))


def parse_docstring(function: Callable[..., Any]) -> tuple[str, Mapping[str, str]]:
    """The docstring's text without its sections, and the description of each parameter (Google, NumPy, reST)."""
    docstring = _read_docstring(function)
    if _SECTION_SIGNS.isdisjoint(docstring):
        return docstring.strip(), {}
    from docstring_parser import parse

    parsed = parse(docstring)
    texts = [part.strip() for part in (parsed.short_description, parsed.long_description) if part]
    parameters = {
        name.strip().lstrip("*"): inspect.cleandoc(item.description)
        for item in parsed.params
        if item.description
        for name in item.arg_name.split(",")
    }
    return "\n\n".join(texts), parameters


def _read_docstring(function: Callable[..., Any]) -> str:
    """The docstring, also an inherited one; for an object, the docstring of its `__call__` or of its class."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isroutine(target) or isinstance(target, type) or hasattr(target, "__wrapped__"):
        return inspect.getdoc(target) or ""
    return inspect.cleandoc(type(target).__call__.__doc__ or type(target).__doc__ or "")


def adapt_completion(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """A completion function as a handler of `{"value", "known"}`. Its second parameter, if any, receives `known`."""
    positional = [
        item
        for item in inspect.signature(function).parameters.values()
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
