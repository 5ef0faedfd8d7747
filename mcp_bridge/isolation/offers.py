"""An offer as JSON and back. Its handlers stay in the worker; in the bridge, calls of the worker take their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.isolation.words import Json
from mcp_bridge.schema.callables import context_parameter
from mcp_bridge.wire.values import plain, plain_mapping

Kind = Literal["tools", "resources", "templates", "prompts"]
Remote = Callable[[Kind, str, str, bool], Callable[..., Any]]
"""Makes the handler that calls an entry in a worker, from its kind, its name, the argument to complete (or an empty
string), and whether it takes the call's context."""
_COMPLETING = "completes"


def from_offer(offer: Offer) -> Json:
    """Return an offer as JSON."""
    return {
        "tools": [_shown(entry, _TOOL) for entry in offer.tools],
        "resources": [_shown(entry, _RESOURCE) for entry in offer.resources],
        "templates": [{**_shown(entry, _TEMPLATE), **_completions(entry)} for entry in offer.templates],
        "prompts": [_prompt(entry) for entry in offer.prompts],
        "problems": [str(plain(problem)) for problem in offer.problems],
    }


def to_offer(given: Json, remote: Remote) -> Offer:
    """Return the offer in JSON, with handlers made by `remote`.

    Raises KeyError, TypeError or ValueError for an invalid one.
    """
    return Offer(
        tools=[ToolEntry(handler=_handler(remote, "tools", one), **_kept(one, _TOOL)) for one in given["tools"]],
        resources=[
            ResourceEntry(handler=_handler(remote, "resources", one), **_kept(one, _RESOURCE))
            for one in given["resources"]
        ],
        templates=[
            ResourceTemplate(
                handler=_handler(remote, "templates", one),
                completions=_completed(remote, "templates", one),
                **_kept(one, _TEMPLATE),
            )
            for one in given["templates"]
        ],
        prompts=[
            PromptEntry(
                handler=_handler(remote, "prompts", one),
                arguments=[PromptArgument(**argument) for argument in one["arguments"]],
                completions=_completed(remote, "prompts", one),
                **_kept(one, _PROMPT),
            )
            for one in given["prompts"]
        ],
        problems=given["problems"],
    )


def found(offer: Offer) -> dict[tuple[Kind, str], Any]:
    """Return the entries of an offer by kind and name."""
    kinds: Sequence[tuple[Kind, Sequence[Any]]] = (
        ("tools", offer.tools),
        ("resources", offer.resources),
        ("templates", offer.templates),
        ("prompts", offer.prompts),
    )
    return {(kind, name_of(kind, entry)): entry for kind, entries in kinds for entry in entries}


def name_of(kind: Kind, entry: Any) -> str:
    """Return the name, URI or URI template of an entry."""
    return str(getattr(entry, _NAMES[kind]))


_NAMES: dict[Kind, str] = {"tools": "name", "resources": "uri", "templates": "uri_template", "prompts": "name"}
_SHARED = ("title", "icons", "meta")
_TOOL = ("name", "description", "input_schema", "output_schema", "tags", "annotations", *_SHARED)
_PLACE = ("name", "description", "mime_type", "annotations", *_SHARED)
_RESOURCE = ("uri", "size", *_PLACE)
_TEMPLATE = ("uri_template", *_PLACE)
_PROMPT = ("name", "description", *_SHARED)


def _shown(entry: Any, names: Sequence[str]) -> Json:
    values = {name: plain(getattr(entry, name)) for name in names}
    return {**values, "context": context_parameter(entry.handler) is not None}


def _kept(given: Json, names: Sequence[str]) -> Json:
    return {name: given[name] for name in names}


def _handler(remote: Remote, kind: Kind, given: Json) -> Callable[..., Any]:
    return remote(kind, str(given[_NAMES[kind]]), "", bool(given["context"]))


def _prompt(entry: PromptEntry) -> Json:
    arguments = [
        {"name": one.name, "description": one.description, "required": one.required, "title": one.title}
        for one in entry.arguments
    ]
    return {**_shown(entry, _PROMPT), "arguments": plain(arguments), **_completions(entry)}


def _completions(entry: Any) -> Json:
    """Return the values of arguments that have a list of them, and the names of those that a function completes."""
    completions: Mapping[str, Any] = entry.completions
    known = {name: list(values) for name, values in completions.items() if not callable(values)}
    return {
        "completions": plain_mapping(known),
        _COMPLETING: [name for name in completions if callable(completions[name])],
    }


def _completed(remote: Remote, kind: Kind, given: Json) -> Json:
    name = str(given[_NAMES[kind]])
    return {**given["completions"], **{part: remote(kind, name, str(part), False) for part in given[_COMPLETING]}}
