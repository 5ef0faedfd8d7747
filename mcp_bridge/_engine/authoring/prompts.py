"""@prompt turns a function into a prompt, and its parameters into arguments for the user to fill in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, overload

from mcp_bridge._contracts.prompt import Completions, PromptArgument, PromptEntry
from mcp_bridge._engine.authoring.functions import (
    attach_entry,
    collect_completions,
    get_function_name,
    infer_visible_signature,
    make_typed_handler,
)
from mcp_bridge._engine.decorators import F, FunctionDecorator
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._json_schema.callables import get_callable_name
from mcp_bridge._json_schema.inference import Signature


@overload
def prompt(
    function: F,
    /,
    *,
    name: str = "",
    description: str = "",
    title: str | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    completions: Mapping[str, Completions] | None = None,
    registry: ToolRegistry | None = None,
) -> F: ...
@overload
def prompt(
    name: str = "",
    description: str = "",
    *,
    title: str | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    completions: Mapping[str, Completions] | None = None,
    registry: ToolRegistry | None = None,
) -> FunctionDecorator: ...
def prompt(
    function: str | Callable[..., Any] = "",
    /,
    description: str = "",
    *,
    name: str = "",
    title: str | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    completions: Mapping[str, Completions] | None = None,
    registry: ToolRegistry | None = None,
) -> Any:
    """Turn a function into a prompt, and add it to `registry` if given.

    Name, description and arguments come from the signature and the docstring. Arguments arrive as text and are
    converted to their types: numbers, booleans, dates and enums from their usual form, lists, dicts and models from
    JSON. `completions` suggests values for arguments; enums, `Literal` and booleans suggest all their values. A
    parameter annotated `CallContext` receives the context of the call.

    The decorated function can be called as before, and has the attribute `prompt_entry`. Raises ValueError if the name
    already exists in `registry`, and TypeError if the arguments cannot be inferred from the signature.

    >>> from mcp_bridge import prompt
    >>> @prompt
    ... def review(path: str, thorough: bool = False) -> str:
    ...     return f"Review {path}."
    >>> [(argument.name, argument.required) for argument in review.prompt_entry.arguments]
    [('path', True), ('thorough', False)]
    """

    if isinstance(function, str) and function and name:
        raise TypeError(f"a prompt has one name, and was given two, {function!r} and {name!r}")

    def decorate(function: Callable[..., Any], entry_name: str) -> Callable[..., Any]:
        signature = infer_visible_signature(function, text=True)
        arguments = signature.input_schema["properties"]
        entry = PromptEntry(
            entry_name or get_function_name(function),
            make_typed_handler(function, signature),
            description or signature.description,
            _make_arguments(function, signature),
            title=title,
            icons=list(icons or ()),
            meta=dict(meta or {}),
            completions=collect_completions(function, signature, arguments, completions),
        )
        if registry is not None:
            registry.prompts.add(entry)
        return attach_entry(function, "prompt_entry", entry)

    if callable(function):
        return decorate(function, name)
    # Without a function, the first argument is the name, if any.
    return functools.partial(decorate, entry_name=function or name)


def _make_arguments(function: Callable[..., Any], signature: Signature) -> tuple[PromptArgument, ...]:
    """Return the arguments of a prompt, from the schema of the function's parameters."""
    schema = signature.input_schema
    if schema.get("additionalProperties") is not False:
        raise TypeError(
            f"{get_callable_name(function)}: a prompt declares all its arguments, so the function cannot have **kwargs"
        )
    required_names = schema.get("required", ())
    return tuple(
        PromptArgument(name, property_schema.get("description", ""), name in required_names)
        for name, property_schema in schema["properties"].items()
    )
