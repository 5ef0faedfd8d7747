"""The catalog: replaced for each owner in one step, sorted, watched."""

from __future__ import annotations

import pytest

from mcp_bridge import DuplicateTool, ToolEntry
from mcp_bridge.registry.catalog import Catalog
from tests.kits.wire.speaking import entry_of


def entry(name: str, owner: str = "") -> ToolEntry:
    made = entry_of(lambda data: 1, name)
    made.owner = owner
    return made


def names(catalog: Catalog[ToolEntry]) -> list[str]:
    return [thing.name for thing in catalog]


def test_things_are_sorted_by_name_and_found_by_exact_name() -> None:
    catalog: Catalog[ToolEntry] = Catalog()
    for name in ("b", "a", "B"):
        catalog.add(entry(name))
    assert names(catalog) == ["B", "a", "b"]
    assert len(catalog) == 3
    assert "a" in catalog
    assert "A" not in catalog
    assert 3 not in catalog
    assert catalog.get("c") is None


def test_an_offer_replaces_the_owners_things_and_nobody_elses() -> None:
    catalog: Catalog[ToolEntry] = Catalog()
    catalog.add(entry("mine"))
    catalog.replace("one", [entry("a", "one"), entry("b", "one")])
    catalog.replace("two", [entry("c", "two")])
    catalog.replace("one", [entry("b", "one"), entry("d", "one")])
    assert names(catalog) == ["b", "c", "d", "mine"]
    catalog.replace("one", [])
    assert names(catalog) == ["c", "mine"]


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ("two", "Tool 'a' comes from both source 'one' and source 'two'. Give one of the sources a prefix"),
        ("", "Tool 'a' comes from both source 'one' and the registry itself."),
    ],
)
def test_a_name_of_another_owner_is_refused_with_both_named_and_nothing_changed(owner: str, said: str) -> None:
    catalog: Catalog[ToolEntry] = Catalog()
    catalog.replace("one", [entry("a", "one")])
    catalog.replace(owner, [entry("old", owner)])
    before = catalog.version
    with pytest.raises(DuplicateTool) as caught:
        catalog.replace(owner, [entry("new", owner), entry("a", owner)])
    assert str(caught.value).startswith(said)
    assert names(catalog) == ["a", "old"]
    assert catalog.version == before


def test_two_things_of_one_name_in_one_offer_are_refused() -> None:
    catalog: Catalog[ToolEntry] = Catalog()
    with pytest.raises(DuplicateTool, match="Two tools in source 'mySource' are named 'a'"):
        catalog.replace("mySource", [entry("a", "mySource"), entry("a", "mySource")])
    assert len(catalog) == 0


def test_a_taken_name_cannot_be_added_and_can_after_it_was_removed() -> None:
    catalog: Catalog[ToolEntry] = Catalog()
    catalog.add(entry("a"))
    with pytest.raises(ValueError, match="already registered"):
        catalog.add(entry("a"))
    assert catalog.remove("a") is True
    assert catalog.remove("a") is False
    catalog.add(entry("a"))


def test_listeners_hear_of_every_change_and_of_nothing_else() -> None:
    catalog: Catalog[ToolEntry] = Catalog()
    heard: list[int] = []
    stop = catalog.watch(lambda: heard.append(catalog.version))
    also: list[int] = []
    catalog.watch(lambda: also.append(len(catalog)))
    thing = entry("a", "one")
    catalog.add(entry("x"))
    catalog.replace("one", [thing])
    catalog.replace("one", [thing])
    catalog.remove("none")
    assert heard == [1, 2]
    stop()
    stop()
    catalog.remove("a")
    assert heard == [1, 2]
    assert also == [1, 2, 1]


def test_readers_keep_what_they_saw() -> None:
    catalog: Catalog[ToolEntry] = Catalog()
    catalog.add(entry("a"))
    seen = catalog.list_all()
    assert catalog.list_all() is seen
    catalog.add(entry("b"))
    assert [thing.name for thing in seen] == ["a"]
    assert names(catalog) == ["a", "b"]
