"""Which framework an object is of: told by its class, running nothing of the object's own."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any
from unittest.mock import MagicMock

import pytest

from mcp_bridge.frameworks import recognising
from mcp_bridge.frameworks.shapes import is_a
from tests.kits.frameworks.shapes_classes import with_module
from tests.kits.frameworks.shapes_crewai import BaseTool, CrewStructuredTool
from tests.kits.frameworks.shapes_llamaindex import BaseToolSpec, FunctionTool


class Everything:
    """Answers to every name."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


class Rude:
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not ask")


STRANGERS: dict[str, Any] = {
    "everything": Everything(),
    "rude": Rude(),
    "mock": MagicMock(),
    "mock of a tool": MagicMock(spec=BaseTool),
    "none": None,
    "number": 3,
    "text": "text",
    "list": [],
    "dict": {},
    "module": json,
    "function": print,
    "class": Rude,
}


def turn() -> str:
    """Turns."""
    return "turned"


@pytest.mark.parametrize("file", [*recognising.TOOLS, *recognising.TOOLBOXES])
def test_a_stranger_fits_nowhere_and_is_not_asked(file: str) -> None:
    shape: Any = import_module(f"mcp_bridge.frameworks.{file}")
    assert [name for name, thing in STRANGERS.items() if shape.fits(thing)] == []


def test_a_tool_is_of_its_framework() -> None:
    for thing in (
        CrewStructuredTool(name="turn", description="Turns.", func=turn),
        FunctionTool(turn, {"type": "object"}),
    ):
        entry = recognising.entry_of(thing)
        assert entry is not None
        assert entry.name == "turn"
        assert recognising.toolbox_of(thing) is None


def test_a_set_of_tools_is_no_tool() -> None:
    assert recognising.entry_of(BaseToolSpec()) is None
    assert recognising.toolbox_of(BaseToolSpec()) is not None


def test_a_class_counts_by_its_package_and_name_also_where_it_is_inherited() -> None:
    base: Any = with_module("far.away.tools", name="Tool")
    mine: Any = with_module("mine", name="Mine", bases=(base,))
    assert is_a(mine(), "far", "Tool")
    assert not is_a(mine(), "farther", "Tool")
    assert not is_a(mine, "far", "Tool")


def test_what_is_pythons_own_or_ours_is_never_looked_at_closer() -> None:
    assert not any(map(recognising.is_foreign, (print, turn, 3, [], json, recognising.KNOWN)))
    assert recognising.is_foreign(BaseToolSpec())
