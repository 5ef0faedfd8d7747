"""YAML 1.2 text to plain data, built from parser events.

The events are read directly, because nothing then is built that the settings do not know: no tags but
`!!str`, `!!map` and `!!seq`, no objects, no recursion. The core schema of YAML 1.2 (section 10.3) decides what
plain text means: `no` and `on` are text, `010` is ten, a date is text. Merge keys (`<<`) work; explicit keys win.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)
from ruamel.yaml.reader import ReaderError

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.positions import MAX_DEPTH, TOO_DEEP, Lines, Place, dotted
from mcp_bridge.documents.value_text import kind, shortened

MAX_COPIED = 100_000
"""How much aliases may add to a document, in values and in pieces of 64 characters."""

_CORE = "tag:yaml.org,2002:"
_UNFINISHED = object()
_WORDS: dict[str, bool | None] = dict.fromkeys(("", "~", "null", "Null", "NULL")) | {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"(?P<ten>[-+]?[0-9]+)|0o(?P<eight>[0-7]+)|0x(?P<sixteen>[0-9a-fA-F]+)")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_DIGITS = 400


def parse(text: str, path: str) -> tuple[Any, Lines]:
    """The data of the only document in `text` (None when there is none) and the line of each place.

    Raises ConfigError with the line.
    """
    builder = _Builder(path=path)
    for event in _events(text, path):
        builder.take(event)
    return builder.root, builder.lines


def _events(text: str, path: str) -> Iterator[Event]:
    hint = "Check the indentation, quotes and brackets there and in the line before."
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML: {error.problem or error.context}"
        raise ConfigError(problem, path=path, line=mark.line + 1 if mark else None, hint=hint) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError("a control character", path=path, line=line, hint="Remove it.") from None
    except (YAMLError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError) as error:
        # ruamel.yaml has no error of its own for some texts (an escape beyond Unicode, an odd directive).
        raise ConfigError(f"not valid YAML: {error}", path=path, hint=hint) from None


@dataclass(slots=True, kw_only=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    data: dict[str, Any] | list[Any]
    place: Place
    anchor: str | None
    weight: int
    key: str | None = None
    is_merge: bool = False
    merged: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Builder:
    """Puts events together, one at a time."""

    path: str
    root: Any = None
    lines: Lines = field(default_factory=dict)
    has_document: bool = False
    open: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    weight: int = 0
    copied: int = 0

    def take(self, event: Event) -> None:
        """Add what one event says."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        match event:
            case DocumentStartEvent():
                if self.has_document:
                    self._fail(line, "a second document", "Keep one, and no '---' between the settings.")
                self.has_document = True
            case CollectionStartEvent():
                self._begin(event, line)
            case CollectionEndEvent():
                self._end(line)
            case ScalarEvent():
                self._scalar(event, line)
            case AliasEvent():
                self._alias(event, line)

    def _begin(self, event: CollectionStartEvent, line: int) -> None:
        is_mapping = isinstance(event, MappingStartEvent)
        self._refuse_tag(event.tag, "map" if is_mapping else "seq", line)
        if len(self.open) >= MAX_DEPTH:
            self._fail(line, TOO_DEEP, "Flatten it.")
        if self._wants_key():
            self._fail(line, "a key that is a list or a mapping", "Keys are text.")
        if event.anchor:
            self.anchors[event.anchor] = (_UNFINISHED, 0)
        place = self._mark(line)
        data: dict[str, Any] | list[Any] = {} if is_mapping else []
        self.weight += 1
        self.open.append(_Open(data=data, place=place, anchor=event.anchor, weight=self.weight))

    def _end(self, line: int) -> None:
        done = self.open.pop()
        if isinstance(done.data, dict):
            for other in done.merged:
                done.data.update({key: item for key, item in other.items() if key not in done.data})
        if done.anchor:
            self.anchors[done.anchor] = (done.data, 1 + self.weight - done.weight)
        self._put(done.data, line)

    def _scalar(self, event: ScalarEvent, line: int) -> None:
        self._refuse_tag(event.tag, "str", line)
        is_plain = bool(event.implicit[0]) and event.tag is None
        value = self._meaning(event.value, line) if is_plain else event.value
        weight = 1 + len(event.value) // 64
        self.weight += weight
        if event.anchor:
            self.anchors[event.anchor] = (value, weight)
        if self._wants_key():
            self._key(value, line, is_merge=is_plain and value == "<<")
        else:
            self._mark(line)
            self._put(value, line)

    def _alias(self, event: AliasEvent, line: int) -> None:
        value, weight = self.anchors.get(event.anchor, (None, 0))
        if not weight:
            problem = "that contains itself" if value is _UNFINISHED else "that is not defined before it"
            self._fail(line, f"'*{event.anchor}' is an anchor {problem}", "Write the value out.")
        self.weight += weight
        self.copied += weight
        if self.copied > MAX_COPIED:
            self._fail(line, "aliases that multiply to an enormous document", "Write the values out.")
        if self._wants_key():
            self._key(value, line, is_merge=False)
        else:
            self._mark(line)
            self._put(value, line)

    def _wants_key(self) -> bool:
        return bool(self.open) and isinstance(self.open[-1].data, dict) and self.open[-1].key is None

    def _key(self, value: Any, line: int, *, is_merge: bool) -> None:
        top = self.open[-1]
        if not isinstance(value, str):
            self._fail(line, f"a key that is {kind(value)}, not text", "Write it in quotes.")
        place = (*top.place, value)
        if value in top.data:
            first = self.lines[place]
            problem = f"key {shortened(value)} stands twice, first in line {first}"
            raise ConfigError(problem, path=self.path, line=line, where=dotted(place), hint="Keep one of them.")
        top.key, top.is_merge = value, is_merge
        self.lines[place] = line

    def _mark(self, line: int) -> Place:
        """The place of the value that comes now; a mapping's key has noted its line already."""
        if not self.open:
            place: Place = ()
        else:
            top = self.open[-1]
            place = (*top.place, len(top.data) if top.key is None else top.key)
        self.lines.setdefault(place, line)
        return place

    def _put(self, value: Any, line: int) -> None:
        if not self.open:
            self.root = value
            return
        top = self.open[-1]
        if isinstance(top.data, list):
            top.data.append(value)
            return
        if top.is_merge:
            top.merged.extend(self._mergeable(value, line))
        elif top.key is not None:
            top.data[top.key] = value
        top.key, top.is_merge = None, False

    def _mergeable(self, value: Any, line: int) -> list[dict[str, Any]]:
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in several):
            self._fail(line, f"'<<' merges mappings, found {kind(value)}", "Give it an alias of a mapping.")
        return several

    def _meaning(self, text: str, line: int) -> Any:
        """What untagged text without quotes stands for in the core schema."""
        if text in _WORDS:
            return _WORDS[text]
        if whole := _WHOLE.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                self._fail(line, "a number of too many digits", "Write it in quotes.")
            base = {"ten": 10, "eight": 8, "sixteen": 16}[str(whole.lastgroup)]
            return int(whole[str(whole.lastgroup)], base)
        if _NUMBER.fullmatch(text):
            return float(text)
        return float(text.lower().replace(".", "", 1)) if _SPECIAL.fullmatch(text) else text

    def _refuse_tag(self, tag: str | None, allowed: str, line: int) -> None:
        if tag not in (None, "!", _CORE + allowed):
            name = str(tag).replace(_CORE, "!!")
            self._fail(line, f"the tag {shortened(name)} is not allowed here", "Remove the tag.")

    def _fail(self, line: int, problem: str, hint: str) -> NoReturn:
        where = dotted(self.open[-1].place) if self.open else ""
        raise ConfigError(problem, path=self.path, line=line, where=where, hint=hint)
