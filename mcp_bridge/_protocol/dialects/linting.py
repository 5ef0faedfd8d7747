"""Finds the tools with problems in a client, with advice for each finding.

`mcp-bridge lint` shows the findings. Each kind of fact in a client's profile has one rule here (`_RULES`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge._json_schema.references import extend_path
from mcp_bridge._json_schema.walking import walk_schemas
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._protocol.dialects.profile import (
    Fact,
    Level,
    NameCharacters,
    NameLength,
    NoImages,
    NoQuestions,
    Profile,
    PropertiesRequired,
    ResultSize,
    StringArguments,
    StructuredOnly,
    TextEnumsOnly,
    ToolCount,
    UnsupportedKeywords,
)
from mcp_bridge._protocol.wire.tools import META

INPUT = "$.inputSchema"
_MAX_NAME = 200
"""The maximum number of characters of a tool's original name in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """A problem of a client with one tool, or with the whole list.

    Attributes:
        client: The name of the client.
        level: How severe the problem is.
        rule: The name of the rule that found it.
        tool: The name of the tool; empty for the whole list.
        path: A JSON path into the listed tool.
        text: The problem, and how the client behaves.
        cure: Advice for the author.
        dialect: The client to name in the setting `dialect`, if that is the cure; otherwise empty.
        source: Where the behaviour of the client is documented.
        original: The tool's name before it was changed for clients; empty if it is the same.
    """

    client: str
    level: Level
    rule: str
    tool: str
    path: str
    text: str
    cure: str
    source: str
    original: str = ""
    dialect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTools:
    """A list of tools as a client receives it, and facts about its server. `lint` describes the fields."""

    tools: Sequence[Mapping[str, Any]]
    server: str
    dialect: SchemaDialect
    result: int | None
    count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Violation:
    """A violation of a fact, found by a rule. The fields are those of `LintFinding`. It has a cure or a dialect."""

    text: str
    cure: str = ""
    tool: str = ""
    path: str = "$"
    dialect: str = ""


_Rule = Callable[[Any, ListedTools, Profile], Iterator[_Violation]]
"""Yields the violations of one fact of a client's profile in a list of tools."""


def lint(
    tools: Sequence[Mapping[str, Any]],
    profile: Profile,
    *,
    server_name: str = "mcp-bridge",
    dialect: SchemaDialect = NO_DIALECT,
    result: int | None = None,
    count: int | None = None,
) -> Sequence[LintFinding]:
    """Return the problems of the client with these tools, worst first. Never raises.

    Args:
        tools: The tools of a tools/list result.
        server_name: The server's name in the client. Some clients put it before the names of tools.
        dialect: The dialect of the list.
        result: The server's limit for the text of one result in characters, if it is known.
        count: The number of tools in the client's list, if it searches for the others.
    """
    valid = [tool for tool in tools if isinstance(tool, Mapping)]
    listing = ListedTools(tools=valid, server=server_name, dialect=dialect, result=result, count=count)
    originals = {_get_name(tool): _get_original_name(tool) for tool in valid}
    originals[""] = ""
    findings = []
    for fact in profile.facts:
        rule, find_violations = _RULES[type(fact)]
        for violation in find_violations(fact, listing, profile):
            cure = violation.cure
            if violation.dialect:
                cure = f"Set `dialect: {violation.dialect}`"
            finding = LintFinding(
                client=profile.name,
                level=fact.level,
                rule=rule,
                tool=violation.tool,
                path=violation.path,
                text=f"{violation.text}: {fact.happens}",
                cure=cure,
                dialect=violation.dialect,
                source=fact.source,
                original=originals.get(violation.tool, ""),
            )
            findings.append(finding)
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.level))


def _check_name_length(fact: NameLength, listing: ListedTools, profile: Profile) -> Iterator[_Violation]:
    prefix = fact.prefix.format(server=listing.server)
    for tool in listing.tools:
        name = _get_name(tool)
        length = len(prefix) + len(name)
        if length <= fact.most:
            continue
        size = f"{length} characters"
        available_length = max(fact.most - len(prefix), 0)
        cure = f"Give it an `alias` of at most {available_length} characters, or its source a shorter `prefix`"
        if prefix:
            size = f"{size} as '{prefix}{name}'"
            cure = f"{cure}, or install the server under a shorter name"
        text = f"its name has {size}, and {profile.title} accepts {fact.most}"
        yield _Violation(tool=name, path="$.name", text=text, cure=cure)


def _check_name_characters(fact: NameCharacters, listing: ListedTools, _: Profile) -> Iterator[_Violation]:
    for tool in listing.tools:
        if not re.fullmatch(fact.pattern, _get_name(tool)):
            text, cure = f"its name does not fit {fact.pattern}", "Give it an `alias` of letters, digits, _ and -"
            yield _Violation(tool=_get_name(tool), path="$.name", text=text, cure=cure)


def _check_tool_count(fact: ToolCount, listing: ListedTools, profile: Profile) -> Iterator[_Violation]:
    count = len(listing.tools) if listing.count is None else listing.count
    if count > fact.most:
        cure = "Publish fewer (`include`, `exclude` or `tags` of a source), set `tool_search`, or use several servers"
        yield _Violation(text=f"there are {count} tools, and {profile.title} accepts {fact.most}", cure=cure)


def _check_keywords(fact: UnsupportedKeywords, listing: ListedTools, profile: Profile) -> Iterator[_Violation]:
    for tool in listing.tools:
        places = list(walk_schemas(tool.get("inputSchema")))
        if fact.at == "root":
            places = places[:1]
        for word in fact.words:
            paths = [steps for steps, schema in places if word in schema]
            if not paths:
                continue
            if fact.at == "root":
                where = "at the top of its input schema"
            elif len(paths) == 1:
                where = "in its input schema"
            else:
                where = f"in {len(paths)} places of its input schema"
            path, text = extend_path(INPUT, *paths[0], word), f"`{word}` {where}"
            cure = _format_keyword_cure(word, fact, listing)
            if cure:
                yield _Violation(tool=_get_name(tool), path=path, text=text, cure=cure)
            else:
                yield _Violation(tool=_get_name(tool), path=path, text=text, dialect=profile.name)


def _format_keyword_cure(word: str, fact: UnsupportedKeywords, listing: ListedTools) -> str:
    """Return how to do without a keyword; empty if a dialect would remove it."""
    if word == "$ref":
        is_set = listing.dialect.inline_references
    elif fact.at == "root":
        is_set = listing.dialect.flatten_unions
    else:
        return f"Describe it without `{word}`: one object with all properties, or two tools"
    if is_set:
        return f"It stays although a dialect is set; the log says why. Describe it without `{word}`"
    return ""


def _check_text_enums(_: TextEnumsOnly, listing: ListedTools, __: Profile) -> Iterator[_Violation]:
    for tool in listing.tools:
        for steps, schema in walk_schemas(tool.get("inputSchema")):
            values = schema.get("enum")
            if isinstance(values, list) and any(not isinstance(value, str) for value in values):
                path = extend_path(INPUT, *steps, "enum")
                yield _Violation(
                    tool=_get_name(tool), path=path, text="values that are not text", cure="Write them as text"
                )
                break


def _check_named_properties(_: PropertiesRequired, listing: ListedTools, profile: Profile) -> Iterator[_Violation]:
    for tool in listing.tools:
        schema = tool.get("inputSchema")
        if isinstance(schema, Mapping) and schema.get("type") == "object" and "properties" not in schema:
            text = "its input schema has no `properties`"
            yield _Violation(tool=_get_name(tool), path=INPUT, text=text, dialect=profile.name)


def _check_result_size(fact: ResultSize, listing: ListedTools, profile: Profile) -> Iterator[_Violation]:
    if listing.result is not None and listing.result > fact.most:
        text = f"results may have {listing.result} characters, and {profile.title} accepts about {fact.most}"
        cure = f"Set `limits: {{result: {fact.most}}}`; the rest can then be read as a resource"
        yield _Violation(text=text, cure=cure)


def _check_structured_results(_: StructuredOnly, listing: ListedTools, __: Profile) -> Iterator[_Violation]:
    names = [_format_tool(tool) for tool in listing.tools if tool.get("outputSchema")]
    if names:
        cure = "Put everything that matters into the structured result, or declare no output schema"
        yield _Violation(text=f"structured results ({', '.join(names[:3])}{', ...' if names[3:] else ''})", cure=cure)


def _report_always(text: str, cure: str) -> _Rule:
    """Return a rule for a fact whose violations cannot be seen in a list of tools. It always yields this one."""
    return lambda _fact, _listed, _profile: iter([_Violation(text=text, cure=cure)])


def _check_string_arguments(_: StringArguments, listing: ListedTools, profile: Profile) -> Iterator[_Violation]:
    if listing.dialect.parse_strings:
        return
    for tool in listing.tools:
        for steps, schema in walk_schemas(tool.get("inputSchema")):
            if steps and schema.get("type") in ("object", "array"):
                text = f"arguments such as {extend_path(INPUT, *steps)} of {_format_tool(tool)}"
                yield _Violation(text=text, dialect=profile.name)
                return


def _get_name(tool: Mapping[str, Any]) -> str:
    name = tool.get("name")
    return name if isinstance(name, str) else ""


def _get_original_name(tool: Mapping[str, Any]) -> str:
    meta = tool.get("_meta")
    name = meta.get(f"{META}name") if isinstance(meta, Mapping) else None
    return name if isinstance(name, str) else ""


def _format_tool(tool: Mapping[str, Any]) -> str:
    name = f"'{_get_name(tool)}'"
    original = _get_original_name(tool)
    if not original:
        return name
    if len(original) > _MAX_NAME:
        original = f"{original[:_MAX_NAME]}..."
    return f"{name} ({original})"


_RULES: Mapping[type[Fact], tuple[str, _Rule]] = {
    NameLength: ("name-length", _check_name_length),
    NameCharacters: ("name-characters", _check_name_characters),
    ToolCount: ("tool-count", _check_tool_count),
    UnsupportedKeywords: ("keyword", _check_keywords),
    TextEnumsOnly: ("enum-values", _check_text_enums),
    PropertiesRequired: ("named-properties", _check_named_properties),
    ResultSize: ("result-size", _check_result_size),
    StructuredOnly: ("structured-content", _check_structured_results),
    NoQuestions: (
        "questions",
        _report_always(
            "questions of tools", "Tools that ask the user get no reply there; use `mcp-bridge approvals` for approvals"
        ),
    ),
    NoImages: (
        "images",
        _report_always("images in results", "Tools that return images should return what matters as text too"),
    ),
    StringArguments: ("string-arguments", _check_string_arguments),
}
