"""Validates data: one compiled validator per schema, asked `is_valid` first; problems are explained only on failure.

jsonschema-rs validates (JSON Schema 2020-12, linear-time patterns, no network, no files), and `messages` has the texts
of the tool_use API. Neither a schema nor data makes a validator raise.
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
from mcp_bridge._json_schema.size_limits import SizeLimits, is_too_large_expanded, may_have_references
from mcp_bridge._json_schema.walking import has_any_keyword
from mcp_bridge._runtime.exact_json import dump_json

if TYPE_CHECKING:
    import jsonschema_rs

_COMBINATORS = frozenset({"anyOf", "oneOf", "allOf", "not", "if"})
"""Keywords that try several alternatives."""
_INVALID = ValidationProblem("$", "schema", "$: value does not fit the schema")
_EXPLAINED = SizeLimits(depth=6, nodes=200)
"""The data that the library may explain where alternatives refer to themselves: each level multiplies the work."""
_LISTED = SizeLimits(nodes=1_000)
"""The data for which the library may list all errors; it builds the whole list before it returns the first.

Of larger data it reports only the first error, unless there are alternatives: then that error lists those of each one.
"""
_MAX_PROBLEMS, _MAX_CHARACTERS = 1_000, 256 * 1024
"""The problems of one validation; a single `enum` may be long."""
_MAX_SUGGESTIONS, _MAX_NAMES = 10, 200
"""How often a name that a client misspelt is compared, and with how many names at most."""
TOO_LARGE = ("#/$ref",)
"""The ignored keywords of a schema whose references multiply it."""
_MAX_DEPTH = 200
"""How deep data is validated, because the library's recursion is not bounded."""
_MAX_BITS = 1024
"""The maximum number of bits of an integer that is validated."""


class Validator:
    """Validates data by one schema. `ignored_keywords` has the paths of keywords that are not understood.

    `check_formats` asserts `format`, which is an annotation otherwise.
    """

    def __init__(self, schema: Any, *, check_formats: bool = False) -> None:
        self.schema = schema
        self.ignored_keywords: Sequence[str] = ()
        self._check_formats = check_formats
        self._unknown: Sequence[str] = ()
        self._validator: jsonschema_rs.Validator | None = None
        self._may_recurse = False
        if isinstance(schema, Mapping) and schema:
            self._validator = self._compile(schema)
        elif schema is False:
            self._validator = _compile({"not": {}})

    def _compile(self, schema: Mapping[str, Any]) -> jsonschema_rs.Validator | None:
        self._may_recurse = may_have_references(schema)
        if self._may_recurse and is_too_large_expanded(schema):
            self.ignored_keywords = TOO_LARGE
            return None
        validator = _compile(schema, check_formats=self._check_formats)
        if validator is not None:
            return validator
        from mcp_bridge._json_schema.schema_repair import repair_schema

        repaired, self.ignored_keywords = repair_schema(schema, is_checkable)
        self._unknown = [place for place in self.ignored_keywords if _is_external(place, get_value(schema, place))]
        return _compile(repaired, check_formats=self._check_formats)

    @cached_property
    def _has_combinators(self) -> bool:
        return has_any_keyword(self.schema, _COMBINATORS)

    def is_valid(self, data: Any) -> bool:
        """Whether the data fits. This is the fast path of every call."""
        if self._unknown:
            return False
        if self._validator is None:
            return not self.ignored_keywords or not self.list_problems(data)
        try:
            if self._may_recurse:
                dump_json(data)  # rejects, in C, what is too deep for the library's unbounded recursion
            return bool(self._validator.is_valid(data))
        except Exception:
            return not self.list_problems(data)

    def list_problems(self, data: Any) -> list[str]:
        """A line for each problem, the tool_use API's first; empty if the data fits.

        After a thousand problems or a quarter of a million characters, one line says that there are more.
        """
        if self._unknown:
            return [
                f"{place}: {get_value(self.schema, place)!r} is not known here, so nothing fits the schema"
                for place in self._unknown
            ]
        return list(_limit(problem.text for problem in self._find(data, TOOL_USE_WORDING)))

    def describe_problems(self, data: Any, root: str = "$") -> list[str]:
        """`list_problems` for models: in the words of JSON, and `root` is the path of the data. Never empty."""
        if self._unknown:
            return self.list_problems(data)
        return list(_limit(_format_for_model(self._find(data, MODEL_WORDING), root))) or [_INVALID.text]

    def _find(self, data: Any, wording: Wording) -> Iterator[ValidationProblem]:
        mistyped: set[str] = set()
        known: set[tuple[str, str]] = set()
        for finding in find_problems(data, self.schema, wording=wording):
            known.add((finding.path, finding.keyword))
            if finding.keyword == "type":
                mistyped.add(finding.path)
            yield finding
        copy, foreign = _to_valid_json(data)
        unexplained = mistyped | foreign
        for other in self._find_others(copy, wording, is_clear=not known and not foreign):
            if not _is_known(other, known) and not _is_below(other.path, unexplained):
                yield other

    def _find_others(self, data: Any, wording: Wording, *, is_clear: bool) -> Iterable[ValidationProblem]:
        """What the library finds: other keywords than the tool_use API's, and what only the whole schema shows.

        If explaining costs too much, the library only says whether the data fits, and only while `is_clear`: no other
        problem is known.
        """
        if self._validator is None:
            return []
        import jsonschema_rs

        try:
            limits = _EXPLAINED if self._may_recurse else _LISTED
            if self._has_combinators and limits.describe_excess(data) is not None:
                return [] if not is_clear or self._validator.is_valid(data) else [_INVALID]
            if _LISTED.describe_excess(data) is None:
                errors = self._validator.iter_errors(data)
                return [problem for error in errors for problem in list_causes(error, self.schema, wording)]
            self._validator.validate(data)
        except jsonschema_rs.ValidationError as error:
            return list_causes(error, self.schema, wording)
        except Exception as error:
            return [ValidationProblem("$", "schema", f"$: {error}")]
        return []

    def check(self, data: Any) -> ValidationResult:
        """`is_valid` and `list_problems` as a result of the tool_use API."""
        if self.is_valid(data):
            return ValidationResult()
        return ValidationResult(False, self.list_problems(data) or [_INVALID.text])


def validate(data: Any, schema: Any) -> ValidationResult:
    """Validate data by a schema once. For many calls by one schema keep a `Validator`."""
    return Validator(schema).check(data)


def _format_for_model(problems: Iterable[ValidationProblem], root: str) -> Iterator[str]:
    """The texts with paths that start with `root`, and with the property that a misspelt one may mean."""
    left = _MAX_SUGGESTIONS
    for problem in problems:
        text = f"{root}{problem.text[1:]}" if problem.text.startswith("$") else problem.text
        if problem.other_names and left > 0:
            left -= 1
            name = problem.path.rpartition(".")[2]
            match = find_similar_name(name, list(problem.other_names)[:_MAX_NAMES])
            text += f", did you mean '{match}'?" if match is not None else ""
        yield text


def _limit(texts: Iterable[str]) -> Iterator[str]:
    size = 0
    for number, text in enumerate(texts):
        if number == _MAX_PROBLEMS or size > _MAX_CHARACTERS:
            yield "$: there are more problems; only the first are listed"
            return
        size += len(text)
        yield text


# -- schemas -------------------------------------------------------------------------------------------------


def _compile(schema: Mapping[str, Any], *, check_formats: bool = False) -> jsonschema_rs.Validator | None:
    with contextlib.suppress(Exception):
        return build_validator(dict(schema), check_formats=check_formats)
    return None


def is_checkable(schema: Mapping[str, Any]) -> bool:
    return _compile(schema) is not None


def build_validator(
    schema: Any, *, check_formats: bool = False, may_backtrack: bool = False
) -> jsonschema_rs.Validator:
    """Raises what the library raises for an invalid schema."""
    import jsonschema_rs  # 8 ms with the modules that it imports, and a start may need no validator

    return jsonschema_rs.validator_for(
        schema,
        offline=True,
        pattern_options=jsonschema_rs.FancyRegexOptions() if may_backtrack else jsonschema_rs.RegexOptions(),
        validate_formats=check_formats or None,  # None: as the schema's draft defines it
        formats={"date-time": _is_date_time} if check_formats else None,
        email_options=jsonschema_rs.EmailOptions(allow_display_text=False) if check_formats else None,
    )


def _is_date_time(text: str) -> bool:
    """RFC 3339, but seconds and offset are optional: calendar pickers and naive datetimes leave them out."""
    try:
        return bool(re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]", text) and datetime.fromisoformat(text.upper()))
    except ValueError:
        return False


def _is_external(place: str, value: Any) -> bool:
    """Whether a schema refers to another document or an unknown draft, whose meaning is not known here."""
    keyword = place.rsplit("/", 1)[-1]
    return isinstance(value, str) and (keyword == "$schema" or (keyword == "$ref" and not value.startswith("#")))


def get_value(schema: Any, place: str) -> Any:
    """The value at a path of schema_repair, or None if a key in the path contains a slash."""
    node = schema
    for step in place.split("/")[1:]:
        if isinstance(node, list | tuple):
            node = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
        else:
            node = node.get(step) if isinstance(node, Mapping) else None
    return node


# -- errors of the library -----------------------------------------------------------------------------------


def _is_known(finding: ValidationProblem, known: set[tuple[str, str]]) -> bool:
    """Whether `find_problems` has reported it; the library reports a forbidden property at its parent's path."""
    if finding.keyword == FALSE_SCHEMA:
        start = f"{finding.path}."
        return any(path.startswith(start) and keyword == "additionalProperties" for path, keyword in known)
    return (finding.path, finding.keyword) in known


def _is_below(path: str, tops: set[str]) -> bool:
    return any(path == top or path.startswith((f"{top}.", f"{top}[")) for top in tops)


# -- data that is not JSON -----------------------------------------------------------------------------------
# In process a tool may receive anything: bytes, sets, objects, other keys than text, lone surrogates, cycles.
# The tool_use API accepts them wherever no keyword forbids them.


def _to_valid_json(data: Any) -> tuple[Any, set[str]]:
    """A JSON copy of the data, and the paths at which a null replaces something else. Never raises."""
    paths: set[str] = set()
    return _convert_value(data, "$", paths, 0), paths


def _convert_value(data: Any, path: str, paths: set[str], depth: int) -> Any:
    if depth <= _MAX_DEPTH:
        if isinstance(data, dict):
            items = ((_convert_key(key), value) for key, value in data.items())
            return {key: _convert_value(value, f"{path}.{key}", paths, depth + 1) for key, value in items}
        if isinstance(data, list | tuple):
            return [_convert_value(item, f"{path}[{index}]", paths, depth + 1) for index, item in enumerate(data)]
        if data is None or isinstance(data, bool | float):
            return data
        if isinstance(data, str):
            return _replace_surrogates(data)
        if isinstance(data, int) and data.bit_length() <= _MAX_BITS:
            return int(data)
    paths.add(path)
    return None


def _convert_key(key: Any) -> str:
    try:
        return _replace_surrogates(key if isinstance(key, str) else str(key))
    except Exception:  # a third-party __str__, or an integer with too many digits
        return f"<{type(key).__name__}>"


def _replace_surrogates(text: str) -> str:
    """Each lone surrogate becomes a question mark, so the length stays the same."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else str(text)
