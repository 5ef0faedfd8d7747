"""JSON text to plain data, with the line of each place."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.positions import MAX_DEPTH, TOO_DEEP, Lines, Place, dotted
from mcp_bridge.documents.value_text import shortened

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+')


def parse(text: str, path: str) -> tuple[Any, Lines]:
    """The data in `text` and the line of each place.

    Raises ConfigError with the line.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        hint = "JSON takes no comments, no single quotes and no comma after the last entry."
        problem = f"not valid JSON: {error.msg}, column {error.colno}"
        raise ConfigError(problem, path=path, line=error.lineno, hint=hint) from None
    except RecursionError:
        raise ConfigError(TOO_DEEP, path=path, hint="Flatten it.") from None
    except ValueError:
        # Python refuses to read whole numbers beyond some thousand digits.
        raise ConfigError("a number of too many digits", path=path, hint="Write it in quotes.") from None
    return data, _locate(text, path)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet; `step` is the key or index that is being read."""

    place: Place
    is_list: bool
    step: str | int | None


def _locate(text: str, path: str) -> Lines:
    """The line of each place in text that is known to be JSON."""
    lines: Lines = {}
    stack: list[_Open] = []
    line = 1
    for match in _PIECE.finditer(text):
        piece = match.group()
        top = stack[-1] if stack else None
        if piece == "\n":
            line += 1
        elif piece in ("}", "]"):
            stack.pop()
        elif piece == "," and top:
            top.step = top.step + 1 if isinstance(top.step, int) else None
        elif top and top.step is None:
            top.step = _key(piece, top, lines, line, path)
        elif piece != ":":
            place: Place = () if top is None or top.step is None else (*top.place, top.step)
            lines.setdefault(place, line)
            if piece in ("{", "["):
                stack.append(_Open(place, piece == "[", 0 if piece == "[" else None))
            if len(stack) > MAX_DEPTH:
                raise ConfigError(TOO_DEEP, path=path, line=line, where=dotted(place), hint="Flatten it.")
    return lines


def _key(piece: str, top: _Open, lines: Lines, line: int, path: str) -> str:
    key = str(json.loads(piece))
    place = (*top.place, key)
    if place in lines:
        problem = f"key {shortened(key)} stands twice, first in line {lines[place]}"
        raise ConfigError(problem, path=path, line=line, where=dotted(place), hint="Keep one of them.")
    lines[place] = line
    return key
