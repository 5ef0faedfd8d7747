"""@resource turns a function into a resource at a URI, or into the resources of a URI template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from mcp_bridge._contracts.prompt import Completions
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._engine.authoring.functions import (
    attach_entry,
    collect_completions,
    get_function_name,
    infer_visible_signature,
    make_typed_handler,
)
from mcp_bridge._engine.decorators import FunctionDecorator
from mcp_bridge._engine.entry_table import EntryTable
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._json_schema.callables import get_callable_name
from mcp_bridge._json_schema.inference import Signature
from mcp_bridge._json_schema.type_sets import list_types
from mcp_bridge._json_schema.uri_templates import TemplateVariable, check_template, check_uri, parse_template_variables


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
) -> FunctionDecorator:
    """Turn a function into the resource at `uri`, and add the resource to `registry` if there is one.

    `{variables}` in the URI (RFC 6570) are the function's parameters, converted from text to their types. Parameters
    with a default may be missing from the URI. `completions` suggests values for variables; enums, `Literal` and
    booleans suggest all their values. `size` is in bytes. By default, name and description come from the function. A
    parameter annotated `CallContext` receives the context of the call.

    The decorated function can be called as before, and has the attribute `resource_entry`. Raises ValueError for an
    invalid URI, for a template that cannot be matched, and for a URI that already exists in `registry`, and
    TypeError if parameters and variables differ.

    >>> from mcp_bridge import resource
    >>> @resource("users://{id}", completions={"id": ["1", "2"]})
    ... def user(id: int) -> dict:
    ...     return {"id": id}
    >>> user.resource_entry.uri_template
    'users://{id}'
    >>> user(1)
    {'id': 1}
    """
    variables = _parse_variables(uri)
    # MCP's ResourceTemplate has no size.
    if variables and size is not None:
        raise TypeError(f"'{uri}': the resources of a template have no common size. Omit size=")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        base = _build_resource_entry(uri, variables, function, completions)
        entry = replace(
            base,
            name=name or get_function_name(function),
            description=description or base.description,
            mime_type=mime_type,
            title=title,
            annotations=dict(annotations or {}),
            icons=list(icons or ()),
            meta=dict(meta or {}),
        )
        if isinstance(entry, ResourceEntry):
            entry.size = size
        if registry is not None:
            table: EntryTable[Any] = registry.resources if isinstance(entry, ResourceEntry) else registry.templates
            table.add(entry)
        return attach_entry(function, "resource_entry", entry)

    return cast("FunctionDecorator", decorate)


def _build_resource_entry(
    uri: str,
    variables: Sequence[TemplateVariable],
    function: Callable[..., Any],
    completions: Mapping[str, Completions] | None,
) -> ResourceEntry | ResourceTemplate:
    """Return a template if the URI has variables, and a single resource otherwise."""
    # The values of variables are text, which the signature converts to the types of the parameters.
    signature = infer_visible_signature(function, text=True)
    names = [variable.name for variable in variables]
    _check_names(uri, names, function, signature)
    _check_lists(variables, function, signature)
    offered_values = collect_completions(function, signature, names, completions)
    if variables:
        handler = make_typed_handler(function, signature)
        return ResourceTemplate(uri, handler, description=signature.description, completions=offered_values)
    # The function of a resource without variables has no parameters, so the URI in the data is ignored.
    handler = make_typed_handler(function, signature, lambda _: signature.bind({}))
    return ResourceEntry(uri, handler, description=signature.description)


def _parse_variables(uri: Any) -> tuple[TemplateVariable, ...]:
    """Return the variables of a template, or none for a URI. Raises ValueError for anything else."""
    if not isinstance(uri, str):
        raise TypeError("@resource needs a URI: @resource('notes://today') or @resource('users://{id}')")
    problems = check_template(uri) if "{" in uri else check_uri(uri)
    # A single brace would be matched literally, but the author surely means a variable.
    if not problems and uri.count("{") != uri.count("}"):
        problems = ["its braces are not balanced. Write a variable as {name}"]
    if problems:
        raise ValueError(f"@resource('{uri}'): {problems[0]}")
    return parse_template_variables(uri)


def _check_names(uri: str, variables: Sequence[str], function: Callable[..., Any], signature: Signature) -> None:
    """Raise TypeError if a required parameter is not in the URI, or if a variable is not a parameter."""
    schema = signature.input_schema
    unknown = [name for name in variables if name not in schema["properties"]]
    missing = [name for name in schema.get("required", ()) if name not in variables]
    problems = [f"parameter '{name}' is not in the URI" for name in missing]
    if schema.get("additionalProperties") is False:
        problems += [f"variable '{name}' is not a parameter" for name in unknown]
    if problems:
        raise TypeError(f"{get_callable_name(function)}: {', '.join(problems)}: '{uri}'. Give both the same names")


def _check_lists(variables: Sequence[TemplateVariable], function: Callable[..., Any], signature: Signature) -> None:
    """Raise TypeError if a variable is a list and its parameter does not accept one."""
    schema = signature.input_schema
    for variable in variables:
        property_schema = schema["properties"].get(variable.name, {})
        if variable.explode and "array" not in list_types(property_schema, schema):
            raise TypeError(
                f"{get_callable_name(function)}: variable '{variable.name}' in '{variable.expression}' is a list. "
                f"Annotate the parameter as list[str], or omit the *"
            )
