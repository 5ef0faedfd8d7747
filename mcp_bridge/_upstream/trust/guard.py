"""DefinitionGuard: what of another server's offer is published, and what waits until the user has accepted it."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio
import orjson
from anyio import to_thread

from mcp_bridge._contracts.errors import DefinitionChanged
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.source import DefinitionFile, Offer
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._json_schema.schema_repair import reduce_schema
from mcp_bridge._json_schema.size_limits import count_expanded, may_have_references
from mcp_bridge._json_schema.walking import get_mapping, walk_schemas
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._upstream.trust.definition_lock import Definition, DefinitionLockError
from mcp_bridge._upstream.trust.fingerprints import (
    INSTRUCTIONS,
    DefinitionKey,
    PublishedEntry,
    compute_fingerprint,
    describe_definition,
    describe_offer,
    make_key,
)
from mcp_bridge._upstream.trust.screening import META_LIMITS, SCHEMA_LIMITS, TextScreen, find_hidden_text

logger = logging.getLogger("mcp_bridge.trust")

MAX_PATTERNS = 250
"""The maximum number of patterns of a schema, each of which reads a whole text. They run in linear time."""
MAX_EXPANDED = 20_000
"""The maximum number of values of a schema if its references are followed; checking so many takes some 50 ms."""
CHECK_INTERVAL = 1.0
"""Seconds between checks whether the user has accepted definitions, while some wait for it."""

OMITTED = "..."
"""The line of a difference in place of unchanged lines."""
_CONTEXT = 2
"""Unchanged lines that are shown around a change."""

ChangePolicy = Literal["quarantine", "warn", "ignore"]
NewToolPolicy = Literal["publish", "quarantine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDefinition:
    """A definition that the user has not accepted. `accepted` is the one before; None for a new entry."""

    server: str
    key: DefinitionKey
    accepted: Definition | None
    current: Definition

    def list_changed_parts(self) -> list[str]:
        """List the parts of the definition that differ, such as `description`."""
        old_definition = self.accepted or {}
        keys = [*self.current, *(key for key in old_definition if key not in self.current)]
        return [key for key in keys if (old_definition.get(key) or None) != (self.current.get(key) or None)]

    def list_differences(self) -> list[tuple[str, list[str]]]:
        """List the parts that differ, each with its lines: old ones begin with `-`, new ones with `+`."""
        old_definition, differences = self.accepted or {}, []
        for keyword in self.list_changed_parts():
            old, new = _split_lines(old_definition.get(keyword)), _split_lines(self.current.get(keyword))
            lines = list(difflib.unified_diff(old, new, n=_CONTEXT, lineterm=""))[3:]
            differences.append((keyword, [OMITTED if line.startswith("@@") else line for line in lines]))
        return differences


class DefinitionGuard:
    """Reviews the offers of the server `server`.

    Its schemas are bounded and its texts screened. An entry whose definition differs from the one that was seen first
    is handled as `changed_tools` says, a new one of a known server as `new_tools` says. Changed instructions are
    replaced by those that the user has accepted. Without a `lock`, definitions are remembered until the process ends.
    `pending` has the definitions that wait for the user. Without `records`, the file is only read.
    """

    def __init__(
        self,
        server: str,
        *,
        changed_tools: ChangePolicy = "quarantine",
        new_tools: NewToolPolicy = "publish",
        lock: DefinitionFile | None = None,
    ) -> None:
        self.pending: Sequence[PendingDefinition] = ()
        self.records = True
        self._server = server
        self._changed_tools = changed_tools
        self._new_tools = new_tools
        self._lock = lock
        self._remembered: dict[DefinitionKey, Definition] | None = None
        self._stored: Mapping[DefinitionKey, Definition] | None = None
        self._reviewed = 0
        self._is_readable = True
        self._waiting = anyio.Event()
        self._is_stale = False

    def use_lock(self, lock: DefinitionFile) -> None:
        """Keep accepted definitions in this file from now on."""
        self._lock = lock

    def review(self, offer: Offer, *, is_stored: bool = False) -> Offer:
        """Return what is published of an offer, with a line in its problems for everything that is not.

        What is published with a change has a line in its notes; changed texts come first.

        New definitions of an offer that `is_stored` are not remembered: they may no longer be those of the server.
        """
        problems, notes = list(offer.problems), list(offer.notes)
        reduced = [_reduce_schemas(tool, notes) for tool in offer.tools]
        offer = replace(
            offer,
            tools=[tool for tool in reduced if _has_valid_schemas(tool, problems)],
            resources=[entry for entry in offer.resources if _has_valid_meta(entry, problems)],
            templates=[entry for entry in offer.templates if _has_valid_meta(entry, problems)],
            prompts=[
                entry
                for entry in offer.prompts
                if _has_readable_names(entry, problems) and _has_valid_meta(entry, problems)
            ],
        )
        if self._changed_tools != "ignore":
            offer = self._hold_back(offer, problems, is_stored=is_stored)
        screen = TextScreen()
        reviewed = replace(
            offer,
            tools=[screen.screen_tool(tool) for tool in offer.tools],
            resources=[screen.screen_resource(entry) for entry in offer.resources],
            templates=[screen.screen_resource(entry) for entry in offer.templates],
            prompts=[screen.screen_prompt(entry) for entry in offer.prompts],
            problems=problems,
            server=screen.screen_server(offer.server) if offer.server is not None else None,
        )
        return replace(reviewed, notes=[*screen.list_changes(), *notes])

    def check_entry(self, key: DefinitionKey) -> None:
        """Raise DefinitionChanged if the definition of an entry waits for the user, or may do so."""
        if self._changed_tools == "warn":
            return
        if not self._is_readable:
            raise DefinitionChanged(_describe_unknown(key))
        pending = next((definition for definition in self.pending if definition.key == key), None)
        if pending is not None:
            raise DefinitionChanged(self._advise(pending))

    def find_changed(self, tools: Iterable[ToolEntry], published: Iterable[ToolEntry]) -> frozenset[str]:
        """Return the names of the tools whose published definitions are different, and which must not be called."""
        if self._changed_tools != "quarantine":
            return frozenset()
        known = {tool.name: describe_definition(tool) for tool in published}
        found = ((tool.name, describe_definition(tool)) for tool in tools if tool.name in known)
        return frozenset(name for name, current in found if not _is_same(known[name], current))

    async def accept_definition(self, name: str, fingerprint: str) -> bool:
        """Accept the pending definition of an entry if it has this fingerprint, and return whether it has.

        The source publishes it within a second. Raises DefinitionLockError.
        """
        candidates = [definition for definition in self.pending if str(definition.key) == name]
        pending = next(
            (definition for definition in candidates if compute_fingerprint(definition.current) == fingerprint), None
        )
        if pending is None:
            return False
        accepted = {pending.key: pending.current}
        if self._lock is not None and self.records:
            await to_thread.run_sync(self._lock.accept_definitions, self._server, accepted)
        self._remembered = {**(self._remembered or {}), **accepted}
        self._is_stale = True
        return True

    async def follow_lock(self, republish: Callable[[], None]) -> None:
        """Call `republish` whenever definitions were accepted, here or in the lock file, while some wait for that."""
        while True:
            await self._waiting.wait()
            await anyio.sleep(CHECK_INTERVAL)
            if self._is_stale or (self._lock is not None and self._lock.modified != self._reviewed):
                self._is_stale = False
                republish()

    def _hold_back(self, offer: Offer, problems: list[str], *, is_stored: bool) -> Offer:
        """Return the offer without the entries whose definitions the user has not accepted.

        Tools are replaced by others that fail, so that calls report why.
        """
        definitions = describe_offer(offer)
        try:
            accepted = self._read_accepted()
        except DefinitionLockError as error:
            self._is_readable = False
            self._set_pending([], is_waiting=True)
            problems.append(str(error))
            reasons = {key: _describe_unknown(key) for key in definitions}
            return offer if self._changed_tools == "warn" else _remove_entries(offer, reasons, None)
        self._is_readable = True
        new, pending = self._compare(definitions, accepted)
        if new and not is_stored:
            self._accept(new, problems)
        self._set_pending(pending.values())
        problems += [self._describe_pending(definition) for definition in pending.values()]
        if self._changed_tools == "warn":
            return offer
        reasons = {key: self._advise(definition) for key, definition in pending.items()}
        return _remove_entries(offer, reasons, (accepted or {}).get(INSTRUCTIONS))

    def _compare(
        self, definitions: Mapping[DefinitionKey, Definition], accepted: Mapping[DefinitionKey, Definition] | None
    ) -> tuple[dict[DefinitionKey, Definition], dict[DefinitionKey, PendingDefinition]]:
        """Return the new definitions that are accepted now, and those that wait for the user."""
        new: dict[DefinitionKey, Definition] = {}
        pending: dict[DefinitionKey, PendingDefinition] = {}
        for key, current in definitions.items():
            old_definition = (accepted or {}).get(key)
            if old_definition is None and (accepted is None or self._new_tools == "publish"):
                new[key] = current
            elif old_definition is not None and _is_same(old_definition, current):
                continue
            elif old_definition is not None and _is_same(old_definition, _drop_new_parts(old_definition, current)):
                new[key] = current
            else:
                pending[key] = PendingDefinition(server=self._server, key=key, accepted=old_definition, current=current)
        return new, pending

    def _read_accepted(self) -> Mapping[DefinitionKey, Definition] | None:
        modified = self._lock.modified if self._lock is not None else 0
        if self._lock is not None and (self._stored is None or modified != self._reviewed):
            self._stored, self._reviewed = None, modified
            self._stored = self._lock.read_server(self._server)
        if self._stored is None and self._remembered is None:
            return None
        return {**(self._remembered or {}), **(self._stored or {})}

    def _accept(self, new: Mapping[DefinitionKey, Definition], problems: list[str]) -> None:
        self._remembered = {**(self._remembered or {}), **new}
        if self._lock is None or not self.records:
            return
        try:
            self._lock.accept_definitions(self._server, new)
        except DefinitionLockError as error:
            problems.append(f"{error}. Changes are noticed only while this bridge runs")

    def _set_pending(self, pending: Iterable[PendingDefinition], *, is_waiting: bool = False) -> None:
        self.pending = tuple(pending)
        if self.pending or is_waiting:
            self._waiting.set()
        elif self._waiting.is_set():
            self._waiting = anyio.Event()

    def _describe_pending(self, pending: PendingDefinition) -> str:
        state = "is published although" if self._changed_tools == "warn" else "is not published:"
        return f"{pending.key.title} {state} {_format_reason(pending)}. To accept it, run: {self._command}"

    def _advise(self, pending: PendingDefinition) -> str:
        return (
            f"{_capitalize(pending.key.title)} of the server '{self._server}' is not available: "
            f"{_format_reason(pending)}. The user can review and accept it with: {self._command}"
        )

    @property
    def _command(self) -> str:
        return self._lock.command if self._lock is not None else "mcp-bridge trust"


def _split_lines(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.splitlines()
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True).splitlines()


def _describe_unknown(key: DefinitionKey) -> str:
    return f"{_capitalize(key.title)} is not available: the file with the accepted definitions cannot be read."


def _capitalize(text: str) -> str:
    return text[0].upper() + text[1:]


def _drop_new_parts(old_definition: Definition, current: Definition) -> Definition:
    """Return a definition without the parts that earlier versions did not record, if `known` is one of theirs."""
    if "_meta" in old_definition:
        return current
    return {key: value for key, value in current.items() if key not in ("_meta", "icons")}


def _remove_entries(offer: Offer, reasons: Mapping[DefinitionKey, str], accepted: Definition | None) -> Offer:
    """Return an offer without the entries of these keys. `accepted` are the instructions that may be shown instead."""
    server = offer.server
    if server is not None and INSTRUCTIONS in reasons:
        server = None if accepted is None else replace(server, instructions=accepted["instructions"])
    return replace(
        offer,
        tools=[
            _quarantine(tool, reasons[make_key(tool)]) if make_key(tool) in reasons else tool for tool in offer.tools
        ],
        prompts=[entry for entry in offer.prompts if make_key(entry) not in reasons],
        resources=[entry for entry in offer.resources if make_key(entry) not in reasons],
        templates=[entry for entry in offer.templates if make_key(entry) not in reasons],
        server=server,
    )


def _format_reason(pending: PendingDefinition) -> str:
    if pending.accepted is None:
        return "it is new, and has not been accepted"
    return f"its definition has changed ({', '.join(pending.list_changed_parts())})"


def _is_same(old_definition: Definition, current: Definition) -> bool:
    one, other = (dump_json(definition, option=orjson.OPT_SORT_KEYS) for definition in (old_definition, current))
    return one == other or compute_fingerprint(old_definition) == compute_fingerprint(
        current
    )  # which costs 40 times as much


def _quarantine(tool: ToolEntry, message: str) -> ToolEntry:
    """Return a tool in the place of another one: not listed, and each call fails."""

    async def reject_call(data: Any) -> Any:
        raise DefinitionChanged(message)

    return ToolEntry(tool.name, "", reject_call, {"type": "object"}, tags=tool.tags, is_listed=False)


def _has_readable_names(prompt: PromptEntry, problems: list[str]) -> bool:
    """Whether the names of a prompt and its arguments have no hidden texts; adds what is wrong to `problems`."""
    text = find_hidden_text([prompt.name, *(argument.name for argument in prompt.arguments)])
    if text is not None:
        problems.append(f"prompt {prompt.name!a} is not published: it has invisible characters in {text!a}")
    return text is None


def _reduce_schemas(tool: ToolEntry, notes: list[str]) -> ToolEntry:
    """Return a tool with bounded schemas. Those that are too large are reduced, which is added to `notes`."""
    schemas: dict[str, Any] = {}
    for key in ("input_schema", "output_schema"):
        schema = getattr(tool, key)
        if excess := _describe_excess(schema):
            schemas[key] = reduce_schema(schema, lambda smaller_schema: _describe_excess(smaller_schema) is None)
            notes.append(f"tool '{tool.name}': {key.replace('_', ' ')} is reduced, because it is too large: {excess}")
    return replace(tool, **schemas) if schemas else tool


def _describe_excess(schema: Any) -> str | None:
    """Return which limit a schema exceeds, or None."""
    if excess := SCHEMA_LIMITS.describe_excess(schema):
        return excess
    if _count_patterns(schema) > MAX_PATTERNS:
        return f"more than {MAX_PATTERNS} patterns"
    if may_have_references(schema) and count_expanded(schema) > MAX_EXPANDED:
        return f"its references come to more than {MAX_EXPANDED} values"
    return None


def _has_valid_schemas(tool: ToolEntry, problems: list[str]) -> bool:
    """Whether the schemas of a tool have no hidden texts; adds what is wrong to `problems`."""
    tool_problems = []
    for side, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        if text := find_hidden_text(schema):
            tool_problems.append(f"its {side} schema has invisible characters in {text!a}")
    if excess := SCHEMA_LIMITS.describe_excess(tool.annotations):
        tool_problems.append(f"its annotations are too large: {excess}")
    problems += [f"tool '{tool.name}' is not published: {problem}" for problem in tool_problems]
    return not tool_problems and _has_valid_meta(tool, problems)


def _has_valid_meta(entry: PublishedEntry, problems: list[str]) -> bool:
    """Whether the metadata and the icons of an entry are bounded; adds what is wrong to `problems`."""
    values = [entry.meta, entry.icons]
    if isinstance(entry, ResourceEntry | ResourceTemplate):
        values.append(entry.annotations)
    excess = META_LIMITS.describe_excess(values)
    if excess:
        problems.append(f"{make_key(entry).title} is not published: its metadata is too large: {excess}")
    return not excess


def _count_patterns(schema: Any) -> int:
    count = 0
    for _, subschema in walk_schemas(schema):
        count += isinstance(subschema.get("pattern"), str) + len(get_mapping(subschema, "patternProperties"))
    return count
