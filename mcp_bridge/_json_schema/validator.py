"""Validates data by JSON Schema, and explains what is wrong with it.

`Validator.is_valid` is the fast path of every call: jsonschema_rs (2020-12, linear-time patterns, no network, no files)
answers it in microseconds. Only data that is invalid is explained, in three steps:

1. `messages` finds the problems with the twelve keywords of the tool_use API, in its words.
2. The library validates a copy of the data with null in place of everything outside of JSON, because a program can call
   a tool with bytes, sets or cycles.
3. `library_errors` translates the errors of the library. Those that repeat step 1 are skipped, and so are those below a
   value of the wrong type or below a replaced value, because they would mislead.

    >>> Validator({"properties": {"age": {"type": "integer", "multipleOf": 2}}}).list_problems({"age": 3})
    ['$.age: 3 is not a multiple of 2']

Neither a schema nor data makes a validator raise. If the library does not accept a schema, `schema_repair` removes its
invalid keywords, and `ignored_keywords` lists them. If one of them refers to another document, no data fits.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp_bridge._contracts.similar_names import find_similar_name
from mcp_bridge._contracts.tool_use_results import ValidationResult
from mcp_bridge._json_schema.library_errors import FALSE_SCHEMA, list_causes
from mcp_bridge._json_schema.messages import MODEL_WORDING, TOOL_USE_WORDING, ValidationProblem, Wording, find_problems
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.size_limits import SizeLimits, is_too_large_expanded, may_have_references
from mcp_bridge._json_schema.walking import has_any_keyword
from mcp_bridge._runtime.exact_json import dump_json

if TYPE_CHECKING:
    import jsonschema_rs

TOO_LARGE = ("#/$ref",)
"""The `ignored_keywords` of a schema that is too large because of its references."""
_COMBINATORS = frozenset({"anyOf", "oneOf", "allOf", "not", "if"})
_INVALID = ValidationProblem("$", "schema", "$: value does not fit the schema")
_EXPLAINABLE = SizeLimits(depth=6, nodes=200)
"""The limits of data for explanations of a schema with references: each level of data multiplies the work then."""
_LISTABLE = SizeLimits(nodes=1_000)
"""The limits of data for which the library lists all errors, because it builds the whole list before the first one.

For larger data it reports only the first error. An error of alternatives contains the errors of each alternative.
"""
_MAX_PROBLEMS, _MAX_CHARACTERS = 1_000, 256 * 1024
"""The maximum number and total length of listed problems. A single problem with an `enum` may be long."""
_MAX_SUGGESTIONS, _MAX_NAMES = 10, 200
"""The maximum number of misspelt names with a suggestion, and of names to compare each with."""
_MAX_DEPTH = 200
"""The maximum number of copied levels of data, because the recursion of the library has no limit."""
_MAX_BITS = 1024
"""The maximum size of integers. Larger ones are replaced: no float is as large, and Python limits digits in texts."""


class Validator:
    """Validates data by one schema.

    Args:
        schema: Any JSON Schema. Any value except a mapping and `False` accepts all data.
        check_formats: Whether data has to fit `format`. By default, `format` is only an annotation.

    Attributes:
        ignored_keywords: JSON pointers to the unsupported keywords.
    """

    def __init__(self, schema: Any, *, check_formats: bool = False) -> None:
        self.schema = schema
        self.ignored_keywords: Sequence[str] = ()
        self._check_formats = check_formats
        self._external_keywords: Sequence[str] = ()
        self._validator: jsonschema_rs.Validator | None = None
        self._may_recurse = False
        if isinstance(schema, Mapping) and schema:
            self._validator = self._compile(schema)
        elif schema is False:
            self._validator = compile_validator({"not": {}})

    def _compile(self, schema: Mapping[str, Any]) -> jsonschema_rs.Validator | None:
        """Return the validator of a schema or of a repaired schema, or None if the schema is too large."""
        self._may_recurse = may_have_references(schema)
        if self._may_recurse and is_too_large_expanded(schema):
            self.ignored_keywords = TOO_LARGE
            return None
        validator = compile_validator(schema, check_formats=self._check_formats)
        if validator is not None:
            return validator
        from mcp_bridge._json_schema.schema_repair import repair_schema

        repaired_schema, self.ignored_keywords = repair_schema(schema, is_checkable)
        self._external_keywords = [pointer for pointer in self.ignored_keywords if _is_external(pointer, schema)]
        return compile_validator(repaired_schema, check_formats=self._check_formats)

    @cached_property
    def _has_combinators(self) -> bool:
        return has_any_keyword(self.schema, _COMBINATORS)

    def is_valid(self, data: Any) -> bool:
        """Whether the data fits the schema."""
        if self._external_keywords:
            return False
        if self._validator is None:
            # Without ignored keywords, the schema accepts everything. Otherwise, only the keywords of the tool_use API
            # are checked.
            return not self.ignored_keywords or not self.list_problems(data)
        try:
            if self._may_recurse:
                # The recursion of the library has no limit, and deep data would crash the process. Writing the data as
                # JSON raises an error before that.
                dump_json(data)
            return bool(self._validator.is_valid(data))
        except Exception:
            # The data is not JSON.
            return not self.list_problems(data)

    def list_problems(self, data: Any) -> list[str]:
        """Return a line for each problem. Problems with keywords of the tool_use API come first.

        After a thousand problems or a quarter of a million characters, one line says that there are more.
        """
        if self._external_keywords:
            return [
                f"{pointer}: {resolve_pointer(pointer, self.schema)!r} is not known here, so nothing fits the schema"
                for pointer in self._external_keywords
            ]
        return list(_limit(problem.text for problem in self._find(data, TOOL_USE_WORDING)))

    def describe_problems(self, data: Any, root: str = "$") -> list[str]:
        """Return the problems in words for a model, with `root` as the path of the data. Return at least one line."""
        if self._external_keywords:
            return self.list_problems(data)
        return list(_limit(_format_for_model(self._find(data, MODEL_WORDING), root))) or [_INVALID.text]

    def _find(self, data: Any, wording: Wording) -> Iterator[ValidationProblem]:
        """Yield the problems of the three steps."""
        mistyped_paths: set[str] = set()
        reported: set[tuple[str, str]] = set()
        for problem in find_problems(data, self.schema, wording=wording):
            reported.add((problem.path, problem.keyword))
            if problem.keyword == "type":
                mistyped_paths.add(problem.path)
            yield problem
        replaced_paths: set[str] = set()
        copy = _copy_as_json(data, "$", replaced_paths, 0)
        hidden_paths = mistyped_paths | replaced_paths
        for problem in self._find_by_library(copy, wording, is_first=not reported and not replaced_paths):
            if not _is_reported(problem, reported) and not _is_below(problem.path, hidden_paths):
                yield problem

    def _find_by_library(self, data: Any, wording: Wording, *, is_first: bool) -> Iterable[ValidationProblem]:
        """Return the problems that the library finds.

        If the explanation would cost too much, return one problem without a reason, or nothing unless `is_first`.
        """
        if self._validator is None:
            return []
        import jsonschema_rs

        try:
            limits = _EXPLAINABLE if self._may_recurse else _LISTABLE
            if self._has_combinators and limits.describe_excess(data) is not None:
                if not is_first or self._validator.is_valid(data):
                    return []
                return [_INVALID]
            if _LISTABLE.describe_excess(data) is None:
                problems: list[ValidationProblem] = []
                for error in self._validator.iter_errors(data):
                    problems += list_causes(error, self.schema, wording)
                return problems
            self._validator.validate(data)
        except jsonschema_rs.ValidationError as error:
            return list_causes(error, self.schema, wording)
        except Exception as error:
            return [ValidationProblem("$", "schema", f"$: {error}")]
        return []

    def check(self, data: Any) -> ValidationResult:
        """Return `is_valid` and `list_problems` as a result of the tool_use API."""
        if self.is_valid(data):
            return ValidationResult()
        return ValidationResult(False, self.list_problems(data) or [_INVALID.text])


def validate(data: Any, schema: Any) -> ValidationResult:
    """Validate data by a schema once. Use a `Validator` for many calls with the same schema."""
    return Validator(schema).check(data)


def _format_for_model(problems: Iterable[ValidationProblem], root: str) -> Iterator[str]:
    """Yield the texts of problems with `root` in their paths, and with suggestions for misspelt names."""
    suggestions = 0
    for problem in problems:
        text = problem.text
        if text.startswith("$"):
            text = f"{root}{text[1:]}"
        if problem.other_names and suggestions < _MAX_SUGGESTIONS:
            suggestions += 1
            name = problem.path.rpartition(".")[2]
            match = find_similar_name(name, list(problem.other_names)[:_MAX_NAMES])
            if match is not None:
                text += f", did you mean '{match}'?"
        yield text


def _limit(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts up to the maximum number and length, and then a line about the rest."""
    size = 0
    for number, text in enumerate(texts):
        if number == _MAX_PROBLEMS or size > _MAX_CHARACTERS:
            yield "$: there are more problems; only the first are listed"
            return
        size += len(text)
        yield text


def _is_reported(problem: ValidationProblem, reported: set[tuple[str, str]]) -> bool:
    """Whether a problem of the library has already been reported by `messages`."""
    if problem.keyword != FALSE_SCHEMA:
        return (problem.path, problem.keyword) in reported
    # The library reports a forbidden property at the path of the object.
    start = f"{problem.path}."
    return any(path.startswith(start) and keyword == "additionalProperties" for path, keyword in reported)


def _is_below(path: str, parents: set[str]) -> bool:
    return any(path == parent or path.startswith((f"{parent}.", f"{parent}[")) for parent in parents)


# -- schemas -------------------------------------------------------------------------------------------------


def compile_validator(
    schema: Mapping[str, Any], *, check_formats: bool = False, may_backtrack: bool = False
) -> jsonschema_rs.Validator | None:
    """Return a validator of the library, or None for an invalid schema."""
    with contextlib.suppress(Exception):
        return build_validator(dict(schema), check_formats=check_formats, may_backtrack=may_backtrack)
    return None


def is_checkable(schema: Mapping[str, Any]) -> bool:
    """Whether the library accepts a schema."""
    return compile_validator(schema) is not None


def build_validator(
    schema: Any, *, check_formats: bool = False, may_backtrack: bool = False
) -> jsonschema_rs.Validator:
    """Return a validator of the library. Raises the errors of the library for an invalid schema.

    With `may_backtrack`, patterns may have look-around and back-references, and need not run in linear time.
    """
    # The import takes 8 ms, and a start with plain schemas needs no validator.
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        schema,
        offline=True,
        pattern_options=jsonschema_rs.FancyRegexOptions() if may_backtrack else jsonschema_rs.RegexOptions(),
        # With None, the draft of the schema decides whether formats are asserted.
        validate_formats=check_formats or None,
        formats={"date-time": _is_date_time} if check_formats else None,
        email_options=jsonschema_rs.EmailOptions(allow_display_text=False) if check_formats else None,
    )


def _is_date_time(text: str) -> bool:
    """Check a time of RFC 3339. Seconds and offset may be missing, as in calendar pickers and naive datetimes."""
    try:
        return bool(re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]", text) and datetime.fromisoformat(text.upper()))
    except ValueError:
        return False


def _is_external(pointer: str, schema: Any) -> bool:
    """Whether the keyword at a pointer refers to another document or to an unknown draft."""
    keyword = pointer.rsplit("/", 1)[-1]
    value = resolve_pointer(pointer, schema)
    if not isinstance(value, str):
        return False
    return keyword == "$schema" or (keyword == "$ref" and not value.startswith("#"))


# -- data that is not JSON -----------------------------------------------------------------------------------


def _copy_as_json(data: Any, path: str, replaced_paths: set[str], depth: int) -> Any:
    """Copy data with null in place of everything outside of JSON. Add the paths of these to `replaced_paths`."""
    if depth <= _MAX_DEPTH:
        if isinstance(data, dict):
            copy: dict[str, Any] = {}
            for key, value in data.items():
                name = _convert_key(key)
                copy[name] = _copy_as_json(value, f"{path}.{name}", replaced_paths, depth + 1)
            return copy
        if isinstance(data, list | tuple):
            return [
                _copy_as_json(item, f"{path}[{index}]", replaced_paths, depth + 1) for index, item in enumerate(data)
            ]
        if data is None or isinstance(data, bool | float):
            return data
        if isinstance(data, str):
            return _replace_surrogates(data)
        if isinstance(data, int) and data.bit_length() <= _MAX_BITS:
            return int(data)
    replaced_paths.add(path)
    return None


def _convert_key(key: Any) -> str:
    try:
        return _replace_surrogates(key if isinstance(key, str) else str(key))
    except Exception:
        # A third-party __str__ can raise anything, and an integer with too many digits raises ValueError.
        return f"<{type(key).__name__}>"


def _replace_surrogates(text: str) -> str:
    """Replace each lone surrogate by a question mark, so that the length stays the same."""
    if text.isascii():
        # A member of an enumeration may be text too. The library needs this text, while `str` would return a name.
        return str.__str__(text)
    return text.encode("utf-8", "replace").decode()
