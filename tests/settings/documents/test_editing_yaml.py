"""Editing one entry in YAML: whole lines, and unchanged texts."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.syntax import UnsafeEdit

VALUE = {"cmd": "/bin/x", "enabled": True}


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("a: 1\n b: 2\n", "not valid YAML", 2),
        ("a: 'x\n", "not valid YAML", None),
        ("a: \x07", "not valid YAML", None),
        ("a: 1\n\0", "NUL", 2),
        ("a: 1\rb: 2", "a carriage return", 1),
        ("a: \u2028", "line end", 1),
        ("%YAML 1.1\n---\na: 1", "directive", None),
        ("a: 1\n---\nb: 2\n", "a second document", 2),
        ("- a\n", "not a mapping", 1),
        ("text", "not a mapping", 1),
        ("null", "not an empty container", 1),
        ("{a: 1}", "written in brackets", 1),
        ("a: 1\nextensions: {b: 1}\n", "written in brackets", 2),
        ("extensions: [ ]", "not an empty container", 1),
        ("extensions: text", "not a mapping", 1),
        ("extensions:\n- a\n", "not a mapping", 2),
        ("extensions: &x\n  a: 1\n", "an anchor", 1),
        ("extensions: &x {}\n", "an anchor", 1),
        ("extensions: !!map\n  a: 1\n", "an anchor, an alias or a tag", 1),
        ("x: &x\n  a: 1\nextensions: *x\n", "an anchor, an alias or a tag", 3),
        ("x: &x\n  a: 1\nextensions:\n  <<: *x\n", "an anchor, an alias or a tag", 4),
        ("extensions:\n  tools: &x\n    a: 1\n", "an anchor, an alias or a tag", 2),
        ("extensions: {}\nextensions: {}\n", "occurs there twice", 2),
        ("extensions:\n  tools: 1\n  tools: 2\n", "occurs there twice", 3),
        ("extensions: {\n}\n", "a form that is not known", 1),
        ("a: |\n  text", "would change something else", None),
        ("? extensions\n: a: 1\n", "do not begin their lines", 2),
        (
            "a: &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
            ),
            "aliases that multiply",
            None,
        ),
        ("a: &a [*a]\n", "an anchor that contains itself", None),
        ("[" * 1000, "nested deeper than 64 levels", 1),
    ],
)
def test_an_unsupported_text_is_rejected(text: str, problem: str, line: int | None) -> None:
    with pytest.raises(UnsafeEdit) as caught:
        editor.put_entry("yaml", text, ["extensions"], "tools", VALUE)
    assert problem in str(caught.value)
    if line is not None:
        assert caught.value.line == line
    assert caught.value.hint


def test_items_that_do_not_begin_on_their_dash_are_rejected() -> None:
    for text in ("s:\n  -\n    name: a\n", "s: [{name: a}]\n", "s: {}\n"):
        with pytest.raises(UnsafeEdit):
            editor.put_entry("yaml", text, ["s"], "b", VALUE, listed=True)


@pytest.mark.parametrize(
    ("text", "undone"),
    [
        ("s:\n  a: 1\n  b:\n    x: 1\n  c: 2\n", "s:\n  a: 1\n  c: 2\n"),
        ("s:\n  b:\n    x: 1\n", "s: {}\n"),
        ("s: # why\n  b:\n    x: 1", "s: {} # why"),
        ("s:\r\n  b: {x: 1,\r\n   y: 2} # b\r\n\r\n# z\r\n", "s: {}\r\n\r\n# z\r\n"),
        ("s:\n  b: |+\n    text\n\n\nz: 1\n", "s: {}\nz: 1\n"),
        ("s:\n  b:\n  a:\n", "s:\n  a:\n"),
        ("s:\n  a: 1\n", "s:\n  a: 1\n"),
        ("# nothing\n", "# nothing\n"),
        ("s:\n", "s:\n"),
    ],
)
def test_without_a_change_only_the_entry_is_removed(text: str, undone: str) -> None:
    assert editor.remove_entry("yaml", text, ["s"], "b") == undone


def test_an_entry_with_a_used_anchor_is_not_removed() -> None:
    with pytest.raises(UnsafeEdit):
        editor.remove_entry("yaml", "s:\n  b:\n    x: &x 1\nz: *x\n", ["s"], "b")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("s:\n    b:\n        x: 1 # old\n    # c\n    c: 1\n", "s:\n    b:\n        x: 2\n    # c\n    c: 1\n"),
        ("s:\n  b: {x: 1} # old\n", "s:\n  b:\n    x: 2\n"),
        ("s:\n  b:\n", "s:\n  b:\n    x: 2\n"),
    ],
)
def test_an_entry_is_replaced_on_its_lines(text: str, after: str) -> None:
    assert editor.put_entry("yaml", text, ["s"], "b", {"x": 2}) == after


def test_an_item_is_replaced_on_its_lines() -> None:
    text = "s:\n- name: a\n- name: b\n  x: 1\n# end\n"
    after = 's:\n- name: a\n- name: "b"\n  x: 2\n# end\n'
    assert editor.put_entry("yaml", text, ["s"], "b", {"x": 2}, listed=True) == after


def test_an_equal_entry_is_not_written_again() -> None:
    text = "s:\n  b: {y: [1, 0x10], x: 'on'}\n"
    assert editor.put_entry("yaml", text, ["s"], "b", {"x": "on", "y": [1, 16]}) == text


TEXTS = [
    "no",
    "1",
    "null",
    "~",
    "",
    " a ",
    "a: b",
    "- a",
    "a # b",
    "é😀",
    "\x7f\u2028\x85",
    "'",
    '"',
    "\n",
    "*a",
    "x" * 500,
]


def test_every_text_value_is_read_back_unchanged() -> None:
    value: dict[str, Any] = {"args": [*TEXTS, [*TEXTS]], "env": {text: text for text in TEXTS}}
    new_text = editor.put_entry("yaml", "", ["s"], "b", value)
    assert editor.read_data("yaml", new_text) == {"s": {"b": value}}


def test_an_ambiguous_name_is_quoted() -> None:
    for name in ("on", "1", "a b", "null", "-", "é", "#", "a:"):
        new_text = editor.put_entry("yaml", "s:\n  a: 1\n", ["s"], name, {"x": 1})
        assert editor.read_data("yaml", new_text) == {"s": {"a": 1, name: {"x": 1}}}
        assert f'"{name}":' in new_text


def test_data_is_read_as_yaml_1_2() -> None:
    text = "a: no\nb: &x [1, 1.5, true, ~, 0o7, '1']\nc: *x\n1: 2020-01-01\n"
    values = [1, 1.5, True, None, 7, "1"]
    assert editor.read_data("yaml", text) == {"a": "no", "b": values, "c": values, "1": "2020-01-01"}
    assert editor.read_data("yaml", "# nothing") is None


def test_a_problem_has_the_place_and_no_content() -> None:
    with pytest.raises(UnsafeEdit) as caught:
        editor.read_data("yaml", "a: 1\ntoken: 'secret-value' secret-too\n")
    assert caught.value.line == 2
    assert "secret" not in str(caught.value)
