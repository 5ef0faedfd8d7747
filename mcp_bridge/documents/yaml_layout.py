"""The lines of a YAML text: how entries are indented, where their lines are, and how new ones are written."""

from __future__ import annotations

import io
import re
from typing import Any

from mcp_bridge.documents.edit import unsafe
from mcp_bridge.documents.yaml_syntax import Node

STEP = 2

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_LINE = re.compile(r"[^\n]*(?:\n|\Z)")
_LINE_END = re.compile(r"\r?\n")


def block(payload: Any, column: int, newline: str, step: int) -> str:
    """The payload in block style, each line indented by so much, without the last line's end."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt", pure=True)
    yaml.width = 1 << 30
    yaml.allow_unicode = True
    yaml.indent(mapping=step, sequence=step + 2, offset=step)
    out = io.StringIO()
    if isinstance(payload, list):  # at the top, the emitter would indent the dash as well
        yaml.dump(_quoted({"x": payload}), out)
        written = [line[step:] for line in out.getvalue().split("\n")[1:]]
    else:
        yaml.dump(_quoted(payload), out)
        written = out.getvalue().split("\n")
    return newline.join(f"{' ' * column}{line}" for line in written if line)


def _quoted(value: Any, *, is_key: bool = False) -> Any:
    """The data with every text in double quotes, where it is not a key that means text in every YAML."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, dict):
        return {_quoted(key, is_key=True): _quoted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_quoted(item) for item in value]
    if not isinstance(value, str) or (is_key and _BARE.fullmatch(value) and value.lower() not in _WORDS):
        return value
    return DoubleQuotedScalarString(value)


def after(text: str, at: int, written: str, newline: str) -> str:
    """The text with what is written on lines of its own, after the line that ends at `at`."""
    if at < len(text):
        return f"{text[:at]}{written}{newline}{text[at:]}"
    if not text or text.endswith("\n"):
        return f"{text}{written}{newline}"
    return f"{text}{newline}{written}"


def cut(text: str, start: int, end: int) -> str:
    """The text without these lines: with the line end after them or, at the end of a text without one, before."""
    line_end = _LINE_END.match(text, end)
    if line_end:
        return text[:start] + text[line_end.end() :]
    return text[: start - 1].removesuffix("\r") if start else ""


def lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The lines from one place to the other: their beginning, and their end without the last line end."""
    first = start_of_line(text, start)
    if re.fullmatch(r" *(?:- +)?", text[first:start]) is None:
        raise unsafe("an entry that does not begin its line", line=line_of(text, start))
    last = text.find("\n", end)
    stop = len(text) if last < 0 else last
    return first, stop - 1 if text[stop - 1 : stop] == "\r" and stop > end else stop


def end_of_entries(text: str, at: int, column: int) -> int:
    """Where the next line begins, after the line of `at` and the comments below it that are indented as entries are."""
    found = _LINE.match(text, at)
    end = len(text) if found is None else found.end()
    comment = re.compile(rf" {{{column},}}#[^\n]*(?:\n|\Z)")
    while end < len(text) and text[end - 1] == "\n" and (more := comment.match(text, end)):
        end = more.end()
    return end


def column_of(text: str, container: Node) -> int:
    """How deep the entries of a container are indented."""
    first = container.children[0].start
    before = text[start_of_line(text, first) : first]
    if container.kind == "map" and not before.strip(" "):
        return len(before)
    if container.kind == "list" and re.fullmatch(r" *- +", before):
        return before.index("-")
    raise unsafe("entries that do not begin their lines", line=line_of(text, first))


def step_of(text: str, root: Node | None) -> int:
    """How much deeper the first mapping inside the root is than the root."""
    for _, value in root.pairs if root else ():
        if value.kind == "map" and not value.is_flow and value.children:
            column = value.children[0].start - start_of_line(text, value.children[0].start)
            if 0 < column <= 8:
                return column
    return STEP


def step_in(text: str, entry: tuple[Node, Node]) -> int:
    """How much deeper an entry's values are than its name."""
    key, value = entry
    inside = value.children[0].start if value.children and not value.is_flow else key.start
    return max(inside - start_of_line(text, inside) - (key.start - start_of_line(text, key.start)), 0) or STEP


def start_of_line(text: str, at: int) -> int:
    """Where the line begins that has this place."""
    return text.rfind("\n", 0, at) + 1


def line_of(text: str, at: int) -> int:
    """The number of the line that has this place."""
    return text.count("\n", 0, at) + 1
