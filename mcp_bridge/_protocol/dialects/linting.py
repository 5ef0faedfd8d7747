"""Finds the tools that a client would reject or degrade, with advice for each finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
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
    """The behaviour of a client with one tool, or with the whole list if `tool` is empty, and the cure.

    `path` is a JSON path into the listed tool. `original` is the tool's own name if its published name differs.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTools:
    """A list of tools as a client receives it, and facts about its server (see `lint`)."""

    tools: Sequence[Mapping[str, Any]]
    server: str
    dialect: SchemaDialect
    result: int | None
    count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Violation:
    """The violation of a fact by a tool or the list, its place, and the cure."""

    text: str
    cure: str
    tool: str = ""
    path: str = "$"


_Rule = Callable[[Any, ListedTools, Profile], Iterator[_Violation]]


def lint(
    tools: Sequence[Mapping[str, Any]],
    profile: Profile,
    *,
    server_name: str = "mcp-bridge",
    dialect: SchemaDialect = NO_DIALECT,
    result: int | None = None,
    count: int | None = None,
) -> Sequence[LintFinding]:
    """Return the behaviour of the client with these tools, worst first. Never raises.

    Args:
        tools: The tools of a tools/list result.
        server_name: The server's name in the client. Some clients put it before the names of tools.
        dialect: The dialect of the list.
        result: The server's limit for the text of one result in characters, if it is known.
        count: The number of tools in the client's list, if it searches for the others.
    """
    valid = [tool for tool in tools if isinstance(tool, Mapping)]
    listed = ListedTools(tools=valid, server=server_name, dialect=dialect, result=result, count=count)
    originals = {_get_name(tool): _get_original_name(tool) for tool in valid}
    findings = [
        LintFinding(
            client=profile.name,
            level=fact.level,
            rule=_RULES[type(fact)][0],
            tool=violation.tool,
            path=violation.path,
            text=f"{violation.text}: {fact.happens}",
            cure=violation.cure,
            source=fact.source,
            original=originals.get(violation.tool, "") if violation.tool else "",
        )
        for fact in profile.facts
        for violation in _RULES[type(fact)][1](fact, listed, profile)
    ]
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.level))


def _check_name_length(fact: NameLength, listed: ListedTools, profile: Profile) -> Iterator[_Violation]:
    prefix = fact.prefix.format(server=listed.server)
    for tool in listed.tools:
        name = _get_name(tool)
        if (length := len(prefix) + len(name)) > fact.most:
            room = max(fact.most - len(prefix), 0)
            whole = f" as '{prefix}{name}'" if prefix else ""
            yield _Violation(
                tool=name,
                path="$.name",
                text=f"its name has {length} characters{whole}, and {profile.title} accepts {fact.most}",
                cure=f"Give it an `alias` of at most {room} characters, or its source a shorter `prefix`"
                + (", or install the server under a shorter name" if prefix else ""),
            )


def _check_name_characters(fact: NameCharacters, listed: ListedTools, _: Profile) -> Iterator[_Violation]:
    for tool in listed.tools:
        if not re.fullmatch(fact.pattern, _get_name(tool)):
            cure = "Give it an `alias` of letters, digits, _ and -"
            yield _Violation(
                tool=_get_name(tool), path="$.name", text=f"its name does not fit {fact.pattern}", cure=cure
            )


def _check_tool_count(fact: ToolCount, listed: ListedTools, profile: Profile) -> Iterator[_Violation]:
    if (count := len(listed.tools) if listed.count is None else listed.count) > fact.most:
        cure = "Publish fewer (`include`, `exclude` or `tags` of a source), set `tool_search`, or use several servers"
        yield _Violation(text=f"there are {count} tools, and {profile.title} accepts {fact.most}", cure=cure)


def _check_keywords(fact: UnsupportedKeywords, listed: ListedTools, profile: Profile) -> Iterator[_Violation]:
    for tool in listed.tools:
        places = list(islice(walk_schemas(tool.get("inputSchema")), 1 if fact.at == "root" else None))
        for word in fact.words:
            if paths := [steps for steps, part in places if word in part]:
                where = "at the top of its input schema" if fact.at == "root" else _format_count(len(paths))
                yield _Violation(
                    tool=_get_name(tool),
                    path=extend_path(INPUT, *paths[0], word),
                    text=f"`{word}` {where}",
                    cure=_format_keyword_cure(word, fact, listed, profile),
                )


def _format_keyword_cure(word: str, fact: UnsupportedKeywords, listed: ListedTools, profile: Profile) -> str:
    """Return the setting for the removal of a keyword, or advice without one."""
    key = "inline_references" if word == "$ref" else "flatten_unions" if fact.at == "root" else ""
    if not key:
        return f"Describe it without `{word}`: one object with all properties, or two tools"
    if getattr(listed.dialect, key):
        return f"It stays although a dialect is set; the log says why. Describe it without `{word}`"
    return f"Set `dialect: {profile.name}`"


def _check_text_enums(_: TextEnumsOnly, listed: ListedTools, __: Profile) -> Iterator[_Violation]:
    for tool in listed.tools:
        for steps, part in walk_schemas(tool.get("inputSchema")):
            values = part.get("enum")
            if isinstance(values, list) and any(not isinstance(value, str) for value in values):
                path = extend_path(INPUT, *steps, "enum")
                yield _Violation(
                    tool=_get_name(tool), path=path, text="values that are not text", cure="Write them as text"
                )
                break


def _check_named_properties(_: PropertiesRequired, listed: ListedTools, profile: Profile) -> Iterator[_Violation]:
    for tool in listed.tools:
        schema = tool.get("inputSchema")
        if isinstance(schema, Mapping) and schema.get("type") == "object" and "properties" not in schema:
            cure = f"Set `dialect: {profile.name}`"
            yield _Violation(tool=_get_name(tool), path=INPUT, text="its input schema has no `properties`", cure=cure)


def _check_result_size(fact: ResultSize, listed: ListedTools, profile: Profile) -> Iterator[_Violation]:
    if listed.result is not None and listed.result > fact.most:
        text = f"results may have {listed.result} characters, and {profile.title} accepts about {fact.most}"
        yield _Violation(
            text=text, cure=f"Set `limits: {{result: {fact.most}}}`; the rest can then be read as a resource"
        )


def _check_structured_results(_: StructuredOnly, listed: ListedTools, __: Profile) -> Iterator[_Violation]:
    names = [_format_tool(tool) for tool in listed.tools if tool.get("outputSchema")]
    if names:
        cure = "Put everything that matters into the structured result, or declare no output schema"
        yield _Violation(text=f"structured results ({', '.join(names[:3])}{', ...' if names[3:] else ''})", cure=cure)


def _report_always(text: str, cure: str) -> _Rule:
    """Return a rule for a fact that cannot be seen in a list of tools."""
    return lambda _fact, _listed, _profile: iter([_Violation(text=text, cure=cure)])


def _check_string_arguments(_: StringArguments, listed: ListedTools, profile: Profile) -> Iterator[_Violation]:
    if listed.dialect.parse_strings:
        return
    for tool in listed.tools:
        for steps, part in walk_schemas(tool.get("inputSchema")):
            if steps and part.get("type") in ("object", "array"):
                cure = f"Set `dialect: {profile.name}` (parse_strings)"
                yield _Violation(
                    text=f"arguments such as {extend_path(INPUT, *steps)} of {_format_tool(tool)}", cure=cure
                )
                return


def _get_name(tool: Mapping[str, Any]) -> str:
    name = tool.get("name")
    return name if isinstance(name, str) else ""


def _get_original_name(tool: Mapping[str, Any]) -> str:
    meta = tool.get("_meta")
    name = meta.get(f"{META}name") if isinstance(meta, Mapping) else None
    return name if isinstance(name, str) else ""


def _format_tool(tool: Mapping[str, Any]) -> str:
    original = _get_original_name(tool)
    shown = original if len(original) <= _MAX_NAME else f"{original[:_MAX_NAME]}..."
    return f"'{_get_name(tool)}'" + (f" ({shown})" if original else "")


def _format_count(number: int) -> str:
    return "in its input schema" if number == 1 else f"in {number} places of its input schema"


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
