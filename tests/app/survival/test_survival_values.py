"""An odd return value of a tool becomes valid JSON, or an error with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kits.survival.fault_kit import assert_unharmed, get_error_text
from tests.kits.survival.fault_tools import list_results
from tests.kits.survival.survival_kit import ON_ONE_WAY, on_one_way

SANE = {
    "a lone surrogate": "a\ufffdb",
    "a lone surrogate in a value": {"text": ["a\ufffdb"]},
    "a lone surrogate in a key": {"a\ufffdb": 1},
    "NaN": {"nan": None, "inf": [None, None]},
    "bytes inside": {"data": "AP8="},
    "a set": [7],
    "an object": "odd",
    "a generator": [0, 1, 2],
    "a coroutine": "slept",
    "an int beyond 64 bits": {"number": 2**70},
    "keys that are no text": {"1": "a", "null": "b", "[1,2]": "c", "1.5": "d", "ZQ==": "e"},
    "an object that raises in __getattr__": "odd",
}
WRONG = {
    "a cycle": "contains itself",
    "an int of 5000 digits": "an integer has more than 308 digits",
    "a coroutine function": "a value of type function has no data that can be sent",
    "deep nesting": "nested deeper than 100 levels",
    "a generator without end": "yields more than",
    "a key without a text": "SystemExit in a value of type dict",
    "an object that raises in __str__": "SystemExit in a value of type Odd",
    "an object whose text recurses": "RecursionError in a value of type Odd",
    "an object that raises in __iter__": "Own in a value of type Row",
    "an object that raises in model_dump": "KeyboardInterrupt in a value of type Model",
    "an object that raises in __class__": "internal error (reference ",
}
APART = {"bytes", "100 MB of text"}
RESULTS = {"a ToolResult with an odd block", "a ToolResult with odd texts"}


def test_every_value_has_its_test() -> None:
    assert {*SANE, *WRONG, *APART, *RESULTS} == set(list_results())


@on_one_way("kind", SANE, smoke=["a lone surrogate in a key", "a coroutine"])
def test_an_odd_value_becomes_json_that_every_client_reads(server: Any, kind: str) -> None:
    with assert_unharmed(server):
        result = server.get_result("value", kind=kind)
    text, expected = result["content"][0]["text"], SANE[kind]
    assert (text if isinstance(expected, str) else json.loads(text)) == expected
    if isinstance(expected, dict):
        assert result["structuredContent"] == expected


@on_one_way("kind", WRONG, smoke=["deep nesting"])
def test_a_value_that_cannot_become_json_is_rejected_with_the_reason(server: Any, kind: str) -> None:
    with assert_unharmed(server):
        assert WRONG[kind] in get_error_text(server.get_result("value", kind=kind))


@ON_ONE_WAY
@pytest.mark.parametrize("value", ["a cycle", "an object that raises in __str__"])
def test_values_of_tools_on_the_event_loop_are_rejected_too(server: Any, value: str) -> None:
    with assert_unharmed(server):
        assert WRONG[value] in get_error_text(server.get_result("value_async", kind=value))


@ON_ONE_WAY
def test_bytes_become_a_resource(server: Any) -> None:
    with assert_unharmed(server):
        block = server.get_result("value", kind="bytes")["content"][0]
    assert block["resource"]["blob"] == "AP8="


@ON_ONE_WAY
def test_100_megabytes_of_text_are_truncated(server: Any) -> None:
    with assert_unharmed(server):
        content = server.get_result("value", kind="100 MB of text")["content"]
    assert content[0]["text"] == "x" * 768 * 1024
    assert "of 100000000 characters" in content[1]["text"]


@ON_ONE_WAY
def test_an_invalid_block_does_not_affect_other_blocks(server: Any) -> None:
    with assert_unharmed(server):
        first, second = server.get_result("value", kind="a ToolResult with an odd block")["content"]
    assert "a value of type object has no data that can be sent" in first["text"]
    assert "cannot be shown" in second["text"]


@ON_ONE_WAY
def test_a_failed_result_without_an_error_fails(server: Any) -> None:
    with assert_unharmed(server):
        assert "SystemExit in a value of type Odd" in get_error_text(
            server.get_result("value", kind="a ToolResult with odd texts")
        )


@ON_ONE_WAY
def test_an_endless_async_generator_is_rejected(server: Any) -> None:
    with assert_unharmed(server):
        assert "yields more than" in get_error_text(server.get_result("yields_without_end"))
