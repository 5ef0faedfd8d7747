"""CompletionMethod: completion/complete, which suggests values for arguments of prompts and variables of templates.

The author of an entry gives a list of values or a function. The matching values are ranked here (`rank_values`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import CompletionEntry, ResourceTemplate
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._json_schema.callables import adapt_completion
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._server.calls.context import ServedCall
from mcp_bridge._server.redaction import RequestError
from mcp_bridge._server.requests import Request, truncate_text
from mcp_bridge._server.responses import Responses

MAX_ARGUMENTS, MAX_ARGUMENT_LENGTH = 100, 10_000
"""The maximum numbers of arguments in the context of a request, and of characters in each name and value."""
MAX_MATCHES = 100
"""The maximum number of values in a result (server/utilities/completion)."""
MAX_LENGTH = 1000
"""The maximum number of characters of the text to complete, and of a value. Longer values are dropped."""
MAX_VALUES, MAX_CHARACTERS = 10_000, 1_000_000
"""The maximum numbers of values, and of their characters together, that a request compares in the event loop."""
_EXACT, _PREFIX, _WORD, _INSIDE, _SCATTERED, _RANKS = range(6)
"""The ranks of matches, the best first, and the number of ranks."""


class CompletionMethod:
    """The MCP method completion/complete."""

    def __init__(self, registry: ToolRegistry, responses: Responses) -> None:
        self._registry = registry
        self._responses = responses
        # The source of each completion with its prepared entry, by the names of the entry and the argument.
        self._prepared: dict[tuple[str, str], tuple[Any, PreparedEntry]] = {}

    async def complete_argument(self, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        """Serve completion/complete: the matching values, best first.

        Raises RequestError for an unknown prompt, template or argument.
        """
        argument, text = params["argument"]["name"], params["argument"]["value"]
        other_arguments = (params.get("context") or {}).get("arguments") or {}
        _check_size(text, other_arguments)
        await self._responses.wait_for_sources()
        name, entry = self._find_entry(params["ref"])
        if argument not in _list_arguments(entry):
            name_excerpt = truncate_text(argument)
            raise RequestError(INVALID_PARAMS, f"{name} has no argument '{name_excerpt}'", {"argument": name_excerpt})
        source = entry.completions.get(argument, ())
        data = {"argument": argument, "value": text, "known": dict(other_arguments)}
        values: Collection[Any] | Mapping[str, Any] = ()
        if source:
            values = await self._call_completion(source, entry, name, request, data)
        # An upstream returns a whole completion.
        if isinstance(values, Mapping):
            completion = _limit_completion(values)
        else:
            best_values, total = rank_values([str(value) for value in values], text)
            completion = {"values": best_values, "total": total, "hasMore": total > len(best_values)}
        return self._responses.complete_result({"completion": completion}, request.version)

    async def _call_completion(
        self,
        source: Callable[..., Any] | Sequence[Any],
        entry: PromptEntry | ResourceTemplate,
        name: str,
        request: Request,
        data: Mapping[str, Any],
    ) -> Collection[Any] | Mapping[str, Any]:
        call = ToolCall(id=str(request.id), name=name, arguments=data, kind="completion")
        prepared = self._prepare_completion(entry, name, data["argument"], source)
        result = await self._registry.run_prepared(prepared, call, ServedCall(request, self._registry))
        checked_result = self._responses.check_success(result, request.version, key="name", value=name)
        output = to_plain(checked_result.output)
        if output is None:
            return []
        if isinstance(output, list | Mapping):
            return output
        return [output]

    def _find_entry(self, ref: Mapping[str, Any]) -> tuple[str, PromptEntry | ResourceTemplate]:
        if ref["type"] == "ref/prompt":
            entry = self._registry.prompts.get(ref["name"])
            if entry is not None:
                return ref["name"], entry
            name = truncate_text(ref["name"])
            raise RequestError(INVALID_PARAMS, f"Unknown prompt: {name}", {"name": name})
        template = self._registry.finder.find_template(ref["uri"])
        if template is None:
            uri = truncate_text(ref["uri"])
            raise RequestError(INVALID_PARAMS, f"Unknown resource template: {uri}", {"uri": uri})
        return template.uri_template, template

    def _prepare_completion(
        self, entry: PromptEntry | ResourceTemplate, name: str, argument: str, source: Any
    ) -> PreparedEntry:
        """Return a completion ready to be called. It is prepared again if the entry has another `source`."""
        cached_source, prepared = self._prepared.get((name, argument), (None, None))
        if prepared is None or cached_source is not source:

            async def return_values(text: str) -> Any:
                return list(source)

            function = source if callable(source) else return_values
            prepared = PreparedEntry(CompletionEntry(adapt_completion(function), entry))
            self._prepared[name, argument] = (source, prepared)
        return prepared


def _check_size(value: str, other_arguments: Mapping[str, str]) -> None:
    """Raise RequestError if texts are too long, before any work is done with them."""
    if len(value) > MAX_LENGTH:
        raise RequestError(
            INVALID_PARAMS,
            f"argument.value has {len(value)} characters; at most {MAX_LENGTH} can be completed. Send a shorter value.",
        )
    if len(other_arguments) > MAX_ARGUMENTS:
        raise RequestError(
            INVALID_PARAMS,
            f"context.arguments has {len(other_arguments)} arguments; at most {MAX_ARGUMENTS} are allowed. Send fewer.",
        )
    for name, text in other_arguments.items():
        longest = max(len(name), len(text))
        if longest > MAX_ARGUMENT_LENGTH:
            raise RequestError(
                INVALID_PARAMS,
                f"context.arguments: '{truncate_text(name)}' has {longest} characters; at most "
                f"{MAX_ARGUMENT_LENGTH} are allowed. Send a shorter value, or omit it.",
            )


def _list_arguments(entry: PromptEntry | ResourceTemplate) -> Collection[str]:
    if isinstance(entry, PromptEntry):
        return [argument.name for argument in entry.arguments]
    # Most servers have no templates, so they start without this module.
    from mcp_bridge._json_schema.uri_templates import parse_template_variables

    return [variable.name for variable in parse_template_variables(entry.uri_template)]


def _limit_completion(completion: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completion of an upstream with its values in their order, without those that exceed the limits."""
    texts = [str(value) for value in completion.get("values") or ()]
    values = [text for text in texts if len(text) <= MAX_LENGTH][:MAX_MATCHES]
    limited: dict[str, Any] = {"values": values}
    total, has_more = completion.get("total"), completion.get("hasMore")
    if type(total) is int and total >= len(values):
        limited["total"] = total
    if len(values) < len(texts):
        limited["hasMore"] = True
    elif isinstance(has_more, bool):
        limited["hasMore"] = has_more
    return limited


def rank_values(values: Iterable[str], typed: str, *, limit: int = MAX_MATCHES) -> tuple[list[str], int]:
    """Return at most `limit` values that match the text, the best first, and the number of all matches.

    The ranks are: equal to the text, beginning with it, containing a word that begins with it, containing it, and
    containing its letters in their order. Within a rank, and if the text is empty, the values keep their order. Case,
    accents and duplicates are ignored. Values longer than MAX_LENGTH, and those after the first MAX_VALUES or
    MAX_CHARACTERS, are dropped.
    """
    distinct = dict.fromkeys(_take_bounded(values))
    normal_text = _normalize(typed)
    if not normal_text:
        return list(distinct)[:limit], len(distinct)
    ranks: list[list[str]] = [[] for _ in range(_RANKS)]
    for value in distinct:
        rank = _rank_value(_normalize(value), normal_text)
        if rank is not None:
            ranks[rank].append(value)
    matches: list[str] = []
    for values_of_rank in ranks:
        matches += values_of_rank
    return matches[:limit], len(matches)


def _rank_value(value: str, text: str) -> int | None:
    """Return the rank of a value for a text, or None if it does not match."""
    if value == text:
        return _EXACT
    index = value.find(text)
    if index == 0:
        return _PREFIX
    if index < 0:
        # `in` consumes the iterator up to the letter, so the next letter is searched only in the rest of the value.
        letters = iter(value)
        return _SCATTERED if all(letter in letters for letter in text) else None
    # Look for an occurrence at the start of a word.
    while index > 0:
        if not value[index - 1].isalnum():
            return _WORD
        index = value.find(text, index + 1)
    return _INSIDE


def _take_bounded(values: Iterable[str]) -> Iterator[str]:
    remaining = MAX_CHARACTERS
    for value in islice(values, MAX_VALUES):
        if len(value) <= MAX_LENGTH:
            remaining -= len(value)
            if remaining < 0:
                return
            yield value


def _normalize(text: str) -> str:
    """Remove case and accents, so é, É and e are one letter. Return at most `MAX_LENGTH` characters."""
    if text.isascii():
        return text[:MAX_LENGTH].lower()
    # The text is truncated twice, because normalization can lengthen it: U+FDFA becomes 18 characters.
    letters = unicodedata.normalize("NFKD", text[:MAX_LENGTH].casefold())[:MAX_LENGTH]
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
