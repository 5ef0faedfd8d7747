"""Editing one entry in JSON: its layout, and unchanged texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.json_syntax import JsonText
from mcp_bridge._settings.documents.syntax import UnsafeEdit

VALUE = {"command": "/bin/x"}


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ('{"a": 1\n "b": 2}', "not valid JSON", 2),
        ("{a: 1}", "not valid JSON", 1),
        ('{"a": 01}', "not valid JSON", 1),
        ('{"a": NaN}', "not a number", 1),
        ('{"a": 1' + "0" * 5000 + "}", "too many digits", None),
        ('{"a": "\t"}', "not valid JSON", 1),
        ('{"a": [1,,2]}', "not valid JSON", 1),
        ('{"a": [,]}', "not valid JSON", 1),
        ("{} {}", "not valid JSON", 1),
        ("{\n<<<<<<< ours\n}", "not valid JSON", 2),
        ("[]", "not an object", 1),
        ('{"a": 1,\n"mcpServers": []}', "not an object", 2),
        ('{"mcpServers": {},\n"mcpServers": {}}', "occurs there twice", 2),
        ('{"mcpServers": {},\n"mcp\\u0053ervers": {}}', "occurs there twice", 2),
        ('{"mcpServers": {"tools": 1,\n"tools": 2}}', "occurs there twice", 2),
        ('{"a": 1\n\0}', "NUL", 2),
        ('{"a": "\ud800"}', "surrogate", 1),
        ("[" * 100_000, "nested deeper than 64 levels", 1),
        ("[" * 100_000 + "]" * 100_000, "nested deeper than 64 levels", 1),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested deeper than 64 levels", 1),
    ],
)
def test_an_unsupported_text_is_rejected(text: str, problem: str, line: int | None) -> None:
    with pytest.raises(UnsafeEdit) as caught:
        editor.put_entry("json", text, ["mcpServers"], "tools", VALUE)
    assert problem in caught.value.problem
    assert caught.value.line == line
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ('{"a": 1\n "b": 2}', "not valid JSON", 2),
        ('{"a": [1,,2]}', "not valid JSON", 1),
        ('{"a": NaN}', "not a number", 1),
        ('{"a": 1,\n"mcpServers": []}', "not an object", 2),
        ('{"mcpServers": {},\n"mcpServers": {}}', "occurs there twice", 2),
        ("[" * 100_000, "nested deeper than 64 levels", 1),
    ],
)
def test_an_unsupported_text_with_comments_is_rejected(text: str, problem: str, line: int | None) -> None:
    with pytest.raises(UnsafeEdit) as caught:
        editor.put_entry("jsonc", text, ["mcpServers"], "tools", VALUE)
    assert problem in caught.value.problem
    assert caught.value.line == line


@pytest.mark.parametrize("text", ['{\n"a": 1 // why\n}', '{"a": 1,\n}', '/* why */\n{"a": [1, ]}'])
def test_comments_and_trailing_commas_are_edited_only_for_clients_that_read_them(text: str) -> None:
    with pytest.raises(UnsafeEdit, match="comments or trailing commas, which are not allowed in this file") as caught:
        editor.put_entry("json", text, ["mcpServers"], "tools", VALUE)
    assert caught.value.line is not None
    assert '"tools"' in editor.put_entry("jsonc", text, ["mcpServers"], "tools", VALUE)


def test_a_comment_with_an_ambiguous_end_is_rejected() -> None:
    with pytest.raises(UnsafeEdit):
        editor.put_entry("jsonc", '{"a": 1, // x\u2028 "b": 2\n}', ["mcpServers"], "tools", VALUE)


def test_half_a_surrogate_pair_in_an_escape_stays_as_it_is() -> None:
    text = '{"a": "\\ud800"}'
    new_text = editor.put_entry("json", text, ["mcpServers"], "tools", VALUE)
    assert '"a": "\\ud800"' in new_text
    assert editor.read_data("json", text) == {"a": "?"}


@pytest.mark.parametrize("value", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}])
def test_an_entry_that_is_not_json_is_rejected(value: dict[str, Any]) -> None:
    with pytest.raises(UnsafeEdit, match="not JSON data"):
        editor.put_entry("json", "{}", ["mcpServers"], "tools", value)


def test_a_text_beyond_the_edit_limit_is_read_and_not_edited() -> None:
    text = json.dumps({"a": "x" * (editor.MAX_EDITED["json"] + 1)})
    with pytest.raises(UnsafeEdit, match="larger than"):
        editor.put_entry("json", text, ["mcpServers"], "tools", VALUE)
    with pytest.raises(UnsafeEdit, match="larger than"):
        editor.remove_entry("json", text, ["mcpServers"], "tools")
    assert editor.read_data("json", text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '{\n  "s": {\n    "b": {\n      "x": 1\n    }\n  }\n}\n'),
        ('{"s":{}}', '{"s":{"b":{"x":1}}}'),
        ('{"s":{ }}', '{"s":{ "b":{"x":1} }}'),
        ('{"s":{ /* c */ }}', '{"s":{ /* c */ "b":{"x":1} }}'),
        ('{\n "s": { /* c */ }\n}', '{\n "s": { /* c */\n  "b": {\n   "x": 1\n  }\n }\n}'),
        ('{"s": {"a": {}}}', '{"s": {"a": {}, "b": {"x": 1}}}'),
        ('{"s" :{"a" : {} , "c" : 1}}', '{"s" :{"a" : {} , "c" : 1, "b" : {"x" : 1}}}'),
        ('{\n"s": {"a": {} // c\n}}', '{\n"s": {"a": {}, // c\n"b": {"x": 1}\n}}'),
        ('{\n "s": {}\n}', '{\n "s": {\n  "b": {\n   "x": 1\n  }\n }\n}'),
        ('{\n\t"s": {"a": 1\n\t}\n}', '{\n\t"s": {"a": 1, "b": {"x": 1}\n\t}\n}'),
        (
            '{\n  "s": {\n    "a": 1\n, "c": 2 }}',
            '{\n  "s": {\n    "a": 1\n, "c": 2,\n    "b": {\n      "x": 1\n    } }}',
        ),
        ("{" + " " * 100 + "}", '{"s": {"b": {"x": 1}}' + " " * 100 + "}"),
        ("{}\r", '{\r  "s": {\r    "b": {\r      "x": 1\r    }\r  }\r}\r'),
    ],
)
def test_an_entry_is_written_in_the_layout_of_its_neighbours(text: str, after: str) -> None:
    new_text = editor.put_entry("jsonc", text, ["s"], "b", {"x": 1})
    assert new_text == after
    change = editor.describe_change("jsonc", text, after, ["s"], "b")
    assert editor.revert_change("jsonc", after, ["s"], "b", change) == text


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"s": {"b": 1, "c": 2}}', '{"s": {"c": 2}}'),
        ('{"s": {"b": 1 }}', '{"s": { }}'),
        ('{"s": {"b": 1, }}', '{"s": { }}'),
        ('{"s": {"a": 1, "b": 2 /* x */, /* y */ "c": 3}}', '{"s": {"a": 1 /* x */ /* y */, "c": 3}}'),
        ('{"s": {\n "a": 1, // x\n "b": 2 // y\n}}', '{"s": {\n "a": 1 // x\n // y\n}}'),
        ('{"s": {\n "a": 1, // x\n "b": 2}}', '{"s": {\n "a": 1 // x\n }}'),
        ('{"s": {\n "a": 1, // x\n "b": 2,\n "c": 3\n}}', '{"s": {\n "a": 1, // x\n "c": 3\n}}'),
        ('{"s": {\n "b": 1,\n // about c\n "c": 2\n}}', '{"s": {\n // about c\n "c": 2\n}}'),
        ('{"s": {"b": {"deep": [1, {"x": // own\n 2}]}}}', '{"s": {}}'),
        ('{"s": {"a": 1}}', '{"s": {"a": 1}}'),
        ('{"t": {"b": 1}}', '{"t": {"b": 1}}'),
        ("// nothing", "// nothing"),
    ],
)
def test_an_entry_is_removed_with_its_comma_and_without_comments(text: str, after: str) -> None:
    remaining_text = editor.remove_entry("jsonc", text, ["s"], "b")
    assert editor.read_data("jsonc", remaining_text) == editor.read_data("jsonc", after)
    assert _find_comments(remaining_text) == _find_comments(after)


@pytest.mark.parametrize(
    "inserted", ['"theirs": 1', "// theirs\n", "/* theirs */"], ids=["a member", "a line of comment", "a comment"]
)
def test_a_container_that_was_used_since_stays(inserted: str) -> None:
    text, within = '{"a": 1}', ["s", "t"]
    new_text = editor.put_entry("jsonc", text, within, "b", {"x": 1})
    assert new_text == '{"a": 1, "s": {"t": {"b": {"x": 1}}}}'
    change = editor.describe_change("jsonc", text, new_text, within, "b")
    comma = ", " if inserted.endswith("1") else ""
    theirs = new_text.replace('"t": {"b"', f'"t": {{{inserted}{comma}"b"')
    remaining_text = editor.revert_change("jsonc", theirs, within, "b", change)
    assert inserted in remaining_text
    assert "t" in editor.read_data("jsonc", remaining_text)["s"]
    outside = new_text.replace('"s": {', f'"s": {{{inserted}{comma}')
    remaining_text = editor.revert_change("jsonc", outside, within, "b", change)
    assert inserted in remaining_text
    assert editor.read_data("jsonc", remaining_text)["s"]["t"] == {}


def test_a_comment_that_was_added_before_the_only_item_stays_a_comment() -> None:
    text = '{\n  "s": []\n}'
    new_text = editor.put_entry("jsonc", text, ["s"], "b", {"x": 1}, listed=True)
    text_with_comment = new_text.replace("[\n", "[\n    // theirs\n")
    change = editor.describe_change("jsonc", text, new_text, ["s"], "b", listed=True)
    remaining_text = editor.revert_change("jsonc", text_with_comment, ["s"], "b", change, listed=True)
    assert remaining_text == '{\n  "s": [\n    // theirs\n  ]\n}'


def test_an_entry_is_replaced_in_its_place_and_its_neighbours_stay() -> None:
    text = '{\n  "s": {\n    "b": {\n      "x": 1 // old\n    }, // b\n    "c": {}\n  }\n}'
    new_text = editor.put_entry("jsonc", text, ["s"], "b", {"x": 2, "y": []})
    assert new_text == text.replace('"x": 1 // old', '"x": 2,\n      "y": []')


def test_an_equal_entry_is_not_written_again() -> None:
    text = '{"s": {"b": {"y" : 2 , "x" : 1}}}'
    assert editor.put_entry("json", text, ["s"], "b", {"x": 1, "y": 2}) == text
    assert editor.put_entry("json", text, ["s"], "b", {"x": True, "y": 2}) != text


def test_an_item_of_a_list_is_identified_by_its_name() -> None:
    text = '{"s": [{"name": "a"}]}'
    new_text = editor.put_entry("jsonc", text, ["s"], "b", {"type": "x"}, listed=True)
    assert editor.read_data("jsonc", new_text) == {"s": [{"name": "a"}, {"name": "b", "type": "x"}]}
    assert editor.remove_entry("jsonc", new_text, ["s"], "b", listed=True) == text
    with pytest.raises(UnsafeEdit, match="not a list"):
        editor.put_entry("jsonc", '{"s": {}}', ["s"], "b", {}, listed=True)


@pytest.mark.parametrize(
    "forged",
    [
        {"before": "1"},
        {"before": 99},
        {"before": -99, "after": -99},
        {"old": '"evil": 1'},
        {"old": '}, "evil": {'},
        {"old": 3, "digest": None},
    ],
)
def test_a_forged_change_adds_nothing(forged: dict[str, Any]) -> None:
    text, new_text = '{"a": 1, "s": {}}', '{"a": 1, "s": {"b": {"x": 1}}}'
    change = {**editor.describe_change("json", text, new_text, ["s"], "b"), **forged}
    assert editor.revert_change("json", new_text, ["s"], "b", change) == text


def test_a_problem_has_the_place_and_no_content() -> None:
    with pytest.raises(ConfigError) as caught:
        editor.read_data("json", '{"token": "secret-value",\n "x": secret-too}')
    assert caught.value.line == 2
    assert "secret" not in str(caught.value)


def _find_comments(text: str) -> list[str]:
    source = JsonText(text, allow_comments=True)
    return [text[start:end] for start, end in source.comments]
