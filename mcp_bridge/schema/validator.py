"""One validator for everything: built once a tool, asked `is_valid` first, explained only on failure.

jsonschema-rs judges (JSON Schema 2020-12, linear-time patterns, no network, no files); the tool_use API's
texts come from `messages`. Nothing in a schema or in data makes it raise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonschema_rs

from mcp_bridge.contracts.results import ValidationResult
from mcp_bridge.schema.mending import mend
from mcp_bridge.schema.messages import KEYWORDS, MAX_DEPTH, Finding, walk


class Validator:
    """Judges data by one schema. `left_out` has the paths of schema keywords that could not be understood."""

    __slots__ = ("_judge", "left_out", "schema")

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.left_out: Sequence[str] = ()
        self._judge: jsonschema_rs.Validator | None = None
        if isinstance(schema, Mapping) and schema:
            self._judge = self._compile(schema)
        elif schema is False:
            self._judge = _compile({"not": {}})

    def _compile(self, schema: Mapping[str, Any]) -> jsonschema_rs.Validator | None:
        judge = _compile(schema)
        if judge is not None:
            return judge
        try:
            mended, self.left_out = mend(schema, lambda part: _compile(part) is not None)
        except RecursionError:  # a schema that contains itself
            self.left_out = ("#",)
            return None
        return _compile(mended)

    def is_valid(self, data: Any) -> bool:
        """Whether `data` fits; the fast question, asked on every call."""
        if self._judge is None:
            return self.left_out == () or not any(walk(data, self.schema))
        try:
            return bool(self._judge.is_valid(data))
        except Exception:
            return not self.problems(data)

    def problems(self, data: Any) -> list[str]:
        """A line for each thing wrong with `data`, the tool_use API's texts first; empty when it fits."""
        findings = list(walk(data, self.schema))
        closed = {finding.path for finding in findings if finding.keyword == "type"}
        told = {(finding.path, finding.keyword) for finding in findings}
        for other in self._second_opinion(data):
            if (other.path, other.keyword) not in told and not _below(other.path, closed):
                findings.append(other)
        return [finding.text for finding in findings]

    def _second_opinion(self, data: Any) -> Iterable[Finding]:
        """What the library finds: everything beyond the twelve keywords, and what only a whole schema shows."""
        if self._judge is None:
            return []
        try:
            if self._judge.is_valid(data):
                return []
            return [found for error in self._judge.iter_errors(data) for found in _findings(error)]
        except Exception:
            return list(foreign(data))

    def check(self, data: Any) -> ValidationResult:
        """`is_valid`, and `problems` when not, as the tool_use API answers it."""
        if self.is_valid(data):
            return ValidationResult()
        return ValidationResult(False, self.problems(data) or ["$: value does not fit the schema"])


def validate(data: Any, schema: Any) -> ValidationResult:
    """Judge `data` by `schema` once. For many calls by one schema keep a `Validator`."""
    return Validator(schema).check(data)


def complaints(schema: Any) -> list[str]:
    """What is wrong with a schema itself, in one line each; empty when all of it is understood."""
    validator = Validator(schema)
    if not validator.left_out:
        return []
    reason = _reason(schema)
    return [f"{place}: {reason}" for place in validator.left_out]


def _compile(schema: Mapping[str, Any]) -> jsonschema_rs.Validator | None:
    with contextlib.suppress(Exception):
        return jsonschema_rs.validator_for(dict(schema), offline=True, pattern_options=jsonschema_rs.RegexOptions())
    return None


def _reason(schema: Any) -> str:
    try:
        jsonschema_rs.validator_for(schema, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except Exception as error:
        return str(error).splitlines()[0]
    return "cannot be understood"  # pragma: no cover - only for a schema that changes while it is looked at


def _below(path: str, closed: set[str]) -> bool:
    return any(path == top or path.startswith((f"{top}.", f"{top}[")) for top in closed)


def _findings(error: jsonschema_rs.ValidationError) -> Iterable[Finding]:
    """One library error as findings, in the tool_use API's words where the keyword is one of its own."""
    path = _path(error.instance_path)
    keyword = str(error.kind.name)
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


def foreign(data: Any, path: str = "$", depth: int = 0) -> Iterable[Finding]:
    """Values in `data` that JSON does not have: bytes, sets, objects, non-string keys, lone surrogates, cycles."""
    if depth > MAX_DEPTH:
        yield Finding(path, "json", f"{path}: nested deeper than {MAX_DEPTH} levels")
    elif isinstance(data, dict):
        for key, value in data.items():
            if not isinstance(key, str):
                yield Finding(path, "json", f"{path}: key {key!r} is not a string")
            yield from foreign(value, f"{path}.{key}", depth + 1)
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from foreign(value, f"{path}[{index}]", depth + 1)
    elif isinstance(data, str):
        if not data.isascii() and _has_surrogate(data):
            yield Finding(path, "json", f"{path}: string is not valid Unicode (lone surrogate)")
    elif not isinstance(data, int | float | None):
        yield Finding(path, "json", f"{path}: {type(data).__name__} is not a JSON value")


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
