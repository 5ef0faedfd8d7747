"""Third-party text cannot control a terminal, or hide a part of itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._runtime.terminal_text import escape_json, escape_line, escape_text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain é 猫\t.", "plain é 猫\t."),
        ("a\x1b[2Jb\rc", "a\\x1b[2Jb\\rc"),
        ("a\x9b2J\x07", "a\\x9b2J\\x07"),
        ("a\u202eb\u200b", "a\\u202eb\\u200b"),
        ("a\U000e0041", "a\\U000e0041"),
        ("a\nb", "a\\nb"),
    ],
)
def test_invisible_characters_are_escaped(text: str, escaped: str) -> None:
    assert escape_line(text) == escaped


def test_line_breaks_of_a_text_stay() -> None:
    assert escape_text("a\x1b\nb\u2028c") == "a\\x1b\nb\\u2028c"


@given(st.text())
def test_escaped_json_is_the_same_value(text: str) -> None:
    escaped = escape_json(json.dumps({text: [text]}, ensure_ascii=False, indent=2))
    assert json.loads(escaped) == {text: [text]}
    assert escaped.replace("\n", "").isprintable()
