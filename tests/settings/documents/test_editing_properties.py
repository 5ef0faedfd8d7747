"""Any added entry can be removed again, without another change in the file."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.syntax import Format, UnsafeEdit
from tests.kits.clients.editing_texts import ENTRIES, json_texts, toml_texts, yaml_texts
from tests.kits.fuzzing import use_examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A format, where its servers are, and texts in it."""

    format: Format
    within: Sequence[str]
    texts: st.SearchStrategy[str]
    listed: bool = False
    comment: str = "#"

    def put(self, text: str, name: str, value: Mapping[str, Any]) -> str:
        """Add or update the entry."""
        return editor.put_entry(self.format, text, self.within, name, value, listed=self.listed)

    def drop(self, text: str, name: str) -> str:
        """Remove the entry."""
        return editor.remove_entry(self.format, text, self.within, name, listed=self.listed)

    def describe(self, old: str, new: str, name: str) -> Any:
        """Return the change, as it is read from a file."""
        change = editor.describe_change(self.format, old, new, self.within, name, listed=self.listed)
        return json.loads(json.dumps(change))

    def revert(self, text: str, name: str, change: Any) -> str:
        """Revert the change."""
        return editor.revert_change(self.format, text, self.within, name, change, listed=self.listed)

    def read(self, text: str) -> Any:
        """The data."""
        return editor.read_data(self.format, text)

    def servers(self, text: str) -> Any:
        """The data of the container; None where there is none."""
        data = self.read(text)
        for key in self.within:
            data = data.get(key) if isinstance(data, dict) else None
        return data


STRICT = Kind(format="json", within=["mcpServers"], texts=json_texts(comments=False))
DEEP = Kind(format="json", within=["projects", "/a b", "mcpServers"], texts=json_texts(comments=False))
LOOSE = Kind(format="jsonc", within=["mcpServers"], texts=json_texts(comments=True), comment="//")
IN_LIST = Kind(
    format="jsonc",
    within=["mcpServers"],
    texts=json_texts(comments=True, in_list=True),
    listed=True,
    comment="//",
)
GOOSE = Kind(format="yaml", within=["extensions"], texts=yaml_texts(container="extensions", in_list=False))
CONTINUE = Kind(
    format="yaml", within=["mcpServers"], texts=yaml_texts(container="mcpServers", in_list=True), listed=True
)
CODEX = Kind(format="toml", within=["mcp_servers"], texts=toml_texts())
KINDS = {
    "json": STRICT,
    "json in a project": DEEP,
    "jsonc": LOOSE,
    "jsonc list": IN_LIST,
    "yaml": GOOSE,
    "yaml list": CONTINUE,
    "toml": CODEX,
}
PIECES = [*"{}[]\"':,/*\\#&!|>-%@`? \n\r\t\0=.~01aé😀\x85\u2028\ufeff\ud800", '"""', "<<", "//", "s:", '"s":', "[s]"]
PIECES += ["s = ", "- name: b", "null", "\n  ", "*a", "&a", "s", "{}", "b", "b: ", "[[s]]", "[s.b]", "s.b=", '{"s":{']
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@every_kind
@given(data=st.data(), value=ENTRIES, later=ENTRIES)
@use_examples(25)
def test_an_entry_that_was_added_and_updated_is_reverted_byte_for_byte(
    kind: Kind, data: DataObject, value: dict[str, Any], later: dict[str, Any]
) -> None:
    text = data.draw(kind.texts)
    first = _put(kind, text, value)
    assert kind.revert(first, "ours", kind.describe(text, first, "ours")) == text
    second = kind.put(first, "ours", later)
    assert _find_entry(kind, second, "ours") == later
    assert kind.revert(second, "ours", kind.describe(text, second, "ours")) == text
    assert kind.revert(second, "ours", kind.describe(first, second, "ours")) == first


@every_kind
@given(data=st.data(), values=st.lists(ENTRIES, min_size=2, max_size=3))
@use_examples(25)
def test_several_entries_are_reverted_in_reverse_order_byte_for_byte(
    kind: Kind, data: DataObject, values: list[dict[str, Any]]
) -> None:
    text = data.draw(kind.texts)
    steps: list[tuple[str, str, Any]] = []
    for number, value in enumerate(values):
        name = f"ours {number}"
        new_text = _put(kind, text, value, name)
        steps.append((text, name, kind.describe(text, new_text, name)))
        text = new_text
    for before, name, change in reversed(steps):
        text = kind.revert(text, name, change)
        assert text == before


@every_kind
@given(data=st.data(), values=st.lists(ENTRIES, min_size=2, max_size=3))
@use_examples(25)
def test_several_entries_are_reverted_in_any_order_without_a_change_of_other_data(
    kind: Kind, data: DataObject, values: list[dict[str, Any]]
) -> None:
    start = text = data.draw(kind.texts)
    changes: dict[str, Any] = {}
    for number, value in enumerate(values):
        name = f"ours {number}"
        new_text = _put(kind, text, value, name)
        changes[name] = kind.describe(text, new_text, name)
        text = new_text
    for name in data.draw(st.permutations(list(changes))):
        text = kind.revert(text, name, changes[name])
        assert _find_entry(kind, text, name) is None
    assert _list_other_data(kind, kind.read(text)) == _list_other_data(kind, kind.read(start))


@every_kind
@given(data=st.data(), value=ENTRIES)
@use_examples(25)
def test_an_entry_changes_no_other_data(kind: Kind, data: DataObject, value: dict[str, Any]) -> None:
    text = data.draw(kind.texts)
    new_text = _put(kind, text, value)
    assert _find_entry(kind, new_text, "ours") == value
    before, after = kind.read(text), kind.read(new_text)
    assert _list_other_data(kind, after) == _list_other_data(kind, before)
    # An entry that is equal is not written again.
    assert kind.put(new_text, "ours", value) == new_text
    remaining_text = kind.drop(new_text, "ours")
    assert _find_entry(kind, remaining_text, "ours") is None
    assert _list_other_data(kind, kind.read(remaining_text)) == _list_other_data(kind, before)
    assert kind.drop(remaining_text, "ours") == remaining_text


@every_kind
@given(data=st.data(), value=ENTRIES, other_entries=st.lists(ENTRIES, min_size=1, max_size=3), is_removed=st.booleans())
@use_examples(25)
def test_edits_of_users_in_between_survive_byte_for_byte(
    kind: Kind, data: DataObject, value: dict[str, Any], other_entries: list[dict[str, Any]], is_removed: bool
) -> None:
    text = data.draw(kind.texts)
    theirs = new_text = _put(kind, text, value)
    for number, other in enumerate(other_entries):
        theirs = kind.put(theirs, f"theirs {number}", {**other, "x": f"theirs {number}"})
    if is_removed:
        theirs = kind.drop(theirs, data.draw(st.sampled_from(["a", "é", "theirs 0"])))
    theirs = _add_comment(kind, theirs, data)
    remaining_text = kind.revert(theirs, "ours", kind.describe(text, new_text, "ours"))
    assert _find_entry(kind, remaining_text, "ours") is None
    assert _list_other_data(kind, kind.read(remaining_text)) == _list_other_data(kind, kind.read(theirs))
    _check_only_one_piece_is_gone(theirs, remaining_text)


@pytest.mark.parametrize("format", ["json", "jsonc", "yaml", "toml"])
@given(data=st.data(), in_list=st.booleans())
@use_examples(50)
def test_an_unsupported_text_is_never_edited(format: Format, data: DataObject, in_list: bool) -> None:
    text = data.draw(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
    for work in (
        lambda: editor.put_entry(format, text, ["s"], "b", {"x": 1}, listed=in_list),
        lambda: editor.remove_entry(format, text, ["s"], "b", listed=in_list),
        lambda: editor.read_data(format, text),
    ):
        with contextlib.suppress(ConfigError):
            work()


def _put(layout: Kind, text: str, value: dict[str, Any], name: str = "ours") -> str:
    try:
        return layout.put(text, name, value)
    except UnsafeEdit:
        assume(False)
        raise


def _find_entry(layout: Kind, text: str, name: str) -> Any:
    servers = layout.servers(text)
    if not layout.listed:
        return servers.get(name) if isinstance(servers, dict) else None
    matches = [item for item in servers or [] if isinstance(item, dict) and item.get("name") == name]
    return {key: value for key, value in matches[0].items() if key != "name"} if matches else None


def _list_other_data(layout: Kind, data: Any, depth: int = 0) -> str:
    """Return all data except the entry, in order, without containers that would be empty."""

    def bare(value: Any, depth: int) -> Any:
        if isinstance(value, list) and layout.listed and depth == len(layout.within):
            return [item for item in value if not (isinstance(item, dict) and item.get("name") == "ours")] or None
        if not isinstance(value, dict):
            return value
        if depth == len(layout.within):
            return {key: inner for key, inner in value.items() if key != "ours"} or None
        way = layout.within[depth]
        inside = {key: bare(inner, depth + 1) if key == way else inner for key, inner in value.items()}
        return {key: inner for key, inner in inside.items() if key != way or inner} or None

    return json.dumps(bare(data, 0))


def _add_comment(layout: Kind, text: str, data: DataObject) -> str:
    """Return the text with a comment after some line, if the data stays the same."""
    if layout.format == "json":
        return text
    places = [match.end() for match in re.finditer("\n", text)]
    if not places:
        return text
    at = data.draw(st.sampled_from(places))
    text_with_comment = f"{text[:at]}{layout.comment} theirs\n{text[at:]}"
    try:
        return text_with_comment if layout.read(text_with_comment) == layout.read(text) else text
    except ConfigError:
        return text


def _check_only_one_piece_is_gone(before: str, after: str) -> None:
    """Check that the text after is the text before without one piece, ignoring white space, commas and empty values.

    Empty values appear if a container stays because of a comment in it, or had such a value before.
    """
    long, short = (re.sub(r"\{\}|\[\]|null|~", "", re.sub(r"[\s,]", "", text)) for text in (before, after))
    assert any(
        long.startswith(short[:position]) and long.endswith(short[position:]) for position in range(len(short) + 1)
    )
