"""@tool: a function becomes a tool, from a schema that its author wrote or from its own signature."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast, overload

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.registry import ToolRegistry
from mcp_bridge.schema.infer import Signature, infer, is_context

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """What `@tool(...)` answers: it keeps the type of the function it decorates."""

    def __call__(self, function: F, /) -> F:
        """Mark `function` as a tool."""
        ...


@overload
def tool(name: F, /) -> F: ...
@overload
def tool(
    name: str = "",
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    tags: list[str] | None = None,
    registry: ToolRegistry | None = None,
    *,
    title: str | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
) -> Decorator: ...
def tool(
    name: str | Callable[..., Any] = "",
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    tags: list[str] | None = None,
    registry: ToolRegistry | None = None,
    *,
    title: str | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
) -> Any:
    """Mark a function as a tool, and register it when a registry is given.

    With `input_schema`, or with a name and a single untyped parameter, the handler gets one positional
    argument, the input data (the tool_use API's form). Otherwise name, description, schemas and parameter
    descriptions come from the signature and the docstring, and the function is called with keywords. A
    parameter annotated `CallContext` gets the running call's context in both forms.

    The decorated function is called as before and has a `tool_entry` attribute. Raises ValueError when the name
    is taken in `registry`, TypeError for a signature that no schema can be inferred from.
    """

    def decorate(function: Callable[..., Any], given: str = "") -> Callable[..., Any]:
        made = _entry(function, given, description, input_schema, output_schema)
        made.tags = list(tags or ())
        made.title = title
        made.annotations, made.icons, made.meta = dict(annotations or {}), list(icons or ()), dict(meta or {})
        if registry is not None:
            registry.register(made)
        return _marked(function, made)

    if callable(name):
        return decorate(name)
    return functools.partial(decorate, given=name)


def _entry(
    function: Callable[..., Any],
    name: str,
    description: str,
    input_schema: dict[str, Any] | None,
    output_schema: dict[str, Any] | None,
) -> ToolEntry:
    called = name or getattr(function, "__name__", type(function).__name__)
    if input_schema is not None or (name and takes_one_dict(function)):
        text = description or function.__doc__ or ""
        return ToolEntry(called, text, function, input_schema or {}, output_schema or {})
    signature = infer(function)
    return ToolEntry(
        called,
        description or signature.description,
        typed_handler(function, signature),
        signature.input_schema,
        signature.output_schema if output_schema is None else output_schema,
    )


def takes_one_dict(function: Callable[..., Any]) -> bool:
    """Whether a function has the tool_use API's form: one parameter for the data, plain or annotated as a dict."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return True
    data = [item for item in parameters if not is_context(item.annotation)]
    if len(data) != 1 or data[0].kind in (data[0].KEYWORD_ONLY, data[0].VAR_KEYWORD):
        return False
    return data[0].annotation is inspect.Parameter.empty or _is_plain_dict(data[0].annotation)


def _is_plain_dict(annotation: Any) -> bool:
    """`dict`, `dict[str, Any]`, `Mapping[str, Any]` or `Any`, as such or as text."""
    words = annotation if isinstance(annotation, str) else getattr(annotation, "__qualname__", str(annotation))
    return words.split("[")[0].rsplit(".", 1)[-1] in {"dict", "Dict", "Mapping", "MutableMapping", "Any"}


def typed_handler(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """A one-dict handler for a function with typed parameters, awaitable when the function is."""

    def arguments(data: Any, ctx: CallContext | None) -> functools.partial[Any]:
        call = signature.bind(data if data is not None else {})
        if signature.context is not None:
            call[signature.context] = ctx
        return functools.partial(signature.call, **call)

    if inspect.iscoroutinefunction(function):

        async def awaited(data: Any, ctx: CallContext | None = None) -> Any:
            return await arguments(data, ctx)()

        return awaited

    def called(data: Any, ctx: CallContext | None = None) -> Any:
        return arguments(data, ctx)()

    return called


def _marked(function: Callable[..., Any], entry: ToolEntry) -> Callable[..., Any]:
    """A wrapper that is called as the function was and carries the entry; one function can be several tools."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    cast("Any", wrapper).tool_entry = entry
    return wrapper
