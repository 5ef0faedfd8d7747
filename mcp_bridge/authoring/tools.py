"""@tool: a function becomes a tool, from a schema that its author wrote or from its own signature."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, overload

from mcp_bridge.authoring.functions import Decorator, F, marked, name_of, typed_handler
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.schema.callables import called, is_context
from mcp_bridge.schema.headers import header_complaints
from mcp_bridge.schema.infer import infer


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
    is taken in `registry`, TypeError for a signature that no schema can be inferred from, or with a wrong `Header`.
    """

    def decorate(function: Callable[..., Any], given: str = "") -> Callable[..., Any]:
        made = _entry(function, given, description, input_schema, output_schema)
        made.tags = list(tags or ())
        made.title = title
        made.annotations, made.icons, made.meta = dict(annotations or {}), list(icons or ()), dict(meta or {})
        if registry is not None:
            registry.register(made)
        return marked(function, "tool_entry", made)

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
    known_as = name or name_of(function)
    if input_schema is not None or (name and takes_one_dict(function)):
        text = description or function.__doc__ or ""
        return ToolEntry(known_as, text, function, input_schema or {}, output_schema or {})
    signature = infer(function)
    for wrong in header_complaints(signature.input_schema):
        raise TypeError(f"{called(function)}: {wrong}")
    return ToolEntry(
        known_as,
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
