"""What a client would reject of a list of tools, or take worse than it is meant; each finding with its cure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.dialects.dialect import NONE, Dialect
from mcp_bridge.dialects.profile import (
    Fact,
    Keywords,
    Level,
    NameCharacters,
    NamedProperties,
    NameLength,
    NoImages,
    NoQuestions,
    Profile,
    ResultSize,
    Strings,
    StructuredAlone,
    TextEnums,
    ToolCount,
)
from mcp_bridge.schema.json_pointer import below
from mcp_bridge.schema.keywords import Steps, each
from mcp_bridge.wire.tools import META

INPUT = "$.inputSchema"
_LONGEST = 200
"""The most characters of a tool's own name among words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a client does with a tool, or with the list (`tool` is empty then).

    `path` is a JSON path into the tool as it is listed. `rule` names what was looked for. `original` is the tool's own
    name where it is published under another.
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
class Listed:
    """A list of tools as a client gets it, and what is known of its server.

    `dialect` is what was rewritten already, `result` the most characters of an answer's text.
    """

    tools: Sequence[Mapping[str, Any]]
    server: str
    dialect: Dialect
    result: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spot:
    """Where something was found, what was found there, and what to do."""

    text: str
    cure: str
    tool: str = ""
    path: str = "$"


def lint(
    tools: Sequence[Mapping[str, Any]],
    profile: Profile,
    *,
    server_name: str = "mcp-bridge",
    dialect: Dialect = NONE,
    result: int | None = None,
) -> Sequence[Finding]:
    """What the client would do with these tools, as tools/list has them: the worst first. Never raises.

    `server_name` is what the server is called in the client, which may stand before the names of tools; `dialect` what
    was rewritten in the list already; `result` the most characters of text in one answer, where that is known.
    """
    sound = [tool for tool in tools if isinstance(tool, Mapping)]
    listed = Listed(tools=sound, server=server_name, dialect=dialect, result=result)
    originals = {_name(tool): _original(tool) for tool in sound}
    found = [
        Finding(
            client=profile.name,
            level=fact.level,
            rule=_RULES[type(fact)][0],
            tool=spot.tool,
            path=spot.path,
            text=f"{spot.text}: {fact.happens}",
            cure=spot.cure,
            source=fact.source,
            original=originals.get(spot.tool, "") if spot.tool else "",
        )
        for fact in profile.facts
        for spot in _RULES[type(fact)][1](fact, listed, profile)
    ]
    return sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.level))


def _name_length(fact: NameLength, listed: Listed, profile: Profile) -> Iterator[_Spot]:
    before = fact.prefix.format(server=listed.server)
    for tool in listed.tools:
        name = _name(tool)
        if (length := len(before) + len(name)) > fact.most:
            room = max(fact.most - len(before), 0)
            whole = f" as '{before}{name}'" if before else ""
            yield _Spot(
                tool=name,
                path="$.name",
                text=f"its name has {length} characters{whole}, and {profile.title} takes {fact.most}",
                cure=f"Give it an `alias` of at most {room} characters, or its source a shorter `prefix`"
                + (", or install the server under a shorter name" if before else ""),
            )


def _name_characters(fact: NameCharacters, listed: Listed, _: Profile) -> Iterator[_Spot]:
    for tool in listed.tools:
        if not re.fullmatch(fact.pattern, _name(tool)):
            cure = "Give it an `alias` of letters, digits, _ and -"
            yield _Spot(tool=_name(tool), path="$.name", text=f"its name does not fit {fact.pattern}", cure=cure)


def _tool_count(fact: ToolCount, listed: Listed, profile: Profile) -> Iterator[_Spot]:
    if (count := len(listed.tools)) > fact.most:
        cure = "Publish fewer (`include`, `exclude` or `tags` of a source), or part them into servers of their own"
        yield _Spot(text=f"there are {count} tools, and {profile.title} takes {fact.most}", cure=cure)


def _keywords(fact: Keywords, listed: Listed, profile: Profile) -> Iterator[_Spot]:
    for tool in listed.tools:
        schema = tool.get("inputSchema")
        places = _places(schema) if fact.at == "anywhere" else [((), schema)] if isinstance(schema, Mapping) else []
        for word in fact.words:
            found = [steps for steps, part in places if word in part]
            if found:
                where = "at the top of its input schema" if fact.at == "root" else _counted(len(found))
                yield _Spot(
                    tool=_name(tool),
                    path=below(INPUT, *found[0], word),
                    text=f"`{word}` {where}",
                    cure=_rewriting(word, fact, listed, profile),
                )


def _rewriting(word: str, fact: Keywords, listed: Listed, profile: Profile) -> str:
    """What in the settings does away with a keyword."""
    key = "inline_references" if word == "$ref" else "flatten_unions" if fact.at == "root" else ""
    if not key:
        return f"Describe it without `{word}`: one object with all properties, or two tools"
    if getattr(listed.dialect, key):
        return f"It stays although `{key}` is set; the log says why. Describe it without `{word}`"
    return f"Set `dialect: {profile.name}` ({key})"


def _text_enums(_: TextEnums, listed: Listed, __: Profile) -> Iterator[_Spot]:
    for tool in listed.tools:
        for steps, part in _places(tool.get("inputSchema")):
            values = part.get("enum")
            if isinstance(values, list) and any(not isinstance(value, str) for value in values):
                path = below(INPUT, *steps, "enum")
                yield _Spot(tool=_name(tool), path=path, text="values that are no text", cure="Write them as text")
                break


def _named_properties(_: NamedProperties, listed: Listed, profile: Profile) -> Iterator[_Spot]:
    for tool in listed.tools:
        schema = tool.get("inputSchema")
        if isinstance(schema, Mapping) and schema.get("type") == "object" and "properties" not in schema:
            cure = f"Set `dialect: {profile.name}` (write_properties)"
            yield _Spot(tool=_name(tool), path=INPUT, text="its input schema has no `properties`", cure=cure)


def _result_size(fact: ResultSize, listed: Listed, profile: Profile) -> Iterator[_Spot]:
    if listed.result is not None and listed.result > fact.most:
        text = f"answers may have {listed.result} characters, and {profile.title} takes about {fact.most}"
        yield _Spot(text=text, cure=f"Set `limits: {{result: {fact.most}}}`; the rest can then be read")


def _structured(_: StructuredAlone, listed: Listed, __: Profile) -> Iterator[_Spot]:
    told = [_called(tool) for tool in listed.tools if tool.get("outputSchema")]
    if told:
        cure = "Have such tools say all that matters in their structured answer, or declare no output schema"
        yield _Spot(text=f"structured answers ({', '.join(told[:3])}{', ...' if told[3:] else ''})", cure=cure)


def _no_questions(_: NoQuestions, __: Listed, ___: Profile) -> Iterator[_Spot]:
    cure = "Tools that ask get no answer there; approvals can be given with `mcp-bridge approvals`"
    yield _Spot(text="questions of tools", cure=cure)


def _no_images(_: NoImages, __: Listed, ___: Profile) -> Iterator[_Spot]:
    cure = "Tools that answer with images should say what matters in text too"
    yield _Spot(text="images in answers", cure=cure)


def _strings(_: Strings, listed: Listed, profile: Profile) -> Iterator[_Spot]:
    if listed.dialect.parse_strings:
        return
    for tool in listed.tools:
        for steps, part in _places(tool.get("inputSchema")):
            if steps and part.get("type") in ("object", "array"):
                cure = f"Set `dialect: {profile.name}` (parse_strings)"
                yield _Spot(text=f"arguments such as {below(INPUT, *steps)} of {_called(tool)}", cure=cure)
                return


def _places(schema: Any) -> list[tuple[Steps, Mapping[str, Any]]]:
    return list(each(schema))


def _name(tool: Mapping[str, Any]) -> str:
    name = tool.get("name")
    return name if isinstance(name, str) else ""


def _original(tool: Mapping[str, Any]) -> str:
    """The name that a tool has where it was written, if it is published under another."""
    meta = tool.get("_meta")
    name = meta.get(f"{META}name") if isinstance(meta, Mapping) else None
    return name if isinstance(name, str) else ""


def _called(tool: Mapping[str, Any]) -> str:
    """A tool among words: by its name, and by its own where that is another."""
    original = _original(tool)
    shown = original if len(original) <= _LONGEST else f"{original[:_LONGEST]}..."
    return f"'{_name(tool)}'" + (f" ({shown})" if original else "")


def _counted(number: int) -> str:
    return "in its input schema" if number == 1 else f"in {number} places of its input schema"


_RULES: Mapping[type[Fact], tuple[str, Callable[[Any, Listed, Profile], Iterator[_Spot]]]] = {
    NameLength: ("name-length", _name_length),
    NameCharacters: ("name-characters", _name_characters),
    ToolCount: ("tool-count", _tool_count),
    Keywords: ("keyword", _keywords),
    TextEnums: ("enum-values", _text_enums),
    NamedProperties: ("named-properties", _named_properties),
    ResultSize: ("result-size", _result_size),
    StructuredAlone: ("structured-content", _structured),
    NoQuestions: ("questions", _no_questions),
    NoImages: ("images", _no_images),
    Strings: ("string-arguments", _strings),
}
