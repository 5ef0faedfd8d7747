"""JSON text to plain data, with the line of each place."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.settings.positions import MAX_DEPTH, TOO_DEEP, Lines, Place, dotted
from mcp_bridge.settings.words import shortened

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+')


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
    for match in _TOKEN.finditer(text):
        token = match.group()
        top = stack[-1] if stack else None
        if token == "\n":
            line += 1
        elif token in ("}", "]"):
            stack.pop()
        elif token == "," and top:
            top.step = top.step + 1 if isinstance(top.step, int) else None
        elif top and top.step is None:
            top.step = _key(token, top, lines, line, path)
        elif token != ":":
            place: Place = () if top is None or top.step is None else (*top.place, top.step)
            lines.setdefault(place, line)
            if token in ("{", "["):
                stack.append(_Open(place, token == "[", 0 if token == "[" else None))
            if len(stack) > MAX_DEPTH:
                raise ConfigError(TOO_DEEP, path=path, line=line, where=dotted(place), hint="Flatten it.")
    return lines


def _key(token: str, top: _Open, lines: Lines, line: int, path: str) -> str:
    key = str(json.loads(token))
    place = (*top.place, key)
    first = lines.setdefault(place, line)
    return key
