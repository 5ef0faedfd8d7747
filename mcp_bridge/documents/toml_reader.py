"""TOML text to plain data, with the line of each place.

tomllib keeps no positions, so a small locator reads headers and keys once more. Its limit: what stands inside an
inline table or an array has no line of its own and takes that of its key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.positions import MAX_DEPTH, TOO_DEEP, Lines, Place

# Text in three quotes that never ends takes all that is left: looking for its end again and again is quadratic.
_PIECE = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"{3,5}|\\?\Z)'
    r"|\'\'\'.*?(?:'{3,5}|\Z)"
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'"""
    r"""|\#[^\n]*|[\[\]{}=.,\n]|[^\s\[\]{}=.,#"']+|["']""",
    re.DOTALL,
)
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


def parse(text: str, path: str) -> tuple[Any, Lines]:
    """The data in `text` (None when there is none) and the line of each key.

    Raises ConfigError with the line.
    """
    # tomllib takes quadratic time for dotted keys: 8,000 parts are a second, a file of them hours.
    line = _endless_key(text)
    if line:
        raise ConfigError(TOO_DEEP, path=path, line=line, hint="Flatten it.")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(error, text, path) from None
    except RecursionError:
        raise ConfigError(TOO_DEEP, path=path, hint="Flatten it.") from None
    except ValueError:
        # Python refuses to read whole numbers beyond some thousand digits.
        raise ConfigError("a number of too many digits", path=path, hint="Write it in quotes.") from None
    return data or None, _locate(text)


def _syntax(error: tomllib.TOMLDecodeError, text: str, path: str) -> ConfigError:
    message = str(error)
    at = _AT_LINE.search(message)
    line = int(at[1]) if at else text.count("\n") + 1
    hint = "TOML keys are 'name = value', text stands in quotes, a key stands once."
    return ConfigError(f"not valid TOML: {_AT_LINE.sub('', message)}", path=path, line=line, hint=hint)


def _endless_key(text: str) -> int | None:
    """The line of the first key with more parts than settings may be deep."""
    dots = 0
    for match in _PIECE.finditer(text):
        piece = match.group()
        if piece == ".":
            dots += 1
        elif piece in ("[", "]", "{", "}", "=", ",", "\n"):
            dots = 0
        if dots > MAX_DEPTH:
            return text.count("\n", 0, match.start()) + 1
    return None


def _locate(text: str) -> Lines:
    """The line of each header and key in text that is known to be TOML."""
    lines: Lines = {(): 1}
    table: Place = ()
    counts: dict[Place, int] = {}
    for line, pieces in _statements(text):
        if pieces[0] == "[":
            keys = [_name(piece) for piece in pieces if piece not in ("[", "]", ".")]
            table = (*_resolve(keys[:-1], counts), keys[-1])
            if pieces[1] == "[":
                lines.setdefault(table, line)
                counts[table] = counts.get(table, -1) + 1
            if table in counts:
                table += (counts[table],)
            place, start = table, 1
        else:
            keys = [_name(piece) for piece in pieces[: pieces.index("=")] if piece != "."]
            place, start = table + tuple(keys), len(table) + 1
        for end in range(start, len(place) + 1):
            lines.setdefault(place[:end], line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each header and each key with its value, as pieces, with the line of its start."""
    line = start = 1
    depth = 0
    pieces: list[str] = []
    for match in _PIECE.finditer(text + "\n"):
        piece = match.group()
        if piece == "\n" and depth == 0 and pieces:
            yield start, pieces
            pieces = []
        elif piece != "\n" and not piece.startswith("#"):
            start = start if pieces else line
            pieces.append(piece)
            depth += (piece in ("[", "{")) - (piece in ("]", "}"))
        line += piece.count("\n")


def _resolve(keys: list[str], counts: dict[Place, int]) -> Place:
    """The place of a table, with the newest element for each array of tables on the way."""
    place: Place = ()
    for key in keys:
        place += (key,)
        if place in counts:
            place += (counts[place],)
    return place


def _name(piece: str) -> str:
    if piece[0] not in "\"'":
        return piece
    return str(tomllib.loads(f"name = {piece}")["name"])
