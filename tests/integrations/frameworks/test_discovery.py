"""The framework of an object is recognised by its class, without running the object's code."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

import pytest

from mcp_bridge._integrations.frameworks.common import is_a
from mcp_bridge._integrations.frameworks.discovery import KNOWN, convert_tool, convert_toolbox, is_foreign
from tests.kits.frameworks.shapes_classes import make_class
from tests.kits.frameworks.shapes_crewai import BaseTool, CrewStructuredTool
from tests.kits.frameworks.shapes_llamaindex import BaseToolSpec, FunctionTool


class Everything:
    """Answers to every name."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


class Rude:
    """An object that raises for each attribute."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not ask")


UNSUPPORTED_OBJECTS: dict[str, Any] = {
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


@pytest.mark.parametrize("name", UNSUPPORTED_OBJECTS)
def test_no_code_of_another_object_runs(name: str) -> None:
    assert convert_tool(UNSUPPORTED_OBJECTS[name]) is None
    assert convert_toolbox(UNSUPPORTED_OBJECTS[name]) is None


def test_a_tool_of_each_framework_is_recognised() -> None:
    for value in (
        CrewStructuredTool(name="turn", description="Turns.", func=turn),
        FunctionTool(turn, {"type": "object"}),
    ):
        entry = convert_tool(value)
        assert entry is not None
        assert entry.name == "turn"
        assert convert_toolbox(value) is None


def test_a_set_of_tools_is_not_recognised_as_a_tool() -> None:
    assert convert_tool(BaseToolSpec()) is None
    assert convert_toolbox(BaseToolSpec()) is not None


def test_a_class_is_recognised_by_the_package_and_name_of_a_base_class() -> None:
    base: Any = make_class("far.away.tools", name="Tool")
    mine: Any = make_class("mine", name="Mine", bases=(base,))
    assert is_a(mine(), "far", "Tool")
    assert not is_a(mine(), "farther", "Tool")
    assert not is_a(mine, "far", "Tool")


def test_objects_of_python_and_of_this_package_are_not_of_a_framework() -> None:
    assert not any(map(is_foreign, (print, turn, 3, [], json, KNOWN)))
    assert is_foreign(BaseToolSpec())
