"""The published tools and their names."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge._engine.selection import Selection
from tests.kits.wire.speaking import make_entry

TOOLS = [
    make_entry(lambda data: 1, "read", tags=["fs", "safe"]),
    make_entry(lambda data: 1, "write", tags=["fs"]),
    make_entry(lambda data: 1, "fetch", tags=["net", "safe"]),
    make_entry(lambda data: 1, "Read"),
]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["read", "write", "fetch", "Read"]),
        ({"include": ["*e*"]}, ["read", "write", "fetch", "Read"]),
        ({"include": ["*e*"], "exclude": ["w*", "fetch"]}, ["read", "Read"]),
        ({"tags": ["net", "safe"]}, ["read", "fetch"]),
        ({"prefix": "my"}, ["my__read", "my__write", "my__fetch", "my__Read"]),
        ({"prefix": "r_", "include": ["r*"]}, ["r_read"]),
        ({"prefix": "r-", "include": ["r*"]}, ["r-read"]),
        ({"prefix": "r.", "include": ["r*"]}, ["r.read"]),
        ({"alias": {"read": "cat"}}, ["cat", "write", "fetch", "Read"]),
        ({"prefix": "my", "alias": {"read": "cat"}, "include": ["?ead"]}, ["cat", "my__Read"]),
        ({"alias": {"read": "cat"}, "include": ["cat"]}, []),
    ],
)
def test_tools_are_selected_by_their_original_names_and_tags_and_then_renamed(
    options: dict[str, Any], names: list[str]
) -> None:
    choice = list(Selection(**options).select_tools(TOOLS, "the source"))
    assert [entry.name for entry in choice] == names
    assert all(entry.owner == "the source" for entry in choice)
    assert [(entry.name, entry.owner) for entry in TOOLS] == [(name, "") for name in ("read", "write", "fetch", "Read")]


def test_names_of_tools_that_do_not_exist_are_reported() -> None:
    selection = Selection(include=["r*", "read", "wite"], exclude=["x?", "fetsh"], alias={"red": "cat", "read": "dog"})
    assert selection.find_unknown_tools(TOOLS) == [
        "include: there is no tool 'wite'",
        "exclude: there is no tool 'fetsh'",
        "alias: there is no tool 'red'",
    ]
    assert Selection().find_unknown_tools([]) == []
