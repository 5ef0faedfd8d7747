"""The base classes of the policies in this package, with the options that select calls.

`ToolPolicy` applies to tools, `CallPolicy` to resources and prompts too. `bind` decides once for each entry whether
calls of it can match, so that a policy costs nothing for other entries. Differences between calls of one entry,
such as the principal, are decided in the layer of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from mcp_bridge._contracts.listing import BuiltInEntry
from mcp_bridge._contracts.policy import CallNext, Layer, Policy
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import CompletionEntry, ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._json_schema.uris import includes_uri
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._settings.sections import SettingsModel
from mcp_bridge._settings.values import Annotation

READ_ONLY, IDEMPOTENT = "readOnlyHint", "idempotentHint"
"""Annotations of tools (server/tools, ToolAnnotations). Both are false unless a tool declares them."""
HINTS = {READ_ONLY: False, "destructiveHint": True, IDEMPOTENT: False, "openWorldHint": True}
"""The values of annotations that a tool does not declare, from the specification."""


def to_tuple(value: Any) -> Any:
    """Return a single text as a tuple of one, and other values unchanged."""
    if isinstance(value, str):
        return (value,)
    return value


def add_single_schema(schema: dict[str, Any]) -> None:
    """Change the JSON Schema of a list so that it also allows a single item without a list."""
    items = schema.pop("items")
    schema.pop("type")
    schema["anyOf"] = [{"type": "array", "items": items}, items]


Patterns = Annotated[tuple[str, ...], BeforeValidator(to_tuple), Field(json_schema_extra=add_single_schema)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyServices:
    """Services of a bridge for its policies.

    Attributes:
        name: The name of the server, for the keys in a shared store.
        directory: The folder of the settings file, where relative paths start.
        redis_url: The Redis of `state.store`; None if there is none.
        redactor: Removes secrets, and patterns of the policy `redact`, from logs and records.
    """

    name: str = "mcp-bridge"
    directory: Path = field(default_factory=Path)
    redis_url: str | None = None
    redactor: Redactor = field(default_factory=Redactor)


class ToolPolicy(SettingsModel, Policy):
    """A policy for calls to tools. Its fields are its options in the settings.

    The options of this class select tools and principals: a tool matches if it matches each option that is not empty.
    Without any of these options, the policy applies to all calls to tools.

    >>> class Pause(ToolPolicy):
    ...     seconds: float = 1.0
    >>> Pause(tools="get_*", principals=["ann", "bob"], seconds=2).tools
    ('get_*',)
    """

    tools: Patterns = Field(
        default=(),
        description="Patterns (`*`, `?`) of the names of tools: the published ones, and for policies that restrict "
        "calls also those in their sources. A pattern that begins with `!` excludes tools. Default: all tools.",
    )
    sources: Patterns = Field(default=(), description="Patterns of the names of the sources that the tools are from.")
    tags: Patterns = Field(default=(), description="Patterns of tags, of which a tool needs at least one.")
    annotations: dict[Annotation, bool] = Field(
        default={},
        description="Values of annotations, such as `destructiveHint: true`. For annotations that a tool does not "
        "declare, the defaults of MCP apply.",
    )
    principals: Patterns = Field(
        default=(),
        description="Patterns of the names of [principals](principals.md). The name of a caller without a "
        "principal, such as over stdio, is empty. Default: all callers.",
    )

    permits: ClassVar[bool] = False
    """Whether the policy permits the calls that it selects. A source chooses the original names of its tools, so these
    never select a tool for such a policy, and never exclude a tool from a policy that restricts calls."""

    checks_calls: ClassVar[bool] = False
    """Whether the layers call `applies_to_call` themselves. Otherwise they run only for calls that match."""

    def use_services(self, services: PolicyServices) -> None:
        """Prepare for calls; called once, before `bind`. Raises ConfigError for options that cannot be used here."""

    def applies_to_entry(self, entry: Any) -> bool:
        """Return whether calls of this entry match, for at least some principals."""
        return isinstance(entry, ToolEntry) and self.applies_to_tool(entry)

    def applies_to_tool(self, tool: ToolEntry) -> bool:
        """Return whether calls to this tool match, for at least some principals."""
        published_name = (tool.name,)
        all_names = (tool.name, tool.name_in_source)
        # The name in the source may only make a policy stricter, because the source chooses it.
        if self.permits:
            is_included = includes(self.tools, published_name, excludable=all_names)
        else:
            is_included = includes(self.tools, all_names, excludable=published_name)
        return (
            is_included
            and includes(self.sources, (tool.owner,))
            and includes(self.tags, tool.tags)
            and all(_read_annotation(tool, name) == value for name, value in self.annotations.items())
        )

    def limit_layer(self, layer: Layer) -> Layer:
        """Return a layer that runs only for calls that match, if that can differ between calls of an entry."""
        if self.checks_calls or not self.selects_calls:
            return layer

        async def run_if_selected(call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
            if self.applies_to_call(call, ctx):
                return await layer(call, ctx, call_next)
            return await call_next(call, ctx)

        return run_if_selected

    @property
    def selects_calls(self) -> bool:
        """Whether `applies_to_call` can differ between calls of an entry."""
        return bool(self.principals)

    def applies_to_call(self, call: ToolCall, ctx: RunningCall) -> bool:
        """Return whether a call of a matching entry matches."""
        return not self.principals or _includes_principal(self.principals, ctx.principal or "")


class CallPolicy(ToolPolicy):
    """A policy for calls to tools, resources and prompts. Without any option that selects calls, it applies to all.

    `resources` and `prompts` select requests for these. With options for tools alone, no such request matches.

    >>> CallPolicy(resources="file:///*").selects_tools
    False
    """

    resources: Patterns = Field(default=(), description="Patterns of the URIs of resources that clients read.")
    prompts: Patterns = Field(default=(), description="Patterns of the names of prompts that clients get.")

    def applies_to_entry(self, entry: Any) -> bool:
        """Return whether some calls of this entry match: for a resource template, the URI of each call decides."""
        if self.selects_everything:
            return True
        if isinstance(entry, ToolEntry):
            return self.selects_tools and self.applies_to_tool(entry)
        if isinstance(entry, PromptEntry):
            return bool(self.prompts) and includes(self.prompts, (entry.name,))
        if isinstance(entry, ResourceEntry):
            return bool(self.resources) and includes_uri(self.resources, entry.uri)
        if isinstance(entry, CompletionEntry):
            if isinstance(entry.completed, ResourceTemplate):
                return bool(self.resources) and includes_uri(self.resources, entry.completed.uri_template)
            return self.applies_to_entry(entry.completed)
        # For a resource template, `applies_to_call` compares the URI of each call.
        return bool(self.resources)

    def applies_to_call(self, call: ToolCall, ctx: RunningCall) -> bool:
        """Return whether a call of a matching entry matches. A call of a resource template has a URI to match."""
        if not super().applies_to_call(call, ctx):
            return False
        if call.kind != "resource" or self.selects_everything:
            return True
        return bool(self.resources) and includes_uri(self.resources, call.name)

    @property
    def selects_calls(self) -> bool:
        """Whether `applies_to_call` can differ between calls of an entry: those of a template have different URIs."""
        return super().selects_calls or not self.selects_everything

    def decides_for(self, entry: Any) -> bool:
        """Return whether `applies_to_entry` decides about all calls of this entry.

        For a resource template it does not, because the URI of each call decides.
        """
        return self.selects_everything or not isinstance(entry, ResourceTemplate)

    @property
    def selects_tools(self) -> bool:
        """Whether there are options for tools."""
        return bool(self.tools or self.sources or self.tags or self.annotations)

    @property
    def selects_everything(self) -> bool:
        """Whether calls to every tool, resource and prompt match."""
        return not (self.selects_tools or self.resources or self.prompts)


def includes(patterns: Sequence[str], names: Iterable[str], excludable: Iterable[str] | None = None) -> bool:
    """Return whether one of the names matches a pattern, and none matches a pattern with `!`.

    If all patterns begin with `!`, every other name is included. `excludable` are the names for the patterns with `!`,
    if they differ from `names`.
    """
    names = tuple(names)
    excludable = tuple(excludable or names)
    has_including_pattern = False
    is_included = False
    for pattern in patterns:
        if not pattern.startswith("!"):
            has_including_pattern = True
            is_included = is_included or any(fnmatchcase(name, pattern) for name in names)
        elif any(fnmatchcase(name, pattern[1:]) for name in excludable):
            return False
    return is_included or not has_including_pattern


@lru_cache(maxsize=1024)
def _includes_principal(patterns: tuple[str, ...], principal: str) -> bool:
    return includes(patterns, (principal,))


def is_built_in(entry: Any) -> bool:
    """Return whether an entry is a tool of the server itself. Such a tool runs others, to which policies apply."""
    return isinstance(entry, BuiltInEntry)


def has_hint(tool: Any, *names: str) -> bool:
    """Return whether the entry is a tool that declares one of these annotations as true."""
    return isinstance(tool, ToolEntry) and any(tool.annotations.get(name) is True for name in names)


def _read_annotation(tool: ToolEntry, name: str) -> Any:
    """Return the value of an annotation, or its default in the specification."""
    # The default of `destructiveHint` is true, but the hint has a meaning only for tools that are not read-only.
    if name == "destructiveHint" and has_hint(tool, READ_ONLY):
        return tool.annotations.get(name, False)
    return tool.annotations.get(name, HINTS.get(name))
