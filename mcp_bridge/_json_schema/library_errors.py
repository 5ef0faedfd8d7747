"""Explains the errors of jsonschema-rs: in the words of `messages` where that has the keyword, and alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
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

if TYPE_CHECKING:
    import jsonschema_rs

FALSE_SCHEMA = "falseSchema"
"""The library's name for a schema that is `false`."""


def list_causes(error: jsonschema_rs.ValidationError, root: Any, wording: Wording) -> Iterator[ValidationProblem]:
    """The problems of an error. `root` is the schema as a whole."""
    path = format_path(error.instance_path)
    keyword = str(error.kind.name)
    if keyword == FALSE_SCHEMA and error.schema_path[-1:] == ["additionalProperties"]:
        yield ValidationProblem(path, FALSE_SCHEMA, f"{path}: additional property not allowed")
    elif keyword == "required":
        name = getattr(error.kind, "property", "")
        yield ValidationProblem(f"{path}.{name}", keyword, f"{path}.{name}: required field missing")
    elif keyword == "additionalProperties" and isinstance(instance := error.instance, dict):
        other_names = _list_properties(root, error.schema_path[:-1]) - instance.keys()
        for name in sorted(getattr(error.kind, "unexpected", ())):
            yield make_unknown_property_problem(f"{path}.{name}", other_names)
    elif keyword in ("anyOf", "oneOf") and any(getattr(error.kind, "context", ())):
        yield from _list_alternatives(error, root, wording)
    elif keyword in KEYWORDS and (problem := _find_again(error, path, keyword, wording)):
        yield problem
    else:
        yield ValidationProblem(path, keyword, f"{path}: {error.message}")


def _list_alternatives(
    error: jsonschema_rs.ValidationError, root: Any, wording: Wording
) -> Iterator[ValidationProblem]:
    """The problems of a value that fits no alternative.

    If one alternative has the type of the value, such as the model in `Model | None`, they are those of that one. If
    none has it, the types that fit are listed. Otherwise, the alternative with the fewest problems is explained.
    """
    path, alternatives = format_path(error.instance_path), getattr(error.kind, "context", ())
    types: dict[str, None] = {}
    possible: list[Sequence[jsonschema_rs.ValidationError]] = []
    for errors in alternatives:
        if (type_error := _find_type_error(errors, error)) is None:
            possible.append(errors)
        else:
            types |= dict.fromkeys(getattr(type_error.kind, "types", ()))
    if not possible:
        expected = {"type": list(types)} if len(types) > 1 else {"type": next(iter(types))}
        yield from find_problems(error.instance, expected, path, wording=wording)
        return
    tagged = [errors for errors in possible if not any(_is_tag_error(cause, error) for cause in errors)]
    closest = min(tagged or possible, key=len)
    if len(tagged or possible) > 1:
        text = f"{path}: fits none of the {len(alternatives)} alternatives. The problems with the closest one:"
        yield ValidationProblem(path, str(error.kind.name), text)
    for cause in closest:
        yield from list_causes(cause, root, wording)


def _find_type_error(
    errors: Sequence[jsonschema_rs.ValidationError], union: jsonschema_rs.ValidationError
) -> jsonschema_rs.ValidationError | None:
    """The error that the value of a union has the wrong type for an alternative."""
    for error in errors:
        if error.kind.name == "type" and error.instance_path == union.instance_path:
            return error
    return None


def _is_tag_error(error: jsonschema_rs.ValidationError, union: jsonschema_rs.ValidationError) -> bool:
    """Whether an error is at a `const` property of the value, which names the alternative that is meant."""
    return error.kind.name == "const" and len(error.instance_path) == len(union.instance_path) + 1


def _find_again(
    error: jsonschema_rs.ValidationError, path: str, keyword: str, wording: Wording
) -> ValidationProblem | None:
    """The problem in the words of `messages`, for a keyword that is behind a reference or a combinator."""
    value = getattr(error.kind, {"type": "types", "enum": "options"}.get(keyword, "limit"), None)
    if keyword == "type" and isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return None
    return next(find_problems(error.instance, {keyword: value}, path, wording=wording), None)


def _list_properties(root: Any, path: Sequence[str | int]) -> Set[str]:
    """The properties that the schema at a path names. The path goes through references."""
    node = root
    for step in path:
        try:
            node = resolve_pointer(node[step], root) if step == "$ref" else node[step]
        except (LookupError, TypeError):
            return frozenset()
    properties = node.get("properties") if isinstance(node, Mapping) else None
    return properties.keys() if isinstance(properties, Mapping) else frozenset()
