"""Prepares tools for a format: name, schema for the model, and the way back from a model's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._integrations.export.strict import to_strict
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._protocol.dialects.argument_repair import ArgumentRepair
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._protocol.wire.schemas import is_always_object, wrap_schema
from mcp_bridge._protocol.wire.tools import INPUT, WireTool, to_wire
from mcp_bridge._protocol.wire.values import sanitize_text

_COMPOSED = ("anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref", "$dynamicRef")
"""What OpenAI and Anthropic, and so Bedrock, reject at the root of a tool's schema."""
_BESIDE_REFERENCE = frozenset({"$ref", "$defs", "definitions", "type", "title", "description", "default", "examples"})
"""A reference at the root is replaced by its target if it has no other keywords beside it."""
_SCOPES = frozenset({"$id", "$defs", "definitions"})
"""What references are relative to: a target with a scope of its own is not moved."""
_MAX_REFERENCES = 8
_MAX_NAME = 64
"""What every vendor accepts; some accept more."""
_HASH_DIGITS = 8
"""How many digits of a hash make a name unique; more if that name is taken."""
_NOT_LETTERS = frozenset("0123456789-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What an export changed, or cannot express. `tool` is a registered name, `path` a JSON path into its schema."""

    tool: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"tool '{self.tool}': {self.path}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTool:
    """One tool in a format. `schema` is what the model sees; `strict` is None if strict mode was not requested.

    Strict schemas require all properties. `repair` removes the nulls that mean "left out".
    """

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool | None
    wire: WireTool
    repair: ArgumentRepair

    @property
    def labels(self) -> dict[str, str]:
        """`name`, and `description` unless it is empty."""
        return {"name": self.name, **({"description": self.description} if self.description else {})}

    def read_arguments(self, arguments: Mapping[str, Any]) -> Any:
        """The handler's data from a model's arguments. Raises InvalidArguments for arguments of another shape."""
        return self.wire.read_arguments(self.repair.repair(arguments) if self.strict else arguments)


def export_tool(entry: ToolEntry, name: str, *, strict: bool) -> tuple[ExportedTool, list[Problem]]:
    """The tool under its name in a format, and what was changed."""
    problems = [Problem(tool=entry.name, path="$", text=f"the tool is called '{name}'")] if name != entry.name else []
    wire = to_wire(entry.to_tool_definition())
    schema, root_keyword = _resolve_root(wire.input_schema)
    if root_keyword:
        schema_without_type = {keyword: value for keyword, value in schema.items() if keyword != "type"}
        schema = wrap_schema(schema_without_type if is_always_object(schema_without_type) else schema, INPUT)
        text = f"models do not accept this at the root, so the whole input is the one argument '{INPUT}'"
        problems.append(Problem(tool=entry.name, path=f"$.{root_keyword}", text=text))
    elif wire.wraps_input:
        text = f"this is not an object, so it is the one argument '{INPUT}'"
        problems.append(Problem(tool=entry.name, path="$", text=text))
    strict_form = to_strict(schema) if strict else None
    if strict_form is not None:
        problems += [Problem(tool=entry.name, path=path, text=text) for path, text in strict_form.problems]
    is_strict = None if strict_form is None else not strict_form.problems
    schema = {"type": "object", "properties": {}, **schema}
    tool = ExportedTool(
        name=name,
        description=sanitize_text(entry.description),
        schema=strict_form.schema if strict_form is not None and is_strict else schema,
        strict=is_strict,
        wire=replace(wire, input_schema=schema, wraps_input=wire.wraps_input or bool(root_keyword)),
        repair=ArgumentRepair(schema, parse_strings=False, omitted=(None,)),
    )
    return tool, problems


def _resolve_root(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The schema with a reference at its root replaced by its target, and a keyword that no root may have."""
    root = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    for _ in range(_MAX_REFERENCES):
        target = resolve_pointer(root["$ref"], root) if isinstance(root.get("$ref"), str) else None
        if not isinstance(target, Mapping) or _SCOPES & target.keys() or root.keys() - _BESIDE_REFERENCE:
            break
        root = {**target, **{keyword: value for keyword, value in root.items() if keyword != "$ref"}}
    return root, next((keyword for keyword in _COMPOSED if keyword in root), None)


def choose_names(names: Iterable[str], *, needs_initial_letter: bool = False) -> dict[str, str]:
    """For each name a unique one in the format, `[A-Za-z0-9_-]{1,64}`, independent of the order of the names.

    A name that fits is not changed. With `needs_initial_letter`, names begin with a letter or `_`.
    """
    sorted_names = sorted(set(names))
    choices = {name: name for name in sorted_names if _is_valid_name(name, needs_initial_letter)}
    used_names = set(choices)
    for name in sorted_names:
        if name not in choices:
            choices[name] = _add_hash(name, used_names, needs_initial_letter)
            used_names.add(choices[name])
    return choices


def _is_valid_name(name: str, needs_initial_letter: bool) -> bool:
    return to_client_name(name) == name and not (needs_initial_letter and name[0] in _NOT_LETTERS)


def _add_hash(name: str, used_names: set[str], needs_initial_letter: bool) -> str:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    plain = to_client_name(name)
    stem = plain if plain == name else plain.rpartition("_")[0]
    stem = f"_{stem}" if needs_initial_letter and stem[:1] in _NOT_LETTERS else stem
    for digits in range(_HASH_DIGITS, _MAX_NAME - 1):
        candidate = f"{stem[: _MAX_NAME - 1 - digits]}_{digest[:digits]}"
        if candidate not in used_names:
            return candidate
    raise AssertionError("two names have the same SHA-256")  # pragma: no cover
