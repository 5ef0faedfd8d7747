"""Applies the `overrides` of the settings to a tool: other texts and annotations, and hidden or fixed arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_bridge._contracts.handlers import PlannedCall, PlanningHandler
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.argument_removal import ArgumentRemoval
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._json_schema.walking import get_mapping, walk_applied_schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOverride:
    """Changes to a tool. Clients see neither `hidden` nor `fixed` arguments, and cannot send them.

    Attributes:
        title, description, annotations: Replace those of the tool, if present.
        hidden: Arguments to leave out of every call.
        fixed: Arguments, with their values, for every call.
        descriptions: Descriptions of arguments.
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
        if self.hidden or self.fixed:
            tool = replace(tool, handler=self._wrap_handler(tool))
        return tool

    def _change_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema for clients, with other descriptions and without removed arguments. Raises ValueError."""
        argument_schemas = list(walk_applied_schemas(schema, schema))
        names: set[str] = set()
        for argument_schema in argument_schemas:
            names.update(get_mapping(argument_schema, "properties"))
        removals = {*self.hidden, *self.fixed}
        if missing := sorted({*removals, *self.descriptions} - names):
            raise ValueError(f"there is no argument '{missing[0]}'")
        try:
            described: dict[str, Any] = self._describe_arguments(schema, set(map(id, argument_schemas)))
            if removals:
                return ArgumentRemoval(described, self.hidden, self.fixed).change_schema()
            return described
        except RecursionError:
            raise ValueError("its schema is nested too deeply to override its arguments") from None

    def _describe_arguments(self, node: Any, argument_schemas: Set[int]) -> Any:
        """Return a copy of a schema with the descriptions of the override.

        `argument_schemas` are the ids of the schemas whose properties are arguments.
        """
        if isinstance(node, list):
            return [self._describe_arguments(value, argument_schemas) for value in node]
        if not isinstance(node, Mapping):
            return node
        copy = {key: self._describe_arguments(value, argument_schemas) for key, value in node.items()}
        if id(node) in argument_schemas and isinstance(properties := copy.get("properties"), dict):
            for name in self.descriptions.keys() & properties.keys():
                property_schema = properties[name]
                # False, which rejects every value, cannot have a description. True is the same as {}.
                if property_schema is not False:
                    keywords = property_schema if isinstance(property_schema, dict) else {}
                    properties[name] = {**keywords, "description": self.descriptions[name]}
        return copy

    def _wrap_handler(self, tool: ToolEntry) -> Callable[..., Any]:
        """Return a handler that adds the fixed arguments, and drops removed ones that a client sends nevertheless."""
        prepared = PreparedEntry(tool)
        fixed = dict(self.fixed)
        removed_names = {*self.hidden, *self.fixed}

        def complete_arguments(data: Any) -> dict[str, Any]:
            arguments = {name: value for name, value in (data or {}).items() if name not in removed_names}
            return arguments | fixed

        async def run_async(data: Any, ctx: RunningCall) -> Any:
            return await prepared.handler(complete_arguments(data), ctx)

        def run_sync(data: Any, ctx: RunningCall) -> Any:
            return prepared.handler(complete_arguments(data), ctx)

        handler: Any = tool.handler
        if isinstance(handler, PlanningHandler):
            return _CompletingHandler(handler, run_async, complete_arguments)
        return run_async if prepared.is_async else run_sync


@dataclass(frozen=True, slots=True)
class _CompletingHandler(PlanningHandler):
    """A planning handler with the fixed arguments of an override."""

    planning: PlanningHandler
    run: Callable[[Any, RunningCall], Awaitable[Any]]
    complete: Callable[[Any], dict[str, Any]]

    async def __call__(self, data: Any, ctx: RunningCall) -> Any:
        """Run the handler."""
        return await self.run(data, ctx)

    def plan_call(self, data: Any) -> Sequence[PlannedCall]:
        """Return the planned calls of the handler. Raises InvalidArguments."""
        return self.planning.plan_call(self.complete(data))
