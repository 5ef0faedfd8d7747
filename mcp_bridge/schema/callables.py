"""What a callable says about itself: its signature, its annotations with their names resolved, its docstring."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge.contracts.context import CallContext

MEND = "or give input_schema="
_CONTEXT_NAME = CallContext.__name__
_FORWARDREF = 3  # annotationlib.Format.FORWARDREF; from 3.14 on, the default format raises for unresolvable names
_FORMAT: dict[str, Any] = {"annotation_format": _FORWARDREF} if sys.version_info >= (3, 14) else {}


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the parameter annotated `CallContext` (alone, optional, as text, under another name), or None.

    Any callable will do: functions, partials, bound methods, classes, objects with `__call__`, builtins.
    """
    try:
        parameters = inspect.signature(function, **_FORMAT).parameters.values()
        taken = prefilled(function)
        return next((item.name for item in parameters if item.name not in taken and _takes_it(function, item)), None)
    except (TypeError, ValueError):  # some builtins have no signature
        return None


def _takes_it(function: Callable[..., Any], item: inspect.Parameter) -> bool:
    try:
        return is_context(resolve(function, item.annotation))
    except (NameError, AttributeError, SyntaxError, TypeError):
        return is_context(item.annotation)


def is_context(annotation: Any) -> bool:
    """Whether an annotation means the call context: the class, in a union, in `Annotated`, or as text."""
    if isinstance(annotation, str):
        return _text_is_context(annotation)
    if isinstance(annotation, typing.ForwardRef):
        return _text_is_context(annotation.__forward_arg__)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(is_context(part) for part in parts)
    if origin is typing.Annotated:
        return is_context(parts[0])
    return isinstance(annotation, type) and origin is None and issubclass(annotation, CallContext)


def _text_is_context(text: str) -> bool:
    try:
        return _node_is_context(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):  # ValueError: a null byte
        return False


def _node_is_context(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == _CONTEXT_NAME
        case ast.Constant(value=str(text)):
            return _text_is_context(text)
        case ast.BinOp(left=left, right=right):
            return _node_is_context(left) or _node_is_context(right)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inside):
            parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            if name == "Annotated":
                return _node_is_context(parts[0])
            return name in {"Optional", "Union"} and any(_node_is_context(part) for part in parts)
    return False


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature, annotations as they stand. Raises TypeError where there is none."""
    try:
        return inspect.signature(function, **_FORMAT)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{called(function)} has no signature to read. Wrap it in a function, {MEND}") from error


def prefilled(function: Callable[..., Any]) -> frozenset[str]:
    """The keywords that partials have filled in: no longer a caller's business, and maybe secret."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func
    return frozenset(names)


def annotation_of(function: Callable[..., Any], item: inspect.Parameter) -> Any:
    """A parameter's annotation as a type, `Any` without one. Raises TypeError naming what cannot be resolved."""
    if item.annotation is item.empty:
        return Any
    try:
        return resolve(function, item.annotation)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        name = getattr(error, "name", None) or item.annotation
        raise TypeError(
            f"{called(function)}: parameter '{item.name}': '{name}' in its annotation cannot be resolved. "
            f"Define or import it at the top of the module, {MEND}"
        ) from error


def resolve(function: Callable[..., Any], annotation: Any) -> Any:
    """An annotation of this callable with text evaluated where the callable was defined.

    Raises what the evaluation raises: NameError, AttributeError, SyntaxError, TypeError.
    """

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    return typing.get_type_hints(holder, _namespace(innermost(function)), include_extras=True)["it"]


def _namespace(target: Any) -> dict[str, Any]:
    names: dict[str, Any] | None = getattr(target, "__globals__", None)
    if names is None:
        names = vars(sys.modules.get(getattr(target, "__module__", None) or "builtins", typing))
    return names


def innermost(function: Callable[..., Any]) -> Any:
    """The function under partials and wrappers, or the `__call__` of an object; a class is itself."""
    target: Any = function
    while isinstance(target, functools.partial) or hasattr(target, "__wrapped__"):
        target = target.func if isinstance(target, functools.partial) else inspect.unwrap(target)
    if inspect.isroutine(target) or isinstance(target, type):
        return target
    return inspect.unwrap(type(target).__call__)


def called(function: Callable[..., Any]) -> str:
    """What messages call this callable."""
    return str(getattr(innermost(function), "__qualname__", function))


def documentation(function: Callable[..., Any]) -> tuple[str, Mapping[str, str]]:
    """The docstring's description without its sections, and each parameter's own (Google, NumPy, reST)."""
    from docstring_parser import parse

    parsed = parse(_docstring(function))
    words = [part.strip() for part in (parsed.short_description, parsed.long_description) if part]
    notes = {
        name.strip().lstrip("*"): inspect.cleandoc(item.description)
        for item in parsed.params
        if item.description
        for name in item.arg_name.split(",")
    }
    return "\n\n".join(words), notes


def _docstring(function: Callable[..., Any]) -> str:
    """The docstring, inherited ones too; an object's is that of its `__call__` or else of its class."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isroutine(target) or isinstance(target, type) or hasattr(target, "__wrapped__"):
        return inspect.getdoc(target) or ""
    return inspect.cleandoc(type(target).__call__.__doc__ or type(target).__doc__ or "")
