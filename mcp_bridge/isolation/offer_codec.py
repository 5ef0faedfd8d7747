"""An offer as JSON and back. Its handlers stay in the worker; in the bridge, calls of the worker take their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.isolation.codec import Json
from mcp_bridge.schema.callables import find_context_parameter
from mcp_bridge.wire.values import to_plain, to_plain_mapping

EntryKind = Literal["tools", "resources", "templates", "prompts"]
HandlerFactory = Callable[[EntryKind, str, str, bool], Callable[..., Any]]
"""Makes the handler that calls an entry in a worker, from its kind, its name, the argument to complete (or an empty
string), and whether it takes the call's context."""
_COMPLETED = "completes"


def encode_offer(offer: Offer) -> Json:
    return {
        "tools": [_encode_entry(entry, _TOOL) for entry in offer.tools],
        "resources": [_encode_entry(entry, _RESOURCE) for entry in offer.resources],
        "templates": [{**_encode_entry(entry, _TEMPLATE), **_encode_completions(entry)} for entry in offer.templates],
        "prompts": [_encode_prompt(entry) for entry in offer.prompts],
        "problems": [str(to_plain(problem)) for problem in offer.problems],
    }


def decode_offer(given: Json, remote: HandlerFactory) -> Offer:
    """Return the offer in JSON, with handlers made by `remote`.

    Raises KeyError, TypeError or ValueError for an invalid one.
    """
    return Offer(
        tools=[
            ToolEntry(handler=_make_entry_handler(remote, "tools", one), **_select_fields(one, _TOOL))
            for one in given["tools"]
        ],
        resources=[
            ResourceEntry(handler=_make_entry_handler(remote, "resources", one), **_select_fields(one, _RESOURCE))
            for one in given["resources"]
        ],
        templates=[
            ResourceTemplate(
                handler=_make_entry_handler(remote, "templates", one),
                completions=_decode_completions(remote, "templates", one),
                **_select_fields(one, _TEMPLATE),
            )
            for one in given["templates"]
        ],
        prompts=[
            PromptEntry(
                handler=_make_entry_handler(remote, "prompts", one),
                arguments=[PromptArgument(**argument) for argument in one["arguments"]],
                completions=_decode_completions(remote, "prompts", one),
                **_select_fields(one, _PROMPT),
            )
            for one in given["prompts"]
        ],
        problems=given["problems"],
    )


def index_entries(offer: Offer) -> dict[tuple[EntryKind, str], Any]:
    kinds: Sequence[tuple[EntryKind, Sequence[Any]]] = (
        ("tools", offer.tools),
        ("resources", offer.resources),
        ("templates", offer.templates),
        ("prompts", offer.prompts),
    )
    return {(kind, get_entry_name(kind, entry)): entry for kind, entries in kinds for entry in entries}


def get_entry_name(kind: EntryKind, entry: Any) -> str:
    """Return the name, URI or URI template of an entry."""
    return str(getattr(entry, _NAMES[kind]))


_NAMES: dict[EntryKind, str] = {"tools": "name", "resources": "uri", "templates": "uri_template", "prompts": "name"}
_SHARED = ("title", "icons", "meta")
_TOOL = ("name", "description", "input_schema", "output_schema", "tags", "annotations", *_SHARED)
_RESOURCE_FIELDS = ("name", "description", "mime_type", "annotations", *_SHARED)
_RESOURCE = ("uri", "size", *_RESOURCE_FIELDS)
_TEMPLATE = ("uri_template", *_RESOURCE_FIELDS)
_PROMPT = ("name", "description", *_SHARED)


def _encode_entry(entry: Any, names: Sequence[str]) -> Json:
    values = {name: to_plain(getattr(entry, name)) for name in names}
    return {**values, "context": find_context_parameter(entry.handler) is not None}


def _select_fields(given: Json, names: Sequence[str]) -> Json:
    return {name: given[name] for name in names}


def _make_entry_handler(remote: HandlerFactory, kind: EntryKind, given: Json) -> Callable[..., Any]:
    return remote(kind, str(given[_NAMES[kind]]), "", bool(given["context"]))


def _encode_prompt(entry: PromptEntry) -> Json:
    arguments = [
        {"name": one.name, "description": one.description, "required": one.required, "title": one.title}
        for one in entry.arguments
    ]
    return {**_encode_entry(entry, _PROMPT), "arguments": to_plain(arguments), **_encode_completions(entry)}


def _encode_completions(entry: Any) -> Json:
    """Return the values of arguments that have a list of them, and the names of those that a function completes."""
    completions: Mapping[str, Any] = entry.completions
    known = {name: list(values) for name, values in completions.items() if not callable(values)}
    return {
        "completions": to_plain_mapping(known),
        _COMPLETED: [name for name in completions if callable(completions[name])],
    }


def _decode_completions(remote: HandlerFactory, kind: EntryKind, given: Json) -> Json:
    name = str(given[_NAMES[kind]])
    return {**given["completions"], **{part: remote(kind, name, str(part), False) for part in given[_COMPLETED]}}
