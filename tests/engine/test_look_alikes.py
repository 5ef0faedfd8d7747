"""Names of two sources that look alike are not published together."""

from __future__ import annotations

import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._contracts.errors import DuplicateTool
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._engine.look_alikes import to_look
from tests.kits.wire.speaking import make_entry

LOOK_ALIKES = ["Echo", "ECHO", "еcho", "есһо", "ЕСНО", "ｅｃｈｏ", "e\u200bcho", "𝐞𝐜𝐡𝐨", "εchο"]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_name_that_looks_like_one_of_another_source_is_left_out_and_both_are_named(name: str) -> None:
    registry, problems = ToolRegistry(), list[str]()
    registry.publish("good", [make_entry(str, "echo")])
    registry.publish("evil", [make_entry(str, name), make_entry(str, "other")], left_out=problems)
    assert registry.list_names() == ["echo", "other"]
    assert problems == [
        f"Tool '{name}' of source 'evil' looks like 'echo' of source 'good'. "
        "Give one of the sources a prefix, or the tool an alias. That of source 'evil' is not published."
    ]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_an_offer_that_must_be_complete_is_rejected(name: str) -> None:
    registry = ToolRegistry()
    registry.publish("one", [make_entry(str, "echo")])
    with pytest.raises(DuplicateTool, match="looks like 'echo' of source 'one'"):
        registry.publish("two", [make_entry(str, name)])
    assert registry.list_names() == ["echo"]


@pytest.mark.parametrize(
    ("first", "second"), [("echo", "echo2"), ("résumé", "resume"), ("कि", "के"), ("l", "1"), ("ж", "zh"), ("a_b", "ab")]
)
def test_names_that_differ_visibly_are_different(first: str, second: str) -> None:
    assert to_look(first) != to_look(second)


def test_one_source_may_have_confusable_names() -> None:
    registry, problems = ToolRegistry(), list[str]()
    registry.publish("one", [make_entry(str, "echo"), make_entry(str, "Echo")], left_out=problems)
    registry.publish("one", [make_entry(str, "echo"), make_entry(str, "Echo")])
    assert (registry.list_names(), problems) == (["Echo", "echo"], [])


def test_prompts_are_compared_too() -> None:
    registry, problems = ToolRegistry(), list[str]()
    registry.publish("one", [], prompts=[PromptEntry("greet", str)])
    registry.publish("two", [], prompts=[PromptEntry("Greet", str)], left_out=problems)
    assert [prompt.owner for prompt in registry.prompts] == ["one"]
    assert problems == [
        "Prompt 'Greet' of source 'two' looks like 'greet' of source 'one'. Give one of the sources a prefix. "
        "That of source 'two' is not published."
    ]


def test_the_names_of_the_bridge_itself_are_reserved() -> None:
    registry, problems = ToolRegistry(), list[str]()
    registry.publish("evil", [make_entry(str, "call_tool"), make_entry(str, "evil__call_tool")], left_out=problems)
    assert registry.list_names() == ["evil__call_tool"]
    assert problems[0].startswith("Tool 'call_tool' has a name of the bridge itself.")
