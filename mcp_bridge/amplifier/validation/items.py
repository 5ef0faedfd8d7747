"""The checklist: every item that is checked, how strict it is, and where that stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["required", "recommended"]
KINDS = ("tool", "hook", "provider", "orchestrator", "context")
"""The types of modules."""
MODULE, SOURCE, BRIDGE, CORE = "every contract", "Module Source Protocol", "mcp-bridge", "amplifier-core"
"""Where items come from that are not of one type's contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of the checklist. `id` is stable; `kind` is None for what holds for modules of every type."""

    id: str
    level: Level
    contract: str
    what: str
    kind: str | None = None


def checklist(kind: str | None) -> list[Item]:
    """What is asked of a module of a type; where the type is not known, of a module of any."""
    return [item for item in ITEMS if item.kind in (None, kind)]


def _rows(kind: str | None, level: Level, *rows: tuple[str, str, str]) -> list[Item]:
    return [Item(id=name, level=level, contract=contract, what=what, kind=kind) for name, contract, what in rows]


def _of(kind: str, required: Sequence[tuple[str, str]], recommended: Sequence[tuple[str, str]]) -> list[Item]:
    """The items of one type; those whose line is in no contract begin with `+`."""
    made: list[Item] = []
    for level, rows in (("required", required), ("recommended", recommended)):
        for name, what in rows:
            contract = BRIDGE if what.startswith("+") else f"{kind.capitalize()} contract"
            strict: Level = "required" if level == "required" else "recommended"
            made += _rows(kind, strict, (f"{kind}.{name}", contract, what.removeprefix("+")))
    return made


_FIRST = _rows(
    None,
    "required",
    ("structure.package", SOURCE, "there is a package, or a file, that can be imported"),
    ("structure.name", SOURCE, "its importable name is one of Python, and not one of Python's own modules"),
    ("structure.pyproject", MODULE, "a folder has a `pyproject.toml` that can be read"),
    ("structure.entry_point", MODULE, "an entry point of the group `amplifier.modules` names a module that is there"),
    ("structure.import", SOURCE, "it can be imported"),
    ("mount.function", MODULE, "what the entry point names, or `mount`, can be called"),
    ("mount.async", MODULE, "that is an `async def`"),
    ("mount.parameters", MODULE, "it takes a coordinator and a configuration"),
    ("mount.works", MODULE, "mounting raises nothing and ends in time"),
    ("mount.mounts", MODULE, "it mounts what its type says, or registers handlers"),
    ("mount.twice", BRIDGE, "it can be mounted for two sessions at once, and is the same in both"),
    ("mount.ready", CORE, "`on_session_ready(coordinator)`, where it has one, raises nothing and ends in time"),
    ("mount.cleanup", MODULE, "its cleanups raise nothing and end in time"),
    ("stdout", BRIDGE, "nothing is written to stdout: over stdio that is the line to the client"),
) + _rows(
    None,
    "recommended",
    ("structure.type", CORE, "`__amplifier_module_type__` says what it is"),
    ("mount.answer", MODULE, "`mount` answers with what it mounted, a cleanup, or None"),
    ("mount.leftovers", BRIDGE, "after its cleanups no process and no thread of it is left"),
    ("events", MODULE, "it contributes the names of its events to `observability.events`"),
)

_TOOL = _of(
    "tool",
    [
        ("name", "`name` is text"),
        ("description", "`description` is text"),
        ("execute", "`execute(input)` is an `async def`"),
        ("result", "`execute` answers with a ToolResult, in either form"),
        ("errors", "`execute` raises nothing, whatever the arguments"),
        ("time", "+`execute` answers in time"),
        ("cancel", "+a call that is cancelled stops"),
        ("schema_valid", "+its schema, where it has one, is a JSON Schema of an object"),
    ],
    [
        ("schema", "it has `input_schema` or `get_schema()`"),
        ("validates", "arguments that do not fit its schema are answered with a failure"),
        ("logs", "it logs what it does"),
        ("input", "+it leaves the arguments as they are"),
    ],
)
_HOOK = _of(
    "hook",
    [
        ("handler", "every handler is an `async def` that takes an event and its data"),
        ("result", "every handler answers with a valid HookResult, for each of its events"),
        ("errors", "no handler raises, whatever the values in the data"),
        ("time", "+every handler decides in time"),
    ],
    [
        ("unregisters", "after its cleanups no handler is registered"),
        ("priority", "priorities are between 10 and 90"),
        ("logs", "it logs that it registers handlers"),
        ("config", "it reads its configuration"),
        ("events", "+its events are events, not nearly ones"),
        ("data", "+it leaves the data as it is"),
    ],
)
_PROVIDER = _of(
    "provider",
    [
        (
            "protocol",
            "`name`, `get_info`, `list_models`, `complete` and `parse_tool_calls` are there as they are called",
        ),
        ("info", "`get_info()` answers with a ProviderInfo"),
        ("calls", "`parse_tool_calls` finds the calls of a ChatResponse, and none where there is none"),
    ],
    [
        ("degrades", "without a configuration, mounting raises nothing"),
        ("debug", "it reads a configuration key for debugging"),
        ("cleanup", "it has a cleanup"),
    ],
)
_ORCHESTRATOR = _of(
    "orchestrator",
    [
        ("execute", "`execute(prompt, context, providers, tools, hooks)` is an `async def`"),
        ("answers", "a turn with a call of a tool ends with text"),
        ("events", "a turn emits provider:request, provider:response, tool:pre and tool:post"),
        ("hooks", "what hooks decide on tool:pre is done: deny, modify, inject_context, ask_user"),
        ("context", "prompt, answer and results are added to the context, which is asked for what a request may have"),
    ],
    [
        ("providers", "it works with several providers"),
        ("limit", "a model that calls tools without end is stopped"),
        ("provider_errors", "a provider that fails does not make it raise"),
    ],
)
_CONTEXT = _of(
    "context",
    [
        ("protocol", "all five methods are there, as an `async def`, as they are called"),
        ("stores", "messages are kept as they are added or set, and are gone once cleared"),
        ("order", "messages come in the order of the conversation"),
        ("compacts", "a request gets fewer messages where they are too many"),
        ("keeps", "compacting leaves the history whole"),
        ("pairs", "compacting leaves no tool result without its call, and no call without its result"),
    ],
    [
        ("tokens", "it counts tokens: a few long messages are compacted, too"),
        ("events", "compacting emits context:pre_compact and context:post_compact"),
        ("system", "compacting keeps the system messages"),
        ("concurrent", "messages that are added at the same time are all kept"),
        ("config", "it reads its configuration"),
        ("copies", "the lists that it gives are the caller's own"),
    ],
)
ITEMS: tuple[Item, ...] = (*_FIRST, *_TOOL, *_HOOK, *_PROVIDER, *_ORCHESTRATOR, *_CONTEXT)
"""The whole checklist, in the order in which it is told."""
