"""Translates the errors of jsonschema_rs into problems with clear messages.

For the twelve keywords of `messages`, they get its words. For `anyOf` and `oneOf`, they name the closest alternative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

from mcp_bridge._json_schema.messages import (
    KEYWORDS,
    ValidationProblem,
    Wording,
    find_problems,
    format_path,
    make_unknown_property_problem,
)
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.walking import get_mapping

if TYPE_CHECKING:
    import jsonschema_rs

FALSE_SCHEMA = "falseSchema"
"""The library's name for a schema that is `false`."""


def list_causes(error: jsonschema_rs.ValidationError, root: Any, wording: Wording) -> Iterator[ValidationProblem]:
    """Yield the problems for one error of the library. `root` is the whole schema."""
    path = format_path(error.instance_path)
    instance = error.instance
    keyword = str(error.kind.name)
    if keyword == FALSE_SCHEMA and error.schema_path[-1:] == ["additionalProperties"]:
        yield ValidationProblem(path, FALSE_SCHEMA, f"{path}: additional property not allowed")
        return
    if keyword == "required":
        name = getattr(error.kind, "property", "")
        yield ValidationProblem(f"{path}.{name}", keyword, f"{path}.{name}: required field missing")
        return
    if keyword == "additionalProperties" and isinstance(instance, dict):
        other_names = _list_properties(root, error.schema_path[:-1]) - instance.keys()
        for name in sorted(getattr(error.kind, "unexpected", ())):
            yield make_unknown_property_problem(f"{path}.{name}", other_names)
        return
    if keyword in ("anyOf", "oneOf") and any(getattr(error.kind, "context", ())):
        yield from _list_alternatives(error, root, wording)
        return
    problem = None
    if keyword in KEYWORDS:
        problem = _find_again(error, path, keyword, wording)
    yield problem or ValidationProblem(path, keyword, f"{path}: {error.message}")


def _list_alternatives(
    error: jsonschema_rs.ValidationError, root: Any, wording: Wording
) -> Iterator[ValidationProblem]:
    """Yield the problems of a value that fits no alternative.

    If the value has the type of no alternative, the problem lists all types. If it has the type of one, such as the
    model in `Model | None`, the problems are those with this one. Otherwise, they are those with the closest
    alternative.
    """
    path = format_path(error.instance_path)
    alternatives = getattr(error.kind, "context", ())
    types: dict[str, None] = {}
    candidates: list[Sequence[jsonschema_rs.ValidationError]] = []
    for errors in alternatives:
        type_error = _find_type_error(errors, error)
        if type_error is None:
            candidates.append(errors)
        else:
            types |= dict.fromkeys(getattr(type_error.kind, "types", ()))
    if not candidates:
        names = list(types)
        schema = {"type": names if len(names) > 1 else names[0]}
        yield from find_problems(error.instance, schema, path, wording=wording)
        return
    # Alternatives often have a tag, a property with a `const`. With another tag, the value means another alternative.
    tag_depth = len(error.instance_path) + 1
    matching_candidates = [errors for errors in candidates if not _has_wrong_tag(errors, tag_depth)]
    if matching_candidates:
        candidates = matching_candidates
    if len(candidates) > 1:
        text = f"{path}: fits none of the {len(alternatives)} alternatives. The problems with the closest one:"
        yield ValidationProblem(path, str(error.kind.name), text)
    for cause in min(candidates, key=len):
        yield from list_causes(cause, root, wording)


def _has_wrong_tag(errors: Sequence[jsonschema_rs.ValidationError], tag_depth: int) -> bool:
    """Whether a property at this depth has another value than its `const`."""
    return any(cause.kind.name == "const" and len(cause.instance_path) == tag_depth for cause in errors)


def _find_type_error(
    errors: Sequence[jsonschema_rs.ValidationError], union: jsonschema_rs.ValidationError
) -> jsonschema_rs.ValidationError | None:
    """Return the error about the type of the whole value in `union`, or None if the type fits this alternative."""
    for error in errors:
        if error.kind.name == "type" and error.instance_path == union.instance_path:
            return error
    return None


def _find_again(
    error: jsonschema_rs.ValidationError, path: str, keyword: str, wording: Wording
) -> ValidationProblem | None:
    """Return the problem in the words of `messages`, from the keyword's value in the error of the library."""
    value = getattr(error.kind, {"type": "types", "enum": "options"}.get(keyword, "limit"), None)
    if keyword == "type" and isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return None
    return next(find_problems(error.instance, {keyword: value}, path, wording=wording), None)


def _list_properties(root: Any, path: Sequence[str | int]) -> Set[str]:
    """Return the names of the properties of the schema at a path. The path goes through references."""
    node = root
    for step in path:
        try:
            node = resolve_pointer(node[step], root) if step == "$ref" else node[step]
        except (LookupError, TypeError):
            return frozenset()
    return get_mapping(node, "properties").keys()
