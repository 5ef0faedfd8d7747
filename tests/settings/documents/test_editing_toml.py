"""Editing one entry in TOML: a table at the end, and unchanged texts."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.syntax import UnsafeEdit

VALUE = {"command": "/bin/x"}


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("a = 1\nb =\n", "not valid TOML", 2),
        ("a = 2020-99-99\n", "not valid TOML", None),
        ("a = 1" + "0" * 5000, "not valid TOML", None),
        ("a = 1\rb = 2\n", "a carriage return", 1),
        ("a = 1\n\0", "NUL", 2),
        ("mcp_servers = 1\n", "not a table", None),
        ("mcp_servers = {}\n", "a form that a table cannot be added to", None),
        ("a = " + "[" * 5000, "nested deeper than 64 levels", None),
    ],
)
def test_an_unsupported_text_is_rejected(text: str, problem: str, line: int | None) -> None:
    with pytest.raises(UnsafeEdit) as caught:
        editor.put_entry("toml", text, ["mcp_servers"], "tools", VALUE)
    assert problem in str(caught.value)
    if line is not None:
        assert caught.value.line == line


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers.tools.command = 'x'\n",
        "[mcp_servers]\ntools.command = 'x'\n",
        "[mcp_servers]\ntools = {command = 'x'}\n",
        "mcp_servers = {tools = {command = 'x'}}\n",
    ],
)
def test_an_entry_that_is_no_separate_table_is_rejected(text: str) -> None:
    with pytest.raises(UnsafeEdit, match="not a table of its own"):
        editor.remove_entry("toml", text, ["mcp_servers"], "tools")
    with pytest.raises(UnsafeEdit, match="not a table of its own"):
        editor.put_entry("toml", text, ["mcp_servers"], "tools", VALUE)
    unchanged = editor.put_entry("toml", text, ["mcp_servers"], "tools", {"command": "x"})
    assert unchanged == text


TABLES = """# head

[mcp_servers.tools] # ours
command = "x"
list = [
  [1], # [mcp_servers.tools]
]
text = '''
[other]
# no comment
'''
# about env

[mcp_servers.tools.env]
A = "1"

[mcp_servers.tools2]
command = "y"

[[ mcp_servers . "tools" . more ]]
x = 1
[[mcp_servers.tools.more]]
x = 2
# end"""


def test_an_entry_is_removed_with_the_tables_below_it_and_without_comments() -> None:
    for newline in ("\n", "\r\n"):
        text = TABLES.replace("\n", newline)
        remaining_text = editor.remove_entry("toml", text, ["mcp_servers"], "tools")
        after = '# head\n# about env\n\n\n[mcp_servers.tools2]\ncommand = "y"\n\n# end'
        assert remaining_text == after.replace("\n", newline)


def test_an_entry_is_replaced_in_its_place() -> None:
    new_text = editor.put_entry("toml", TABLES, ["mcp_servers"], "tools", {"command": "z"})
    assert new_text.startswith('# head\n\n[mcp_servers.tools]\ncommand = "z"\n# about env\n')
    assert tomllib.loads(new_text) == {"mcp_servers": {"tools": {"command": "z"}, "tools2": {"command": "y"}}}


def test_an_earlier_empty_line_stays_and_an_added_one_is_removed() -> None:
    for text in ("a = 1", "a = 1\n", "a = 1\n\n", "a = 1 # x\r\n", "\n", ""):
        new_text = editor.put_entry("toml", text, ["s"], "b", {"x": 1})
        theirs = new_text + ("" if new_text.endswith("\n") else "\n") + "\n[theirs]\n"
        change = editor.describe_change("toml", text, new_text, ["s"], "b")
        remaining_text = editor.revert_change("toml", theirs, ["s"], "b", change)
        assert remaining_text.startswith(text)
        assert remaining_text.endswith("\n[theirs]\n")
        assert remaining_text.count("\n") <= text.count("\n") + 3


TEXTS = ["", "a b", "é😀", "\x7f\x01\u2028\x85", "'", '"', "\\", "\n", "#", "'''", "x" * 500]


def test_every_text_value_is_read_back_unchanged() -> None:
    value: dict[str, Any] = {"args": [*TEXTS, []], "env": {text: text for text in TEXTS}, "c": {"A b": 1.5}, "on": True}
    new_text = editor.put_entry("toml", "", ["mcp servers", "x.y"], 'q"é', value)
    assert editor.read_data("toml", new_text) == {"mcp servers": {"x.y": {'q"é': value}}}


def test_null_is_rejected_in_toml() -> None:
    with pytest.raises(UnsafeEdit, match="a null in it, which TOML does not have"):
        editor.put_entry("toml", "", ["mcp_servers"], "tools", {"x": [None]})


def test_servers_in_a_list_are_rejected_in_toml() -> None:
    with pytest.raises(UnsafeEdit, match="no form for a list of servers"):
        editor.put_entry("toml", "", ["mcp_servers"], "tools", VALUE, listed=True)


def test_dates_are_read_as_text() -> None:
    assert editor.read_data("toml", "a = 2020-01-02\n") == {"a": "2020-01-02"}
    assert editor.read_data("toml", "") == {}
