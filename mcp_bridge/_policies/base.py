"""The bases of the policies: what they get from a bridge, and the options with which each selects calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache, partial
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


def parse_list(value: Any) -> Any:
    """Return a single text as a list of one."""
    return (value,) if isinstance(value, str) else value


def add_single_schema(schema: dict[str, Any]) -> None:
    """Allow a single item in the schema of a list."""
    items = schema.pop("items")
    schema.pop("type")
    schema["anyOf"] = [{"type": "array", "items": items}, items]


Patterns = Annotated[tuple[str, ...], BeforeValidator(parse_list), Field(json_schema_extra=add_single_schema)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyServices:
    """Services of a bridge for its policies.

    Attributes:
        name: The name of the server, for the keys in a shared store.
        directory: The folder of the settings file, where relative paths start.
        redis_url: The Redis of `state.store`; None if there is none.
        redactor: Removes secrets, and patterns of the policy `redact`, from what is logged or recorded.
    """

    name: str = "mcp-bridge"
    directory: Path = field(default_factory=Path)
    redis_url: str | None = None
    redactor: Redactor = field(default_factory=Redactor)


class ToolPolicy(SettingsModel, Policy):
    """A policy for calls to tools. Its fields are its options in the settings.

    Those of this class select tools and principals: a tool matches if it matches each of the keys that are given.
    Without any of these keys, the policy applies to all calls to tools.
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
        description="Patterns of the names of [principals](security.md#principals). The name of a caller without a "
        "principal, such as over stdio, is empty. Default: all callers.",
    )

    permits: ClassVar[bool] = False
    """Whether the policy permits what it selects. A source chooses the original names of its tools, so these never
    select a tool for such a policy, and never exclude one from a policy that restricts."""

    checks_calls: ClassVar[bool] = False
    """Whether the layers call `applies_to_call` themselves. Otherwise they run only for calls that match."""

    def use_services(self, services: PolicyServices) -> None:
        """Get ready for calls; called once, before `bind`. Raises ConfigError for options that cannot be used here."""

    def applies_to_entry(self, entry: Any) -> bool:
        """Whether calls of this entry match, for at least some principals."""
        return isinstance(entry, ToolEntry) and self.applies_to_tool(entry)

    def applies_to_tool(self, tool: ToolEntry) -> bool:
        """Whether calls to this tool match, for at least some principals."""
        published, names = (tool.name,), (tool.name, tool.name_in_source)
        return (
            (includes(self.tools, published, names) if self.permits else includes(self.tools, names, published))
            and includes(self.sources, (tool.owner,))
            and includes(self.tags, tool.tags)
            and all(_read_annotation(tool, name) == value for name, value in self.annotations.items())
        )

    def limit_layer(self, layer: Layer) -> Layer:
        """Return a layer that runs only for calls that match, if that can differ between calls of an entry."""
        return layer if self.checks_calls or not self.selects_calls else partial(self._run_if_selected, layer)

    @property
    def selects_calls(self) -> bool:
        """Whether `applies_to_call` can differ between calls of an entry."""
        return bool(self.principals)

    def applies_to_call(self, call: ToolCall, ctx: RunningCall) -> bool:
        """Whether a call of a matching entry matches."""
        return not self.principals or _includes_principal(self.principals, ctx.principal or "")

    async def _run_if_selected(self, layer: Layer, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        return await (layer(call, ctx, call_next) if self.applies_to_call(call, ctx) else call_next(call, ctx))


class CallPolicy(ToolPolicy):
    """A policy for calls to tools, resources and prompts. Without any of its keys, it applies to all calls.

    `resources` and `prompts` select requests for these; keys for tools alone leave them out.
    """

    resources: Patterns = Field(default=(), description="Patterns of the URIs of resources that clients read.")
    prompts: Patterns = Field(default=(), description="Patterns of the names of prompts that clients get.")

    def applies_to_entry(self, entry: Any) -> bool:
        """Whether some calls of this entry match: for a resource template, the URI of each call decides."""
        if self.selects_everything:
            return True
        if isinstance(entry, ToolEntry):
            return self.selects_tools and self.applies_to_tool(entry)
        if isinstance(entry, PromptEntry):
            return bool(self.prompts) and includes(self.prompts, (entry.name,))
        if isinstance(entry, ResourceEntry):
            return bool(self.resources) and includes_uri(self.resources, entry.uri)
        if isinstance(entry, CompletionEntry) and isinstance(entry.completed, ResourceTemplate):
            return bool(self.resources) and includes_uri(self.resources, entry.completed.uri_template)
        return self.applies_to_entry(entry.completed) if isinstance(entry, CompletionEntry) else bool(self.resources)

    def applies_to_call(self, call: ToolCall, ctx: RunningCall) -> bool:
        """Whether a call of a matching entry matches: that of a resource template has its own URI."""
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
        """Whether `applies_to_entry` decides about this entry alone, and not the URI in each call."""
        return self.selects_everything or not isinstance(entry, ResourceTemplate)

    @property
    def selects_tools(self) -> bool:
        """Whether keys for tools are given."""
        return bool(self.tools or self.sources or self.tags or self.annotations)

    @property
    def selects_everything(self) -> bool:
        """Whether calls to every tool, resource and prompt match."""
        return not (self.selects_tools or self.resources or self.prompts)


def includes(patterns: Sequence[str], names: Iterable[str], excludable: Iterable[str] | None = None) -> bool:
    """Whether one of the names matches a pattern, and none matches a pattern that begins with `!`.

    Without patterns that include something, everything is included. `excludable` are the names that the patterns with
    `!` are compared with, if they differ from `names`.
    """
    names = tuple(names)
    excluding = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    if any(fnmatchcase(name, pattern) for name in excludable or names for pattern in excluding):
        return False
    including = [pattern for pattern in patterns if not pattern.startswith("!")]
    return not including or any(fnmatchcase(name, pattern) for name in names for pattern in including)


@lru_cache(maxsize=1024)
def _includes_principal(patterns: tuple[str, ...], principal: str) -> bool:
    return includes(patterns, (principal,))


def is_built_in(entry: Any) -> bool:
    """Whether it is a tool of the server itself. Such a tool runs others, which have their own policies."""
    return isinstance(entry, BuiltInEntry)


def has_hint(tool: Any, *names: str) -> bool:
    """Whether the entry is a tool that declares one of these annotations as true."""
    return isinstance(tool, ToolEntry) and any(tool.annotations.get(name) is True for name in names)


def _read_annotation(tool: ToolEntry, name: str) -> Any:
    if name == "destructiveHint" and has_hint(tool, READ_ONLY):
        return tool.annotations.get(name, False)
    return tool.annotations.get(name, HINTS.get(name))
