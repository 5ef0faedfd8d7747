"""The checklist: what is checked of each type of module, and how each item came out for one module."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["required", "recommended"]
State = Literal["passed", "failed", "warned", "skipped"]
KINDS = ("tool", "hook", "provider", "orchestrator", "context")  # the types of modules
BRIDGE = "mcp-bridge"
_SOURCE, _MODULE, _CORE = "Module Source Protocol", "every contract", "amplifier-core"
_TOOL, _HOOK, _PROVIDER = "Tool contract", "Hook contract", "Provider contract"
_ORCHESTRATOR, _CONTEXT = "Orchestrator contract", "Context contract"
_PRECEDENCE = ("failed", "passed", "skipped")


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """A line of the checklist, with the `contract` that it is from. `id` is stable."""

    id: str
    level: Level
    contract: str
    what: str

    @property
    def kind(self) -> str | None:
        """The type of modules that the item is for; None for all."""
        prefix = self.id.partition(".")[0]
        return prefix if prefix in KINDS else None


def list_items(kind: str | None) -> list[ChecklistItem]:
    """The items for a type of module, or those for all types where it is unknown."""
    return [item for item in ITEMS if item.kind in (None, kind)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFinding:
    """How an item came out: `found` describes it, or why it was not checked; `advice` is how to fix it."""

    item: ChecklistItem
    state: State
    found: str = ""
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self.item), "state": self.state, "found": self.found, "advice": self.advice}


class ItemFindings:
    """What is known about one module. An item that has failed once stays failed, with its first description."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str, str]] = {}

    def add(self, item: str, state: str, found: str = "", advice: str = "") -> None:
        """Record that an item `failed`, `passed` or was `skipped`."""
        known = self._known.get(item)
        if known is None or _PRECEDENCE.index(state) < _PRECEDENCE.index(known[0]):
            self._known[item] = (state, found, advice)

    def has_failed(self, item: str) -> bool:
        return self._known.get(item, ("",))[0] == "failed"

    def build_findings(self, kind: str | None) -> list[ItemFinding]:
        """A finding for every item of a type. An item without a result was not reached."""
        return [self._build_finding(item) for item in list_items(kind)]

    def _build_finding(self, item: ChecklistItem) -> ItemFinding:
        state, found, advice = self._known.get(item.id, ("skipped", "not reached", ""))
        if state == "failed":
            severity: State = "failed" if item.level == "required" else "warned"
            return ItemFinding(item=item, state=severity, found=found, advice=advice)
        return ItemFinding(item=item, state="passed" if state == "passed" else "skipped", found=found)


def list_ids(findings: Iterable[ItemFinding], state: State) -> list[str]:
    return [finding.item.id for finding in findings if finding.state == state]


_ROWS: tuple[tuple[str, Level, str, str], ...] = (
    ("structure.package", "required", _SOURCE, "it has a package or a file that can be imported"),
    ("structure.name", "required", _SOURCE, "its import name is valid, and not that of a standard library module"),
    ("structure.pyproject", "required", _MODULE, "its folder has a `pyproject.toml` that can be read"),
    ("structure.entry_point", "required", _MODULE, "an entry point of `amplifier.modules` names a module that exists"),
    ("structure.import", "required", _SOURCE, "it can be imported"),
    ("mount.function", "required", _MODULE, "the entry point, or `mount`, is callable"),
    ("mount.async", "required", _MODULE, "the mount function is an `async def`"),
    ("mount.parameters", "required", _MODULE, "the mount function takes a coordinator and a configuration"),
    ("mount.works", "required", _MODULE, "mounting raises nothing and ends in time"),
    ("mount.mounts", "required", _MODULE, "it mounts what its type requires, or registers handlers"),
    ("mount.twice", "required", BRIDGE, "it can be mounted for two sessions at once, with the same result"),
    ("mount.ready", "required", _CORE, "`on_session_ready(coordinator)`, if present, raises nothing and ends in time"),
    ("mount.cleanup", "required", _MODULE, "its cleanups raise nothing and end in time"),
    ("stdout", "required", BRIDGE, "it writes nothing to stdout, which carries the protocol over stdio"),
    ("structure.type", "recommended", _CORE, "`__amplifier_module_type__` declares its type"),
    ("mount.answer", "recommended", _MODULE, "`mount` returns what it mounted, a cleanup, or None"),
    ("mount.leftovers", "recommended", BRIDGE, "its cleanups leave none of its processes and threads behind"),
    ("events", "recommended", _MODULE, "it contributes the names of its events to `observability.events`"),
    ("tool.name", "required", _TOOL, "`name` is a string"),
    ("tool.description", "required", _TOOL, "`description` is a string"),
    ("tool.execute", "required", _TOOL, "`execute(input)` is an `async def`"),
    ("tool.result", "required", _TOOL, "`execute` returns a ToolResult, in either form"),
    ("tool.errors", "required", _TOOL, "`execute` does not raise for valid arguments"),
    ("tool.time", "required", BRIDGE, "`execute` returns in time"),
    ("tool.cancel", "required", BRIDGE, "a call that is cancelled stops"),
    ("tool.schema_valid", "required", BRIDGE, "its schema, if it has one, is a valid JSON Schema for an object"),
    ("tool.schema", "recommended", _TOOL, "it has `input_schema` or `get_schema()`"),
    ("tool.validates", "recommended", _TOOL, "invalid arguments result in a failure"),
    ("tool.logs", "recommended", _TOOL, "it logs what it does"),
    ("tool.input", "recommended", BRIDGE, "it does not change the arguments"),
    ("hook.handler", "required", _HOOK, "every handler is an `async def` that takes an event and its data"),
    ("hook.result", "required", _HOOK, "every handler returns a valid HookResult, for each of its events"),
    ("hook.errors", "required", _HOOK, "no handler raises, whatever the values in the data"),
    ("hook.time", "required", BRIDGE, "every handler decides in time"),
    ("hook.unregisters", "recommended", _HOOK, "its cleanups unregister every handler"),
    ("hook.priority", "recommended", _HOOK, "priorities are between 10 and 90"),
    ("hook.logs", "recommended", _HOOK, "it logs the registration of its handlers"),
    ("hook.config", "recommended", _HOOK, "it reads its configuration"),
    ("hook.events", "recommended", BRIDGE, "the names of its events are not misspelled"),
    ("hook.data", "recommended", BRIDGE, "it does not change the data in place"),
    ("provider.protocol", "required", _PROVIDER, "it has the five members of the contract, with its signatures"),
    ("provider.info", "required", _PROVIDER, "`get_info()` returns a ProviderInfo"),
    ("provider.calls", "required", _PROVIDER, "`parse_tool_calls` returns exactly the calls of a ChatResponse"),
    ("provider.degrades", "recommended", _PROVIDER, "mounting without a configuration raises nothing"),
    ("provider.debug", "recommended", _PROVIDER, "it reads a configuration key for debugging"),
    ("provider.cleanup", "recommended", _PROVIDER, "it has a cleanup"),
    ("orchestrator.execute", "required", _ORCHESTRATOR, "`execute` is an `async def` with the contract's parameters"),
    ("orchestrator.answers", "required", _ORCHESTRATOR, "a turn with a tool call ends with text"),
    ("orchestrator.events", "required", _ORCHESTRATOR, "a turn emits provider:request/response and tool:pre/post"),
    ("orchestrator.hooks", "required", _ORCHESTRATOR, "it follows deny, modify, inject_context, ask_user on tool:pre"),
    ("orchestrator.context", "required", _ORCHESTRATOR, "it adds messages to the context and gets requests from it"),
    ("orchestrator.providers", "recommended", _ORCHESTRATOR, "it works with several providers"),
    ("orchestrator.decisions", "recommended", BRIDGE, "it follows the decisions of hooks on the other events of a run"),
    ("orchestrator.limit", "recommended", _ORCHESTRATOR, "it stops a model that never stops calling tools"),
    ("orchestrator.provider_errors", "recommended", _ORCHESTRATOR, "it does not raise when a provider fails"),
    ("context.protocol", "required", _CONTEXT, "all five methods are `async def`, callable as the contract says"),
    ("context.stores", "required", _CONTEXT, "it keeps messages as they are added or set, and none after clearing"),
    ("context.order", "required", _CONTEXT, "messages are in the order of the conversation"),
    ("context.compacts", "required", _CONTEXT, "a request gets fewer messages if they exceed the budget"),
    ("context.keeps", "required", _CONTEXT, "compacting does not change the history"),
    ("context.pairs", "required", _CONTEXT, "compacting never separates a tool result from its call"),
    ("context.tokens", "recommended", _CONTEXT, "it counts tokens: a few long messages are compacted as well"),
    ("context.events", "recommended", _CONTEXT, "compacting emits context:pre_compact and context:post_compact"),
    ("context.system", "recommended", _CONTEXT, "compacting keeps the system messages"),
    ("context.concurrent", "recommended", _CONTEXT, "it keeps all messages that are added at the same time"),
    ("context.config", "recommended", _CONTEXT, "it reads its configuration"),
    ("context.copies", "recommended", _CONTEXT, "its lists are copies, which the caller may change"),
)
ITEMS = tuple(ChecklistItem(*row) for row in _ROWS)  # in the order in which they are shown
