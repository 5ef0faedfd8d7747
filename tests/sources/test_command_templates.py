"""The words of a command: the places of values, and rejected values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._sources.command.template import parse_template, select_given

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def fill(command: Any, allow_dash: tuple[str, ...] = (), /, **values: Any) -> list[str]:
    return parse_template(command).fill(select_given(values), frozenset(allow_dash))[1:]


@pytest.mark.parametrize(
    ("command", "values", "words"),
    [
        (["p", "{a}"], {"a": "x y"}, ["x y"]),
        (["p", "--name={a}.{b}"], {"a": "x", "b": 2}, ["--name=x.2"]),
        (["p", "{{a}}", "{}", "{ a }", "@{0}"], {}, ["{a}", "{}", "{ a }", "@{0}"]),
        (["p", 5, 1.5], {}, ["5", "1.5"]),
        (["p", "{a}"], {"a": 1.0}, ["1"]),
        (["p", "--json={a}"], {"a": {"b": [True, None]}}, ['--json={"b":[true,null]}']),
        (["p", "--on={a}"], {"a": False}, ["--on=false"]),
        (["p", "{a}"], {"a": ["x", "y z"]}, ["x", "y z"]),
        (["p", "{a}"], {"a": ""}, [""]),
        (["p", "--a={a}"], {"a": ["x", "y"]}, ["--a=x", "--a=y"]),
        (["p", "{a:,}"], {"a": ["x", "y"]}, ["x,y"]),
        (["p", ["-n", "{a}"]], {"a": 3}, ["-n", "3"]),
        (["p", ["-n", "{a}"]], {"a": ["x", "y"]}, ["-n", "x", "-n", "y"]),
        (["p", ["-n", "{a: }"]], {"a": ["x", "y"]}, ["-n", "x y"]),
        (["p", ["-n", "{a}"]], {"a": None}, []),
        (["p", ["-n", "{a}"]], {"a": []}, []),
        (["p", ["{a}", "{b}"]], {"a": 1}, []),
        (["p", {"if": "a", "add": "-v"}], {"a": True}, ["-v"]),
        (["p", {"if": "a", "add": "-v"}], {"a": False}, []),
        (["p", {"if": "a", "add": "-v"}], {}, []),
        (["p", {"if": "a", "add": "-v", "else": ["-q", "-q"]}], {"a": False}, ["-q", "-q"]),
        (["p", {"if": "a", "add": ["-n", "{a}"]}], {"a": ["x", "y"]}, ["-n", "x", "y"]),
        ("p -m 'two words' {a}", {"a": "x y"}, ["-m", "two words", "x y"]),
    ],
)
def test_values_take_their_places(command: Any, values: dict[str, Any], words: list[str]) -> None:
    assert fill(command, **values) == words


@pytest.mark.parametrize(
    "command",
    [
        ["p", "{a}{b}"],
        ["p", ["--x={a}", "--y={b}"]],
        ["p", ["--x={a}{b:,}", "{b}"]],
        ["p", {"if": "a", "add": ["{a}{a}"]}],
    ],
)
def test_lists_that_multiply_to_too_many_words_are_rejected(command: Any) -> None:
    items = ["x"] * 100_000
    with pytest.raises(InvalidArguments) as caught:
        fill(command, a=items, b=items)
    assert "more than the limit of 20000 words" in caught.value.details[0]
    assert "Pass shorter lists: a" in caught.value.details[0]


def test_lists_that_multiply_to_too_much_text_are_rejected() -> None:
    with pytest.raises(InvalidArguments) as caught:
        fill(["p", "{a}={b}"], a=["x" * 1_000] * 100, b=[""] * 100)
    assert "with 8388608 characters" in caught.value.details[0]
    assert len(fill(["p", "{a}={b}"], a=["x"] * 100, b=["y"] * 100)) == 10_000


@given(TEXTS, st.lists(TEXTS, min_size=1))
def test_every_value_stays_one_word_and_is_unchanged(text: str, items: list[str]) -> None:
    words = fill(["p", "--a={a}", "--", "{a}", "{b}", ["-x", "{b}"]], a=text, b=items)
    assert words == [f"--a={text}", "--", text, *items, *(word for item in items for word in ("-x", item))]


@pytest.mark.parametrize(
    ("command", "value"),
    [
        (["p", "{a}"], "-rf"),
        (["p", "{a}"], "-"),
        (["p", "{a}"], -1),
        (["p", "{a}{b}"], "--x"),
        (["p", ["-n", "{a}"]], "--x"),
        (["p", {"if": "a", "add": ["{a}"]}], ["x", "-y"]),
        (["p", "{a:,}"], ["-x", "y"]),
        (["p", "{a}", "--", "{a}"], "-x"),
        (["p", "--={a}", "{a}"], "-x"),
    ],
)
def test_a_value_cannot_become_an_option(command: Any, value: Any) -> None:
    with pytest.raises(InvalidArguments) as caught:
        fill(command, a=value, b="b")
    assert caught.value.details == (
        "$.a: the value begins with '-', so the program would read it as an option. Give another value",
    )
    fill(command, ("a",), a=value, b="b")


def test_a_value_of_two_dashes_does_not_end_the_options() -> None:
    with pytest.raises(InvalidArguments):
        fill(["p", "{a}", "{b}"], ("a",), a="--", b="-x")


@pytest.mark.parametrize(
    ("value", "problem"),
    [("a\0b", "$.a: the value contains a null character"), ("\ud800", "$.a: the value is not valid Unicode")],
)
def test_a_value_that_no_word_can_contain_is_rejected(value: str, problem: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        fill(["p", "--a={a}"], a=value)
    assert caught.value.details[0].startswith(problem)
