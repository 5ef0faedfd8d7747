"""Encodes the offer of a worker as JSON, and decodes it in the bridge.

The handlers stay in the worker. In the bridge, handlers that call the worker take their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal, TypeVar

from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.source import Offer
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._isolation.codec import Json
from mcp_bridge._json_schema.callables import find_context_parameter
from mcp_bridge._protocol.wire.values import to_plain, to_plain_mapping

T = TypeVar("T")
EntryKind = Literal["tools", "resources", "templates", "prompts"]
HandlerFactory = Callable[[EntryKind, str, str, bool], Callable[..., Any]]
"""Makes the handler that calls an entry in a worker, from its kind, its name, the argument to complete (or an empty
string), and whether it takes the call's context."""
_COMPLETED = "completes"
"""The key of the names of arguments that have a function for completions."""


def encode_offer(offer: Offer) -> Json:
    message: Json = {
        "problems": [str(to_plain(problem)) for problem in offer.problems],
        "notes": [str(to_plain(note)) for note in offer.notes],
        "partial": offer.partial,
    }
    for kind in _FIELDS:
        message[kind] = [_encode_entry(kind, entry) for entry in getattr(offer, kind)]
    return message


def decode_offer(offer: Json, remote: HandlerFactory) -> Offer:
    """Return the offer in a message, with handlers that `remote` makes.

    Raises KeyError, TypeError or ValueError if it is invalid.
    """

    def decode(kind: EntryKind, build: Callable[..., T]) -> list[T]:
        return [build(**_decode_entry(kind, entry, remote)) for entry in offer[kind]]

    return Offer(
        tools=decode("tools", ToolEntry),
        resources=decode("resources", ResourceEntry),
        templates=decode("templates", ResourceTemplate),
        prompts=decode("prompts", PromptEntry),
        problems=offer["problems"],
        notes=offer["notes"],
        partial=offer["partial"],
    )


def index_entries(offer: Offer) -> dict[tuple[EntryKind, str], Any]:
    """Return the entries by kind and by name, URI or URI template."""
    entries = {}
    for kind in _FIELDS:
        for entry in getattr(offer, kind):
            entries[kind, str(getattr(entry, _NAMES[kind]))] = entry
    return entries


# The attribute with the name of an entry, and the attributes that are encoded unchanged, by the kind of the entry.
_NAMES: dict[EntryKind, str] = {"tools": "name", "resources": "uri", "templates": "uri_template", "prompts": "name"}
_SHARED = ("name", "description", "title", "icons", "meta")
_FIELDS: dict[EntryKind, tuple[str, ...]] = {
    "tools": (*_SHARED, "input_schema", "output_schema", "tags", "annotations"),
    "resources": (*_SHARED, "uri", "size", "mime_type", "annotations"),
    "templates": (*_SHARED, "uri_template", "mime_type", "annotations"),
    "prompts": _SHARED,
}


def _encode_entry(kind: EntryKind, entry: Any) -> Json:
    values = {name: to_plain(getattr(entry, name)) for name in _FIELDS[kind]}
    values["context"] = find_context_parameter(entry.handler) is not None
    if kind == "tools":
        values["affinity"] = entry.affinity
        values["tasks"] = None if entry.tasks is None else entry.tasks._asdict()
    if kind == "prompts":
        values["arguments"] = to_plain([asdict(argument) for argument in entry.arguments])
    if kind in ("prompts", "templates"):
        # Some arguments have a list of values, and others a function. Only the lists are sent.
        completions: Mapping[str, Any] = entry.completions
        value_lists = {name: list(values) for name, values in completions.items() if not callable(values)}
        values["completions"] = to_plain_mapping(value_lists)
        values[_COMPLETED] = [name for name in completions if name not in value_lists]
    return values


def _decode_entry(kind: EntryKind, data: Json, remote: HandlerFactory) -> Json:
    values = {name: data[name] for name in _FIELDS[kind]}
    name = str(data[_NAMES[kind]])
    values["handler"] = remote(kind, name, "", bool(data["context"]))
    if kind == "tools":
        values["affinity"] = str(data.get("affinity", ""))
        values["tasks"] = _decode_tasks(data.get("tasks"))
    if kind == "prompts":
        values["arguments"] = [PromptArgument(**argument) for argument in data["arguments"]]
    if kind in ("prompts", "templates"):
        completions = dict(data["completions"])
        for argument_name in data[_COMPLETED]:
            completions[argument_name] = remote(kind, name, str(argument_name), False)
        values["completions"] = completions
    return values


def _decode_tasks(data: Any) -> Any:
    if data is None:
        return None
    # Imported late, because most tools declare nothing.
    from mcp_bridge._contracts.tasks import ToolTasks, read_tool_tasks

    return read_tool_tasks(ToolTasks(**data))
