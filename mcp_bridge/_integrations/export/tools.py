"""Prepares tools for the models of a vendor: a valid name, a valid schema, and the way back.

A schema that is no object at its root is wrapped in an object with one property. `ExportedTool.read_arguments` converts
the arguments of the model back to those of the tool.
"""

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
"""The keywords that OpenAI, Anthropic and Bedrock reject at the root of a tool's schema."""
_BESIDE_REFERENCE = frozenset({"$ref", "$defs", "definitions", "type", "title", "description", "default", "examples"})
"""If a root has a reference and only these keywords, the reference can be replaced by its target."""
_SCOPES = frozenset({"$id", "$defs", "definitions"})
"""The keywords that change the meaning of references below them. A target with one of them is not moved."""
# A reference may lead to another one. The limit ends a circle.
_MAX_REFERENCES = 8
_MAX_NAME = 64
"""The maximum length of a name for all vendors. Some accept more."""
_HASH_DIGITS = 8
"""The digits of the hash that makes a name unique. If such a name exists, the hash has more digits."""
_NOT_LETTERS = frozenset("0123456789-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A change by an export, or a part of a schema without a form in strict mode.

    `tool` is the registered name of the tool, and `path` a JSON path into its schema.

    >>> print(Problem(tool="draw", path="$", text="the tool is called 'draw_1'"))
    tool 'draw': $: the tool is called 'draw_1'
    """

    tool: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"tool '{self.tool}': {self.path}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTool:
    """One tool in a format.

    Attributes:
        schema: The schema for the model.
        strict: Whether the schema is strict; None if strict mode was not requested.
        wire: The tool as MCP clients see it, which reads arguments.
        repair: Removes nulls in place of missing arguments, because strict schemas require all properties.
    """

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool | None
    wire: WireTool
    repair: ArgumentRepair

    @property
    def labels(self) -> dict[str, str]:
        """The name, and the description unless it is empty."""
        labels = {"name": self.name}
        if self.description:
            labels["description"] = self.description
        return labels

    def read_arguments(self, arguments: Mapping[str, Any]) -> Any:
        """Return the data for the handler. Raises InvalidArguments for arguments of another shape."""
        if self.strict:
            arguments = self.repair.repair(arguments)
        return self.wire.read_arguments(arguments)


def export_tool(entry: ToolEntry, name: str, *, strict: bool) -> tuple[ExportedTool, list[Problem]]:
    """Return the tool with its exported name, and the changes as problems."""
    problems = []
    if name != entry.name:
        problems.append(Problem(tool=entry.name, path="$", text=f"the tool is called '{name}'"))
    wire = to_wire(entry.to_tool_definition())
    schema, root_keyword = _resolve_root(wire.input_schema)
    if root_keyword:
        # `to_wire` adds the type to a root without one. It says nothing if the alternatives are all objects.
        schema_without_type = {keyword: value for keyword, value in schema.items() if keyword != "type"}
        if is_always_object(schema_without_type):
            schema = schema_without_type
        schema = wrap_schema(schema, INPUT)
        text = f"models do not accept this at the root, so the whole input is the one argument '{INPUT}'"
        problems.append(Problem(tool=entry.name, path=f"$.{root_keyword}", text=text))
    elif wire.wraps_input:
        text = f"this is not an object, so it is the one argument '{INPUT}'"
        problems.append(Problem(tool=entry.name, path="$", text=text))
    is_strict = None
    full_schema = {"type": "object", "properties": {}, **schema}
    model_schema = full_schema
    if strict:
        strict_form = to_strict(schema)
        problems += [Problem(tool=entry.name, path=path, text=text) for path, text in strict_form.problems]
        is_strict = not strict_form.problems
        if is_strict:
            model_schema = strict_form.schema
    tool = ExportedTool(
        name=name,
        description=sanitize_text(entry.description),
        schema=model_schema,
        strict=is_strict,
        wire=replace(wire, input_schema=full_schema, wraps_input=wire.wraps_input or bool(root_keyword)),
        repair=ArgumentRepair(full_schema, parse_strings=False, omitted=(None,)),
    )
    return tool, problems


def _resolve_root(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the schema with a reference at its root replaced by its target.

    Also return the first forbidden keyword at the root, or None.
    """
    root = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    for _ in range(_MAX_REFERENCES):
        if not isinstance(root.get("$ref"), str) or not _BESIDE_REFERENCE.issuperset(root):
            break
        target = resolve_pointer(root["$ref"], root)
        if not isinstance(target, Mapping) or not _SCOPES.isdisjoint(target):
            break
        del root["$ref"]
        root = {**target, **root}
    for keyword in _COMPOSED:
        if keyword in root:
            return root, keyword
    return root, None


def choose_names(names: Iterable[str], *, needs_initial_letter: bool = False) -> dict[str, str]:
    """Return a unique name of the form `[A-Za-z0-9_-]{1,64}` for each name.

    A valid name is not changed, and the order of the names has no effect on the result. With `needs_initial_letter`,
    names begin with a letter or `_`.
    """
    sorted_names = sorted(set(names))
    choices = {}
    for name in sorted_names:
        if to_client_name(name) == name and not (needs_initial_letter and name[0] in _NOT_LETTERS):
            choices[name] = name
    used_names = set(choices)
    for name in sorted_names:
        if name not in choices:
            choices[name] = _add_hash(name, used_names, needs_initial_letter)
            used_names.add(choices[name])
    return choices


def _add_hash(name: str, used_names: set[str], needs_initial_letter: bool) -> str:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    stem = to_client_name(name)
    # `to_client_name` has appended a hash to a name that it has changed. Remove it.
    if stem != name:
        stem = stem.rpartition("_")[0]
    if needs_initial_letter and stem[:1] in _NOT_LETTERS:
        stem = f"_{stem}"
    for digits in range(_HASH_DIGITS, _MAX_NAME - 1):
        candidate = f"{stem[: _MAX_NAME - 1 - digits]}_{digest[:digits]}"
        if candidate not in used_names:
            return candidate
    raise AssertionError("two names have the same SHA-256")  # pragma: no cover
