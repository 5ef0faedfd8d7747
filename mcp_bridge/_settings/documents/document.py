"""A settings file as plain data with the line of each value.

YAML 1.2, JSON and TOML give the same data: mappings with text keys, lists, text, whole numbers of 64 bits, finite
numbers, true and false, null. A date in YAML is text. A date in TOML is rejected, because the other formats lack its
type: it has to be quoted.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.editor import parse_source
from mcp_bridge._settings.documents.positions import (
    MAX_DEPTH,
    TOO_DEEP,
    KeyPath,
    PathStep,
    find_nearest_line,
    format_key_path,
    walk_values,
)
from mcp_bridge._settings.documents.syntax import Format, index_lines
from mcp_bridge._settings.documents.value_text import SHORTEST_SECRET, describe_kind, is_encodable, redact_values

MAX_BYTES = 1024 * 1024
FORMATS: dict[str, Format] = {".yaml": "yaml", ".yml": "yaml", ".json": "jsonc", ".toml": "toml", ".jsonc": "jsonc"}
SUFFIXES = tuple(FORMATS)

_LARGEST = 2**64
# Messages about a plugin show a part of its name, such as the module of `module:Name`.
_SEPARATORS = re.compile(r"[:.]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The data of a settings file.

    Attributes:
        path: The file; empty if there is none.
        data: The data, without references to the environment once these are replaced.
        lines: The line of each key path, counted from 1.
        hidden_places: The key paths with text from the environment. No message shows this text.
        secrets: The values from the environment. No message shows them.
        visible_secrets: The secrets that clients may see.
        entry_problems: The problems that concern only one entry each, by the key path of the entry.
    """

    path: str
    data: dict[str, Any] = field(repr=False)
    lines: Mapping[KeyPath, int] = field(default_factory=dict, repr=False)
    hidden_places: frozenset[KeyPath] = frozenset()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    visible_secrets: frozenset[str] = field(default=frozenset(), repr=False)
    entry_problems: Mapping[KeyPath, ConfigError] = field(default_factory=dict, repr=False)

    def get_line(self, where: Sequence[PathStep]) -> int | None:
        """Return the line of a key path, or of its nearest ancestor that has one, counted from 1."""
        return find_nearest_line(self.lines, where)

    def make_error(self, where: Sequence[PathStep], problem: str, hint: str = "") -> ConfigError:
        """Make an error with file, line and key path. Redact values from the environment in that place."""
        place = tuple(where)
        if any(hidden_place[: len(place)] == place for hidden_place in self.hidden_places):
            pieces: set[str] = set()
            for value in self.secrets:
                pieces.update((value, *_SEPARATORS.split(value)))
            problem = redact_values(problem, [piece for piece in pieces if len(piece) >= SHORTEST_SECRET])
        return ConfigError(
            problem, path=self.path or None, line=self.get_line(where), where=format_key_path(where), hint=hint
        )


def read_document(path: Path) -> Document:
    """Read a settings file in the format of its suffix: YAML, JSON or TOML.

    Raises ConfigError for everything that can be wrong with a file, with the line where it is known.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        description = f"the suffix '{path.suffix}'" if suffix else "a name without a suffix"
        problem = f"expected a settings file ending in {', '.join(SUFFIXES)}, found {description}"
        raise ConfigError(problem, path=str(path), hint="Rename the file after its format.")
    text = _read_text(path)
    try:
        source = parse_source(FORMATS[suffix], text, strict=True) if text.strip() else None
        lines = index_lines(text, source.root) if source is not None else {}
    except ConfigError as error:
        error.path = str(path)
        raise
    data = source.data if source is not None else None
    if data is None or (suffix == ".toml" and not data):
        raise ConfigError("the file is empty", path=str(path), hint="Write at least 'sources:' into it.")
    if not isinstance(data, dict):
        raise ConfigError(
            f"expected a mapping of keys to values, found {describe_kind(data)}",
            path=str(path),
            line=find_nearest_line(lines, ()),
            hint="The outermost level holds keys such as 'name' and 'sources'.",
        )
    document = Document(path=str(path), data=data, lines=lines)
    _check_values(document)
    return document


def join_errors(errors: Sequence[ConfigError]) -> ConfigError:
    """Join errors into one with the location of the first and a line for each of the others."""
    first, *further_errors = errors
    if not further_errors:
        return first
    lead = f"{first.problem}. {first.hint}" if first.hint else first.problem
    problem = "\n".join([lead, *(str(error) for error in further_errors)])
    return ConfigError(problem, path=first.path, line=first.line, where=first.where)


def _read_text(path: Path) -> str:
    def file_error(problem: str, hint: str) -> ConfigError:
        return ConfigError(problem, path=str(path), hint=hint)

    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise file_error("no such file", "Create it, or correct the path.") from None
    except IsADirectoryError:
        raise file_error("found a directory, expected a file", "Give the path of a file in it.") from None
    except PermissionError:
        raise file_error("reading it is not permitted", "Check the owner and the mode of the file.") from None
    except (OSError, ValueError) as error:
        raise file_error(f"it cannot be read: {error}", "Check the path.") from None
    if len(content) > MAX_BYTES:
        raise file_error("larger than 1 MiB", "Move data out of the settings into files of their own.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        hint = "Save the file as UTF-8."
        raise ConfigError("not UTF-8 text", path=str(path), line=line, hint=hint) from None


def _check_values(document: Document) -> None:
    """Raise ConfigError if one of the formats cannot represent a value."""
    for place, value in walk_values(document.data):
        if len(place) > MAX_DEPTH:
            raise document.make_error(place, TOO_DEEP, "Flatten it, or check for an anchor in an anchor.")
        fault = _find_fault(value)
        if fault:
            raise document.make_error(place, *fault)


def _find_fault(value: Any) -> tuple[str, str] | None:
    """Return the problem of a value and a hint, or None."""
    if isinstance(value, str) and not is_encodable(value):
        return "found half of a surrogate pair (\\ud800 to \\udfff)", "Write the character itself."
    # No path, argument, variable or header can contain one.
    if isinstance(value, str) and "\0" in value:
        return "found a null character", "Remove it."
    if isinstance(value, dict) and not all(map(is_encodable, value)):
        return "found half of a surrogate pair in a key", "Write the character itself."
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return "found a whole number of more than 64 bits", "Write it in quotes if it is an identifier."
    if isinstance(value, float) and not math.isfinite(value):
        return "found a number that is infinite or not a number", "Write a finite number."
    if isinstance(value, datetime.date | datetime.time):
        return "found a date or time", "Write it in quotes."
    return None
