"""Changes to a tool that the settings ask for: other texts and annotations, and arguments that clients do not give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.pipeline.prepared import PreparedEntry
from mcp_bridge.schema.validator import validate

_REQUIRING = frozenset(
    {"required", "anyOf", "oneOf", "allOf", "dependentRequired", "dependentSchemas", "minProperties"}
)
"""The keywords that can require arguments, which the fixed values alone do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOverride:
    """Changes to a tool. `fixed` has the values of arguments that are sent with every call.

    Clients see neither `hidden` nor `fixed` arguments, and cannot send them. `descriptions` are those of arguments.
    """

    title: str | None = None
    description: str | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)

    def apply(self, tool: ToolEntry) -> ToolEntry:
        """Return the tool with these changes. Raises ValueError if its schema does not allow them."""
        if self.title is not None:
            tool = replace(tool, title=self.title, annotations={**tool.annotations, "title": self.title})
        if self.annotations:
            tool = replace(tool, annotations={**tool.annotations, **self.annotations})
        if self.description is not None:
            tool = replace(tool, description=self.description)
        if not (self.hidden or self.fixed or self.descriptions):
            return tool
        tool = replace(tool, input_schema=self._change_schema(tool.input_schema))
        return replace(tool, handler=self._wrap_handler(tool)) if self.hidden or self.fixed else tool

    def _change_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = dict(properties) if isinstance(properties, Mapping) else {}
        removed = {*self.hidden, *self.fixed}
        if unknown := sorted({*removed, *self.descriptions} - properties.keys()):
            raise ValueError(f"there is no argument '{unknown[0]}'")
        lenient = {key: value for key, value in schema.items() if key not in _REQUIRING}
        if errors := validate(dict(self.fixed), lenient).errors:
            raise ValueError(f"the values of its arguments do not match its schema: {'; '.join(errors)}")
        for name, text in self.descriptions.items():
            inner = properties[name]
            properties[name] = {**(inner if isinstance(inner, Mapping) else {}), "description": text}
        return ArgumentRemoval(schema, self.hidden, self.fixed).change_schema({**schema, "properties": properties})

    def _wrap_handler(self, tool: ToolEntry) -> Callable[..., Any]:
        prepared, fixed, removed = PreparedEntry(tool), dict(self.fixed), {*self.hidden, *self.fixed}

        def complete_arguments(data: Any) -> dict[str, Any]:
            return {**{name: value for name, value in (data or {}).items() if name not in removed}, **fixed}

        async def run_async(data: Any, ctx: CallContext) -> Any:
            return await prepared.handler(complete_arguments(data), ctx)

        def run_sync(data: Any, ctx: CallContext) -> Any:
            return prepared.handler(complete_arguments(data), ctx)

        return run_async if prepared.is_async else run_sync


class ArgumentRemoval:
    """Removes arguments that clients do not send from a schema: those with a fixed value, and those without any."""

    def __init__(self, schema: Mapping[str, Any], hidden: Set[str], fixed: Mapping[str, Any]) -> None:
        self._hidden = hidden - fixed.keys()
        self._fixed = fixed
        self._definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}

    def change_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a schema that accepts what clients can send. Raises ValueError if it would accept nothing."""
        changed = dict(schema)
        removed = {*self._hidden, *self._fixed}
        required = _read_names(schema.get("required"))
        if missing := sorted(self._hidden.intersection(required)):
            raise ValueError(f"the argument '{missing[0]}' is required, so it needs a value")
        dependent = schema.get("dependentRequired")
        for name, names in dependent.items() if isinstance(dependent, Mapping) else ():
            if name not in removed and (missing := sorted(self._hidden.intersection(_read_names(names)))):
                raise ValueError(f"the argument '{missing[0]}' is required with '{name}', so it needs a value")
            required += _read_names(names) if name in self._fixed else []
        if isinstance(dependent, Mapping):
            changed["dependentRequired"] = {
                name: [one for one in _read_names(names) if one not in removed]
                for name, names in dependent.items()
                if name not in removed
            }
        if required or "required" in schema:
            changed["required"] = [name for name in dict.fromkeys(required) if name not in removed]
        if isinstance(properties := schema.get("properties"), Mapping):
            changed["properties"] = {name: inner for name, inner in properties.items() if name not in removed}
            self._check_values(properties)
        if isinstance(branches := schema.get("allOf"), list):
            changed["allOf"] = [self.change_schema(one) if isinstance(one, Mapping) else one for one in branches]
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list):
                changed[keyword] = self._change_branches(branches)
        return changed

    def _change_branches(self, branches: Sequence[Any]) -> list[Any]:
        """Leave out the alternatives that no call can match. Raises ValueError if none is left."""
        kept, problem = [], ""
        for branch in branches:
            try:
                kept.append(self.change_schema(branch) if isinstance(branch, Mapping) else branch)
            except ValueError as error:
                problem = str(error)
        if problem and not kept:
            raise ValueError(problem)
        return kept

    def _check_values(self, properties: Mapping[str, Any]) -> None:
        for name, value in self._fixed.items():
            inner = properties.get(name)
            if isinstance(inner, Mapping) and validate(value, {**self._definitions, **inner}).errors:
                raise ValueError(f"no alternative of its schema allows the value of the argument '{name}'")


def _read_names(given: Any) -> list[str]:
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []
