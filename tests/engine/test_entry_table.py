"""The table: replaced for each owner in one step, sorted, watched."""

from __future__ import annotations

import pytest

from mcp_bridge import ToolEntry
from mcp_bridge._engine.entry_table import EntryTable
from mcp_bridge.errors import DuplicateTool
from tests.kits.wire.speaking import make_entry


def make_named_entry(name: str, owner: str = "") -> ToolEntry:
    result = make_entry(lambda data: 1, name)
    result.owner = owner
    return result


def list_names(table: EntryTable[ToolEntry]) -> list[str]:
    return [make_named_entry.name for make_named_entry in table]


def test_entries_are_sorted_by_name_and_found_by_exact_name() -> None:
    table: EntryTable[ToolEntry] = EntryTable()
    for name in ("b", "a", "B"):
        table.add(make_named_entry(name))
    assert list_names(table) == ["B", "a", "b"]
    assert len(table) == 3
    assert "a" in table
    assert "A" not in table
    assert 3 not in table
    assert table.get("c") is None


def test_a_publication_replaces_only_the_entries_of_its_owner() -> None:
    table: EntryTable[ToolEntry] = EntryTable()
    table.add(make_named_entry("mine"))
    table.replace("one", [make_named_entry("a", "one"), make_named_entry("b", "one")])
    table.replace("two", [make_named_entry("c", "two")])
    table.replace("one", [make_named_entry("b", "one"), make_named_entry("d", "one")])
    assert list_names(table) == ["b", "c", "d", "mine"]
    table.replace("one", [])
    assert list_names(table) == ["c", "mine"]


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ("two", "Tool 'a' comes from both source 'one' and source 'two'. Give one of the sources a prefix"),
        ("", "Tool 'a' comes from both source 'one' and the registry itself."),
    ],
)
def test_a_name_of_another_owner_is_an_error_that_names_both_and_changes_nothing(owner: str, message: str) -> None:
    table: EntryTable[ToolEntry] = EntryTable()
    table.replace("one", [make_named_entry("a", "one")])
    table.replace(owner, [make_named_entry("old", owner)])
    before = table.version
    with pytest.raises(DuplicateTool) as caught:
        table.replace(owner, [make_named_entry("new", owner), make_named_entry("a", owner)])
    assert str(caught.value).startswith(message)
    assert list_names(table) == ["a", "old"]
    assert table.version == before


def test_two_entries_of_the_same_name_in_one_publication_are_an_error() -> None:
    table: EntryTable[ToolEntry] = EntryTable()
    with pytest.raises(DuplicateTool, match="Two tools in source 'mySource' are named 'a'"):
        table.replace("mySource", [make_named_entry("a", "mySource"), make_named_entry("a", "mySource")])
    assert len(table) == 0


def test_a_duplicate_name_cannot_be_added_until_the_first_entry_is_removed() -> None:
    table: EntryTable[ToolEntry] = EntryTable()
    table.add(make_named_entry("a"))
    with pytest.raises(ValueError, match="already registered"):
        table.add(make_named_entry("a"))
    assert table.remove("a") is True
    assert table.remove("a") is False
    table.add(make_named_entry("a"))


def test_listeners_are_called_for_every_change_and_for_nothing_else() -> None:
    table: EntryTable[ToolEntry] = EntryTable()
    notifications: list[int] = []
    stop = table.watch(lambda: notifications.append(table.version))
    also: list[int] = []
    table.watch(lambda: also.append(len(table)))
    item = make_named_entry("a", "one")
    table.add(make_named_entry("x"))
    table.replace("one", [item])
    table.replace("one", [item])
    table.remove("none")
    assert notifications == [1, 2]
    stop()
    stop()
    table.remove("a")
    assert notifications == [1, 2]
    assert also == [1, 2, 1]


def test_a_list_does_not_change_after_it_was_read() -> None:
    table: EntryTable[ToolEntry] = EntryTable()
    table.add(make_named_entry("a"))
    observations = table.list_all()
    assert table.list_all() is observations
    table.add(make_named_entry("b"))
    assert [item.name for item in observations] == ["a"]
    assert list_names(table) == ["a", "b"]
