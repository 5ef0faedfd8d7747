"""One validator for everything: built once a tool, asked `is_valid` first, explained only on failure.

jsonschema-rs judges (JSON Schema 2020-12, linear-time patterns, no network, no files); the tool_use API's
texts come from `messages`. Nothing in a schema or in data makes it raise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs
import orjson

from mcp_bridge.contracts.results import ValidationResult
from mcp_bridge.schema.cost import MOST, branches, expanded
from mcp_bridge.schema.extent import Extent
from mcp_bridge.schema.foreign import translate
from mcp_bridge.schema.mending import mend
from mcp_bridge.schema.messages import KEYWORDS, Finding, walk

_FALSE = "falseSchema"
_UNFIT = Finding("$", "schema", "$: value does not fit the schema")
_EXPLAINED = Extent(depth=6, nodes=200)
"""The data for which the library may say what is wrong where branches refer to themselves: each level multiplies it."""
_LISTED = Extent(nodes=1_000)
"""The data of which the library may list all that is wrong: it makes the whole list before it tells the first.

Of more data it tells the first alone; where there are branches, that has the list for each of them.
"""
_TOLD, _TEXT = 1_000, 256 * 1024
"""The most problems that are told, and characters after which no more are: one list of an enum may be long."""
_WHOLE = frozenset({"$ref", "$dynamicRef", "$schema", "$id"})
"""Keywords that only the whole schema explains."""


class Validator:
    """Judges data by one schema. `left_out` has the paths of schema keywords that could not be understood."""

    __slots__ = ("_branches", "_judge", "_recursive", "_unknown", "left_out", "schema")

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.left_out: Sequence[str] = ()
        self._unknown: Sequence[str] = ()
        self._judge: jsonschema_rs.Validator | None = None
        self._recursive = self._branches = False
        if isinstance(schema, Mapping) and schema:
            self._judge = self._compile(schema)
        elif schema is False:
            self._judge = _compile({"not": {}})

    def _compile(self, schema: Mapping[str, Any]) -> jsonschema_rs.Validator | None:
        self._recursive = _may_recurse(schema)
        if self._recursive and expanded(schema) > MOST:
            self.left_out = ("#/$ref",)
            return None
        self._branches = branches(schema)
        judge = _compile(schema)
        if judge is not None:
            return judge
        mended, self.left_out = mend(schema, lambda part: _compile(part) is not None)
        self._unknown = [place for place in self.left_out if _is_elsewhere(place, _at(schema, place))]
        return _compile(mended)

    def is_valid(self, data: Any) -> bool:
        """Whether `data` fits; the fast question, asked on every call."""
        if self._unknown:
            return False
        if self._judge is None:
            return not self.left_out or not self.problems(data)
        try:
            if self._recursive:
                orjson.dumps(data)  # refuses, in C, what is too deep for the library's unbounded recursion
            return bool(self._judge.is_valid(data))
        except Exception:
            return not self.problems(data)

    def problems(self, data: Any) -> list[str]:
        """A line for each thing wrong with `data`, the tool_use API's texts first; empty when it fits.

        After a thousand, or a quarter of a million characters, one line says that there is more.
        """
        if self._unknown:
            return [
                f"{place}: {_at(self.schema, place)!r} is not known here, so nothing fits the schema"
                for place in self._unknown
            ]
        return list(_bounded(self._findings(data)))

    def _findings(self, data: Any) -> Iterator[Finding]:
        closed: set[str] = set()
        told: set[tuple[str, str]] = set()
        for finding in walk(data, self.schema):
            told.add((finding.path, finding.keyword))
            if finding.keyword == "type":
                closed.add(finding.path)
            yield finding
        copy, foreign = translate(data)
        for other in self._second_opinion(copy, is_clear=not told and not foreign):
            if not _is_told(other, told) and not _below(other.path, closed) and not _below(other.path, foreign):
                yield other

    def _second_opinion(self, data: Any, *, is_clear: bool) -> Iterable[Finding]:
        """What the library finds: everything beyond the twelve keywords, and what only a whole schema shows.

        Where that would cost too much it is only asked whether the data fits, if so far all `is_clear`.
        """
        if self._judge is None:
            return []
        try:
            if self._branches and (_EXPLAINED if self._recursive else _LISTED).excess(data) is not None:
                return [] if not is_clear or self._judge.is_valid(data) else [_UNFIT]
            if _LISTED.excess(data) is None:
                return [found for error in self._judge.iter_errors(data) for found in _findings(error)]
            self._judge.validate(data)
        except jsonschema_rs.ValidationError as error:
            return _findings(error)
        except Exception as error:
            return [Finding("$", "schema", f"$: {error}")]
        return []

    def check(self, data: Any) -> ValidationResult:
        """`is_valid`, and `problems` when not, as the tool_use API answers it."""
        if self.is_valid(data):
            return ValidationResult()
        return ValidationResult(False, self.problems(data) or [_UNFIT.text])


def validate(data: Any, schema: Any) -> ValidationResult:
    """Judge `data` by `schema` once. For many calls by one schema keep a `Validator`."""
    return Validator(schema).check(data)


def complaints(schema: Any) -> list[str]:
    """What is wrong with a schema itself, in one line each; empty when all of it is understood."""
    validator = Validator(schema)
    if not validator.left_out:
        return []
    return [f"{place}: {_reason(schema, place)}" for place in validator.left_out]


def _bounded(findings: Iterable[Finding]) -> Iterator[str]:
    """The texts of so many findings as anybody reads."""
    size = 0
    for number, finding in enumerate(findings):
        if number == _TOLD or size > _TEXT:
            yield "$: there is more that does not fit; only the first problems are told"
            return
        size += len(finding.text)
        yield finding.text


def _compile(schema: Mapping[str, Any]) -> jsonschema_rs.Validator | None:
    with contextlib.suppress(Exception):
        return jsonschema_rs.validator_for(dict(schema), offline=True, pattern_options=jsonschema_rs.RegexOptions())
    return None


def _is_elsewhere(place: str, value: Any) -> bool:
    """Whether a schema says there that it is written otherwise, or stands elsewhere: nobody here knows its meaning."""
    keyword = place.rsplit("/", 1)[-1]
    return isinstance(value, str) and (keyword == "$schema" or (keyword == "$ref" and not value.startswith("#")))


def _reason(schema: Any, place: str) -> str:
    """Why the keyword at `place` cannot be understood, and what to do where it is a pattern."""
    keyword, value = place.rsplit("/", 1)[-1], _at(schema, place)
    if place == "#/$ref" and expanded(schema) > MOST:
        return f"its references come to more than {MOST} subschemas"
    if keyword == "pattern":
        return f"the pattern {value!r} cannot be used. Patterns run in linear time: write it without look-around"
    part = schema if keyword in _WHOLE else {keyword: value}
    try:
        jsonschema_rs.validator_for(part, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except Exception as error:
        return str(error).splitlines()[0]
    return "this cannot be understood"


def _at(schema: Any, place: str) -> Any:
    """The value at a path that mending told; keys may have slashes in them, then there is none."""
    node = schema
    for step in place.split("/")[1:]:
        if isinstance(node, list | tuple):
            node = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
        else:
            node = node.get(step) if isinstance(node, Mapping) else None
    return node


def _may_recurse(schema: Mapping[str, Any]) -> bool:
    """Whether the schema has references at all: only those can lead back to themselves."""
    try:
        text = orjson.dumps(schema, default=str)
        return b'ref":' in text or b'Ref":' in text
    except (TypeError, ValueError):
        return True


def _is_told(finding: Finding, told: set[tuple[str, str]]) -> bool:
    """Whether the walker said it already; a property that a false schema refuses is told by its parent's path."""
    if finding.keyword == _FALSE:
        start = f"{finding.path}."
        return any(path.startswith(start) and keyword == "additionalProperties" for path, keyword in told)
    return (finding.path, finding.keyword) in told


def _below(path: str, closed: set[str]) -> bool:
    return any(path == top or path.startswith((f"{top}.", f"{top}[")) for top in closed)


def _findings(error: jsonschema_rs.ValidationError) -> Iterable[Finding]:
    """One library error as findings, in the tool_use API's words where the keyword is one of its own."""
    path = _path(error.instance_path)
    keyword = str(error.kind.name)
    if keyword == _FALSE and error.schema_path[-1:] == ["additionalProperties"]:
        yield Finding(path, _FALSE, f"{path}: additional property not allowed")
        return
    if keyword == "required":
        name = getattr(error.kind, "property", "")
        yield Finding(f"{path}.{name}", keyword, f"{path}.{name}: required field missing")
    elif keyword == "additionalProperties":
        for name in sorted(getattr(error.kind, "unexpected", ())):
            yield Finding(f"{path}.{name}", keyword, f"{path}.{name}: additional property not allowed")
    elif keyword in KEYWORDS and (own := _in_own_words(error, path, keyword)):
        yield own
    else:
        yield Finding(path, keyword, f"{path}: {error.message}")


def _in_own_words(error: jsonschema_rs.ValidationError, path: str, keyword: str) -> Finding | None:
    """The walker's text for a keyword that the library met behind a reference or a combinator."""
    value = getattr(error.kind, {"type": "types", "enum": "options"}.get(keyword, "limit"), None)
    if keyword == "type" and isinstance(value, list) and len(value) == 1:
        value = value[0]
    return next(walk(error.instance, {keyword: value}, path), None) if value is not None else None


def _path(parts: Iterable[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
