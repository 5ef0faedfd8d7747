"""@resource: a function becomes what is read at a URI, or at all URIs of a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from mcp_bridge.authoring.functions import Decorator, marked, name_of, offered, typed_handler
from mcp_bridge.contracts.completion import Completions
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.schema.callables import called
from mcp_bridge.schema.infer import Signature, infer
from mcp_bridge.schema.templates import Variable, template_complaints, template_variables, uri_complaints


def resource(
    uri: str,
    *,
    name: str = "",
    description: str = "",
    mime_type: str | None = None,
    title: str | None = None,
    size: int | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    completions: Mapping[str, Completions] | None = None,
    registry: ToolRegistry | None = None,
) -> Decorator:
    """Mark a function as what is read at `uri`, and add it to a registry when one is given.

    With `{variables}` in the URI (RFC 6570) they are the function's parameters, converted from text to their types;
    those with a default may be missing from the URI. `completions` has what may be offered for a variable; enums,
    `Literal` and booleans offer all their values. `size` is in bytes. Name and description come from the function
    where they are not given, and a parameter annotated `CallContext` gets the context of the call that reads.

    The decorated function is called as before and has a `resource_entry` attribute. Raises ValueError for text that
    is no URI, for a template that URIs cannot be matched with, and for a URI that is taken in `registry`; TypeError
    when parameters and variables differ.
    """
    variables = _variables(uri)
    if variables and size is not None:
        raise TypeError(f"'{uri}': what a template leads to has no common size. Leave size= out")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        made = _entry(uri, variables, function, completions)
        entry = replace(
            made,
            name=name or name_of(function),
            description=description or made.description,
            mime_type=mime_type,
            title=title,
            annotations=dict(annotations or {}),
            icons=list(icons or ()),
            meta=dict(meta or {}),
        )
        if isinstance(entry, ResourceEntry):
            entry.size = size
        if registry is not None:
            _add(registry, entry)
        return marked(function, "resource_entry", entry)

    return cast("Decorator", decorate)


def _add(registry: ToolRegistry, entry: ResourceEntry | ResourceTemplate) -> None:
    if isinstance(entry, ResourceEntry):
        registry.resources.add(entry)
    else:
        registry.templates.add(entry)


def _entry(
    uri: str, variables: Sequence[Variable], function: Callable[..., Any], completions: Mapping[str, Completions] | None
) -> ResourceEntry | ResourceTemplate:
    signature, names = infer(function, text=True), [variable.name for variable in variables]
    _compare(uri, names, function, signature)
    _compare_lists(variables, function, signature)
    offers = offered(function, signature, names, completions)
    if variables:
        handler = typed_handler(function, signature)
        return ResourceTemplate(uri, handler, description=signature.description, completions=offers)
    alone = replace(signature, bind=lambda _: signature.bind({}))  # the URI that it is handed says nothing new
    return ResourceEntry(uri, typed_handler(function, alone), description=signature.description)


def _variables(uri: Any) -> tuple[Variable, ...]:
    """The variables of a template, none for a URI. Raises ValueError for what is neither."""
    if not isinstance(uri, str):
        raise TypeError("@resource needs a URI: @resource('notes://today') or @resource('users://{id}')")
    wrong = template_complaints(uri) if "{" in uri else uri_complaints(uri)
    if not wrong and uri.count("{") != uri.count("}"):  # it can be matched, but nobody means that
        wrong = ["it has a brace too many. Write a variable as {name}"]
    if wrong:
        raise ValueError(f"@resource('{uri}'): {wrong[0]}")
    return template_variables(uri)


def _compare(uri: str, variables: Sequence[str], function: Callable[..., Any], signature: Signature) -> None:
    """Raises TypeError where variables and parameters have not the same names."""
    schema = signature.input_schema
    unknown = [name for name in variables if name not in schema["properties"]]
    missing = [name for name in schema.get("required", ()) if name not in variables]
    problems = [f"parameter '{name}' is not in the URI" for name in missing]
    if schema.get("additionalProperties") is False:
        problems += [f"variable '{name}' is no parameter" for name in unknown]
    if problems:
        raise TypeError(f"{called(function)}: {', '.join(problems)}: '{uri}'. Give both the same names")


def _compare_lists(variables: Sequence[Variable], function: Callable[..., Any], signature: Signature) -> None:
    """Raises TypeError where the value is a list and the parameter takes none."""
    schema = signature.input_schema
    for variable in variables:
        part = schema["properties"].get(variable.name, {})
        if variable.explode and not _takes_list(part, schema.get("$defs", {})):
            raise TypeError(
                f"{called(function)}: variable '{variable.name}' in '{variable.expression}' is a list. "
                f"Annotate the parameter list[str], or leave the * out"
            )


def _takes_list(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    """Whether a list may fit what pydantic wrote for a parameter."""
    if "$ref" in schema:
        return _takes_list(definitions.get(schema["$ref"].rsplit("/", 1)[-1], {}), definitions)
    if "anyOf" in schema:
        return any(_takes_list(part, definitions) for part in schema["anyOf"])
    return bool(schema.get("type", "array") == "array")
