"""Parses the parameters of a command into its input schema, and checks that its template uses them correctly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge._sources.command.template import ArgumentTemplate, Placeholder, Word

PATH = "path"
_TYPES = ("string", "integer", "number", "boolean", "object", PATH)
_TYPE_NAME = re.compile(rf"({'|'.join(_TYPES)})(\[\])?")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_FOLDER_BEFORE, _FOLDER_AFTER = re.compile(r"/[^=:,@]*$"), re.compile(r"^[^=:,@]*/")
"""Text beside a path that makes it a part of a longer path, as in `data/{path}` and `{path}/data`."""
_DOT_BEFORE = re.compile(r"(^|[=:,@])\./$")
"""Text with which a program reads any value as a path, as in `./{path}` and `--file=./{path}`."""


@dataclass(frozen=True, slots=True)
class CommandParameters:
    """The parameters of a command.

    Attributes:
        schema: The input schema.
        defaults: The default values.
        paths: The names of parameters of the type `path`. Their values must be in the root.
        dotted_paths: The names in `paths` that have `./` before them in every word, as in `--file=./{name}`.
        listed_options: For each parameter, the values in its `enum` or `const` that begin with a dash. They are
            allowed, because the author of the tool has written them.
    """

    schema: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    paths: Set[str] = frozenset()
    dotted_paths: Set[str] = frozenset()
    listed_options: Mapping[str, Set[str]] = field(default_factory=dict)

    @property
    def properties(self) -> Mapping[str, Any]:
        properties = self.schema["properties"]
        return properties if isinstance(properties, Mapping) else {}


def parse_parameters(declaration: Mapping[str, Any], required: Set[str]) -> CommandParameters:
    """Parse the parameters of a tool: a JSON Schema of an object, or a mapping of names to types or schemas.

    The command cannot be built without the parameters in `required`. If the declaration is a mapping, the schema
    requires those of them that have no default. Raises ValueError.
    """
    is_schema = declaration.get("type") == "object" and isinstance(declaration.get("properties"), Mapping)
    definitions = declaration["properties"] if is_schema else declaration
    properties = {name: _parse_property(name, definition) for name, definition in definitions.items()}
    defaults = {name: definition["default"] for name, definition in properties.items() if "default" in definition}
    if is_schema:
        if not isinstance(declaration.get("required", []), list):
            raise ValueError("required: expected a list of parameters")
        schema = dict(declaration)
    else:
        schema = {"type": "object", "additionalProperties": False}
        names = [name for name in properties if name in required and name not in defaults]
        if names:
            schema["required"] = names
    paths = {name for name, definition in definitions.items() if _is_path(definition)}
    listed_options = {name: _list_options(definition) for name, definition in properties.items()}
    return CommandParameters({**schema, "properties": properties}, defaults, paths, listed_options=listed_options)


def _list_options(schema: Mapping[str, Any]) -> Set[str]:
    """Return the values in the `enum` or `const` of a schema, or of its items, that begin with a dash."""
    values: list[Any] = []
    for subschema in (schema, schema.get("items")):
        if isinstance(subschema, Mapping):
            values.append(subschema.get("const"))
            if isinstance(subschema.get("enum"), list):
                values += subschema["enum"]
    return {value for value in values if isinstance(value, str) and value.startswith("-")}


def _is_path(definition: Any) -> bool:
    type_name = definition.get("type") if isinstance(definition, Mapping) else definition
    return type_name in (PATH, f"{PATH}[]")


def _parse_property(name: str, definition: Any) -> dict[str, Any]:
    """Return the JSON Schema of a parameter. `path` becomes a string, and `string[]` an array of strings."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' is not a name of a parameter: use letters, digits, '_' and '-'")
    schema = {"type": definition} if isinstance(definition, str) else definition
    if not isinstance(schema, Mapping):
        problem = f"parameter '{name}': expected a type such as string, or a JSON Schema"
        raise ValueError(problem)  # noqa: TRY004 - pydantic collects only ValueError
    type_name = schema.get("type")
    match = _TYPE_NAME.fullmatch(type_name) if isinstance(type_name, str) else None
    if match is None:
        if isinstance(definition, str):
            type_names = ", ".join(_TYPES)
            raise ValueError(
                f"parameter '{name}': expected one of the types {type_names}, or a list of one as string[]"
            )
        return dict(schema)
    item_type = "string" if match[1] == PATH else match[1]
    if match[2] is None:
        return {**schema, "type": item_type}
    # A schema may have its own `items`, with more keywords.
    return {"items": {"type": item_type}, **schema, "type": "array"}


def check_use(parameters: CommandParameters, template: ArgumentTemplate, others: Set[str]) -> None:
    """Check that a command uses all of its parameters, and only declared ones, where they can have values.

    `others` are parameters that `cwd` and `stdin` use. Raises ValueError with the first problem.
    """
    properties = parameters.properties
    names_with_values = {*parameters.schema.get("required", ()), *parameters.defaults}
    used_names = {*template.names, *others}
    if unknown_names := sorted(used_names - properties.keys()):
        name = unknown_names[0]
        raise ValueError(f"there is no parameter '{name}'. Declare it, or write {{{{{name}}}}} for the text {{{name}}}")
    if unused_names := sorted(properties.keys() - used_names):
        raise ValueError(
            f"the parameter '{unused_names[0]}' is not used. Write {{{unused_names[0]}}} where its value belongs"
        )
    if optional := sorted((template.required | others) - names_with_values):
        hint = f"Give it a default, or put its word into a list, such as ['{{{optional[0]}}}']"
        raise ValueError(f"the parameter '{optional[0]}' is optional, but the command always needs it. {hint}")
    if missing := sorted(template.find_missing(names_with_values)):
        raise ValueError(f"the parameter '{missing[0]}' may be missing where `if` adds it. Make it required")
    for word in template.words:
        paths = [piece.name for piece in word if isinstance(piece, Placeholder) and piece.name in parameters.paths]
        if len(paths) > 1:
            # Each path is checked alone, but together they can lead elsewhere.
            raise ValueError(
                f"the paths '{paths[0]}' and '{paths[1]}' are in one word. Put each into a word of its own"
            )
        if paths and _has_folder(word, paths[0]):
            raise ValueError(
                f"the path '{paths[0]}' is a part of another path, which is not checked. Use `cwd` instead"
            )
    flags = sorted(name for name in template.whole_words if properties[name].get("type") == "boolean")
    if flags:
        hint = f"Write {{if: {flags[0]}, add: --{flags[0].replace('_', '-')}}}"
        raise ValueError(f"the value of '{flags[0]}' is true or false, which is not a word for a program. {hint}")


def _has_folder(word: Word, path: str) -> bool:
    """Return whether text beside a path in a word makes it a part of a longer path."""
    # `check_use` has rejected words with several paths, so the path is in one place.
    (index,) = [index for index, piece in enumerate(word) if isinstance(piece, Placeholder) and piece.name == path]
    before = word[index - 1] if index > 0 else ""
    after = word[index + 1] if index + 1 < len(word) else ""
    if isinstance(before, str) and _FOLDER_BEFORE.search(before) and not _DOT_BEFORE.search(before):
        return True
    return isinstance(after, str) and _FOLDER_AFTER.search(after) is not None


def find_dotted_paths(words: Iterable[Word], paths: Set[str]) -> Set[str]:
    """Return the names of paths that have `./` before them in all of these words.

    A list that a separator joins is not among them, because only its first item would follow `./`.
    """
    dotted_names: set[str] = set()
    bare_names: set[str] = set()
    for word in words:
        text_before = ""
        for piece in word:
            if isinstance(piece, str):
                text_before = piece
                continue
            if piece.separator is None and _DOT_BEFORE.search(text_before):
                dotted_names.add(piece.name)
            else:
                bare_names.add(piece.name)
            text_before = ""
    return (dotted_names - bare_names) & paths
