"""A settings file becomes plain data with line numbers, or an error with a line and a remedy."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import Document, read_document
from tests.kits.fuzzing import use_examples

SAME = {"name": "x", "sources": [{"type": "python", "n": 1}, {"type": "mcp", "on": True, "f": 1.5}]}
YAML = """\
# a comment
name: x
sources:
  - type: python
    n: 1
  - type: mcp
    on: true
    f: 1.5
"""
JSON = """\
{
  "name": "x",
  "sources": [
    {"type": "python",
     "n": 1},
    {
      "type": "mcp",
      "on": true,
      "f": 1.5
    }
  ]
}
"""
TOML = """\
# a comment = [
name = "x"

[[sources]]
type = "python"
n = 1

[[sources]]
type = "mcp"
on = true
f = 1.5
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read_error(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_document(path)
    assert caught.value.path == str(path)
    assert caught.value.hint
    return caught.value


@pytest.fixture
def reject(tmp_path):
    """Return a function that reads an invalid text of a format and returns the error."""
    return lambda suffix, text: read_error(write(tmp_path, f"settings.{suffix}", text))


@pytest.fixture
def accept(tmp_path):
    """Return a function that reads a text of a format and returns the document."""
    return lambda suffix, text: read_document(write(tmp_path, f"settings.{suffix}", text))


@pytest.mark.parametrize(("suffix", "text"), [("yaml", YAML), ("yml", YAML), ("json", JSON), ("toml", TOML)])
def test_the_three_formats_give_the_same_data(accept, suffix, text):
    assert accept(suffix, text).data == SAME


@pytest.mark.parametrize(
    ("suffix", "text", "lines"),
    [
        (
            "yaml",
            YAML,
            {("name",): 2, ("sources",): 3, ("sources", 0): 4, ("sources", 0, "n"): 5, ("sources", 1, "f"): 8},
        ),
        (
            "json",
            JSON,
            {("name",): 2, ("sources",): 3, ("sources", 0): 4, ("sources", 0, "n"): 5, ("sources", 1, "f"): 9},
        ),
        (
            "toml",
            TOML,
            {("name",): 2, ("sources",): 4, ("sources", 0): 4, ("sources", 0, "n"): 6, ("sources", 1, "f"): 11},
        ),
    ],
)
def test_every_key_path_has_its_line(accept, suffix, text, lines):
    document = accept(suffix, text)
    assert {where: document.get_line(where) for where in lines} == lines


def test_a_place_without_a_line_has_the_line_of_its_nearest_ancestor(accept):
    document = accept("yaml", YAML)
    assert document.get_line(["sources", 1, "path", 3]) == 6
    assert document.get_line([]) == 2


def test_a_document_made_in_memory_has_no_lines():
    document = Document(path="", data={"name": "x"})
    assert document.get_line(["name"]) is None
    assert str(document.make_error(["name"], "wrong")) == "name: wrong"


def test_an_error_names_file_line_place_and_what_to_do(accept):
    document = accept("yaml", YAML)
    error = document.make_error(["sources", 0, "n"], "too small", "Take 2.")
    assert str(error) == f"{document.path}:5: sources[0].n: too small. Take 2."


def test_unusual_keys_are_quoted_and_long_places_truncated():
    document = Document(path="", data={})
    assert document.make_error(["alias", "a b"], "x").where == 'alias["a b"]'
    assert len(document.make_error(["deep"] * 100, "x").where) <= 201


def test_the_data_of_a_document_is_not_in_its_repr(accept):
    assert "python" not in repr(accept("yaml", YAML))


# What a file can be besides text.


@pytest.mark.parametrize("name", ["settings", "settings.yaml.bak"])
def test_an_unknown_suffix_is_reported_with_the_accepted_ones(tmp_path, name):
    error = read_error(write(tmp_path, name, "name: x"))
    assert ".yaml, .yml, .json, .toml" in error.problem


def test_a_missing_file_is_an_error(tmp_path):
    assert read_error(tmp_path / "none.yaml").problem == "no such file"


def test_a_directory_is_an_error(tmp_path):
    (tmp_path / "folder.yaml").mkdir()
    assert "directory" in read_error(tmp_path / "folder.yaml").problem


def test_an_unreadable_file_is_an_error(tmp_path, monkeypatch):
    def denied(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, "settings.yaml", YAML)
    monkeypatch.setattr(Path, "open", denied)
    assert "not permitted" in read_error(path).problem


@pytest.mark.parametrize("name", ["a\0b.yaml", "x" * 300 + ".yaml"])
def test_an_impossible_path_is_an_error(tmp_path, name):
    assert "cannot be read" in read_error(tmp_path / name).problem


def test_text_that_is_not_utf8_is_an_error_with_its_line(reject):
    error = reject("yaml", "name: x\ntitle: Größe\n".encode("latin-1"))
    assert (error.problem, error.line) == ("not UTF-8 text", 2)


def test_a_file_of_one_mebibyte_is_read_and_a_larger_one_is_rejected(reject, accept):
    assert "larger than 1 MiB" in reject("json", '{"a": "' + "x" * 1024 * 1024 + '"}').problem
    assert accept("json", '{"a": "' + "x" * (1024 * 1024 - 9) + '"}').data


@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
def test_a_byte_order_mark_is_tolerated(accept, suffix):
    text = {"yaml": "name: x", "json": '{"name": "x"}', "toml": 'name = "x"'}[suffix]
    assert accept(suffix, b"\xef\xbb\xbf" + text.encode()).data == {"name": "x"}


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("yaml", ""),
        ("yaml", "null"),
        ("json", " \n"),
        ("json", "null"),
        ("toml", "# only\n"),
    ],
)
def test_a_file_without_settings_is_reported_as_empty(reject, suffix, text):
    assert reject(suffix, text).problem == "the file is empty"


@pytest.mark.parametrize(
    ("suffix", "text", "type_name", "line"),
    [
        ("yaml", "\n- a\n", "a list", 2),
        ("json", '\n\n["a"]', "a list", 3),
        ("yaml", "text", "text", 1),
        ("json", "7", "a whole number", 1),
    ],
)
def test_a_root_that_is_not_a_mapping_is_an_error(reject, suffix, text, type_name, line):
    error = reject(suffix, text)
    assert error.problem.endswith(f"found {type_name}")
    assert error.line == line


# What the text can mean.


PLAIN = [
    ("no", "no"),
    ("on", "on"),
    ("yes", "yes"),
    ("010", 10),
    ("0o10", 8),
    ("0x1F", 31),
    ("-7", -7),
    ("1e3", 1000.0),
    (".5", 0.5),
    ("1_000", "1_000"),
    ("12:30:00", "12:30:00"),
    ("2026-11-21", "2026-11-21"),
    ("True", True),
    ("FALSE", False),
    ("", None),
    ("~", None),
    ("'1'", "1"),
    ('"true"', "true"),
    ("!!str 1", "1"),
    ("! 1", "1"),
    ("!!map {a: 1}", {"a": 1}),
    ("!!seq [1]", [1]),
    ("|\n  a\n  b", "a\nb\n"),
]


def test_plain_yaml_follows_version_1_2(accept):
    result = accept("yaml", "".join(f"- {text}\n" for text, _ in PLAIN).join(["a:\n", ""])).data["a"]
    assert [(value, type(value)) for value in result] == [(value, type(value)) for _, value in PLAIN]


def test_the_keys_no_and_on_are_text(accept):
    assert accept("yaml", "no: 1\non: 2\n").data == {"no": 1, "on": 2}


@pytest.mark.parametrize(
    ("suffix", "text", "problem", "line"),
    [
        ("yaml", "a: 1\nb: .inf\n", "infinite", 2),
        ("yaml", "a: .NaN\n", "not a number", 1),
        ("yaml", "a: 1e999\n", "infinite", 1),
        ("json", '{"a":\n NaN}', "not a number", 2),
        ("toml", "\na = inf", "infinite", 2),
        ("toml", "a = 1\nb = 2026-11-21", "a date or time", 2),
        ("toml", "b = 07:32:00", "a date or time", 1),
        ("yaml", "a: 18446744073709551616", "64 bits", 1),
        ("json", '{"a": -18446744073709551616}', "64 bits", 1),
        ("yaml", 'a: "\\ud800"', "surrogate", 1),
        ("json", '{"a": "\\ud800"}', "surrogate", 1),
        ("json", '{"b": {"\\ud800": 1}}', "surrogate pair in a key", 1),
        ("yaml", "a: 1\nb: " + "9" * 5000, "too many digits", 2),
        ("json", '{"a": ' + "9" * 5000 + "}", "too many digits", None),
        ("toml", "a = " + "9" * 5000, "too many digits", None),
    ],
)
def test_values_without_a_form_in_all_formats_are_rejected(reject, suffix, text, problem, line):
    error = reject(suffix, text)
    assert problem in error.problem
    assert error.line == line


@pytest.mark.parametrize(
    ("suffix", "text", "line"),
    [
        ("yaml", "a: 1\nb: [1, 2\nc: 3\n", 3),
        ("yaml", "a: 1\n\tb: 2\n", 2),
        ("yaml", 'a: 1\nb: "\\UFFFFFFFF"\n', None),
        ("yaml", "a: 1\nb: \x07\n", 2),
        ("json", '{"a": 1,\n "b" 2\n}', 2),
        ("json", '{\n/ no\n"a": 1}', 2),
        ("toml", 'a = 1\nb = "x', 2),
    ],
)
def test_a_syntax_error_names_its_line(reject, suffix, text, line):
    assert reject(suffix, text).line == line


@pytest.mark.parametrize(
    ("suffix", "text", "line"),
    [
        ("yaml", "a:\n  b: 1\n  c: 2\n  b: 3\n", 4),
        ("json", '{"a": {"b": 1,\n "c": 2,\n\n "b": 3}}', 4),
        ("toml", "[a]\nb = 1\nc = 2\nb = 3\n", 4),
        ("json", '{"a": 1,\n "\\u0061": 2}', 2),
    ],
)
def test_a_repeated_key_is_an_error(reject, suffix, text, line):
    assert reject(suffix, text).line == line


def test_the_error_for_a_repeated_key_has_the_line_of_the_first(reject):
    assert reject("yaml", "a: 1\nb: 2\na: 3\n").problem == "key 'a' occurs twice, first in line 1"
    assert reject("json", '{"a": 1,\n"a": 3}').where == "a"


@pytest.mark.parametrize("key", ["1", "true", "1.5", "? {a: 1}\n", "!!int 1"])
def test_a_yaml_key_is_text(reject, key):
    assert reject("yaml", f"ok: 1\n{key}: 2\n").line == 2


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system ''",
        "!!int '3'",
        "!!str {a: 1}",
    ],
)
def test_yaml_tags_are_rejected(reject, tag):
    error = reject("yaml", f"ok: 1\na: {tag}\n")
    assert "tag" in error.problem
    assert error.line == 2


def test_a_second_yaml_document_is_rejected(reject):
    assert reject("yaml", "a: 1\n---\nb: 2\n").problem == "a second document"


# Anchors.


def test_anchors_and_aliases_work(accept):
    document = accept("yaml", "a: &one [1, 2]\nb: *one\nc: &two x\nd: *two\ne: {*two : 1}\n")
    assert document.data == {"a": [1, 2], "b": [1, 2], "c": "x", "d": "x", "e": {"x": 1}}
    assert document.get_line(["b", 1]) == 2


def test_merge_keys_add_missing_keys(accept):
    text = "d: &d {x: 1, y: 1}\ne: &e {y: 2, z: 2}\na: {<<: *d, x: 3}\nb:\n  <<: [*d, *e]\n  z: 4\nc: {'<<': 5}\n"
    data = accept("yaml", text).data
    assert data["a"] == {"x": 3, "y": 1}
    assert data["b"] == {"x": 1, "y": 1, "z": 4}
    assert data["c"] == {"<<": 5}


@pytest.mark.parametrize("value", ["1", "[{a: 1}, 2]", "text"])
def test_only_mappings_are_merged(reject, value):
    assert "merges mappings" in reject("yaml", f"a:\n  <<: {value}\n").problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [("a: *x", "not defined"), ("a: &x [*x]", "contains itself"), ("a: &x {b: *x}", "contains itself")],
)
def test_an_alias_needs_a_finished_anchor(reject, text, problem):
    assert problem in reject("yaml", text).problem


def test_multiplying_aliases_are_rejected_before_they_are_expanded(reject):
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9))
    error = reject("yaml", bomb)
    assert "multiply" in error.problem
    assert error.line <= 6


def test_long_text_behind_many_aliases_is_rejected(reject):
    assert "multiply" in reject("yaml", f"a: &a {'x' * 100_000}\nb: [{'*a,' * 1000}]\n").problem


def test_some_aliases_are_accepted(accept):
    assert len(accept("yaml", f"a: &a {{x: 1}}\nb: [{'*a,' * 1000}]\n").data["b"]) == 1000


# Depth.


def nest_values(suffix: str, depth: int) -> str:
    brackets = "[" * depth + "]" * depth
    return {"yaml": f"a: {brackets}", "json": f'{{"a": {brackets}}}', "toml": f"a = {brackets}"}[suffix]


@pytest.mark.parametrize(
    ("suffix", "depth"),
    [("yaml", 70), ("yaml", 100_000), ("json", 70), ("json", 100_000), ("toml", 70), ("toml", 100_000)],
)
def test_deep_nesting_is_rejected(reject, suffix, depth):
    assert "nested deeper than 64" in reject(suffix, nest_values(suffix, depth)).problem


@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
def test_sixty_levels_are_fine(accept, suffix):
    assert accept(suffix, nest_values(suffix, 60)).data


def test_deep_nesting_by_aliases_is_rejected(reject):
    chain = "a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}]\n" for n in range(100))
    assert "nested deeper" in reject("yaml", chain).problem


def test_very_long_dotted_keys_of_toml_are_rejected_quickly(reject):
    error = reject("toml", "b = 1.5\na" + ".a" * 100_000 + " = 1")
    assert "nested deeper" in error.problem
    assert error.line == 2


# Lines of TOML.


def test_toml_lines_of_headers_dotted_and_quoted_keys(accept):
    text = '''\
long = """
[not.a.header]
key = "x" \\"""
"""
raw = \'\'\'
x = [\'\'\'
list = [
  1, # ] }
  { a = 1 },
]
a."b.c".d = 1
[t.'u v']
"k\\u0041" = "it's # no comment"
[[s]]
[[s.in]]
x = 1
[[s.in]]
x = 2
[s.in.more]
y = 3
[[s]]
[[s.in]]
x = 4
'''
    document = accept("toml", text)
    expected = {
        ("long",): 1,
        ("raw",): 5,
        ("list",): 7,
        ("a", "b.c", "d"): 11,
        ("t",): 12,
        ("t", "u v", "kA"): 13,
        ("s", 0, "in", 0, "x"): 16,
        ("s", 0, "in", 1, "x"): 18,
        ("s", 0, "in", 1, "more", "y"): 20,
        ("s", 1): 21,
        ("s", 1, "in", 0, "x"): 23,
    }
    assert {where: document.get_line(where) for where in expected} == expected


def test_inside_of_toml_arrays_the_line_is_that_of_the_key(accept):
    document = accept("toml", "a = 1\nb = [\n  {c = 1},\n  {c = 2},\n]\n")
    assert document.get_line(["b", 1, "c"]) == 2


# Whatever the text.

SYNTAX = st.lists(
    st.sampled_from(
        [
            *"abn01 \n\t:-[]{}&*!|>?%,#'\"=.~\\\r\x00\ufeff\u2028é",
            "a: ",
            "- ",
            "\n  ",
            "<<: ",
            "&a ",
            "*a",
            "!!str ",
            "---\n",
            "a = ",
            '"a": ',
            '{"a": ',
            "[[a]]\n",
            '"""',
            "'''",
            "\\ud800",
            "\\UFFFFFFFF",
            "1e999",
            "2026-11-21",
            "%YAML 9.9\n",
        ]
    ),
    max_size=30,
).map("".join)


@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
@use_examples(75)
@given(text=st.one_of(SYNTAX, st.text()))
@example(text="a: [*a")
@example(text='a: "\\UFFFFFFFF"')
@example(text="%YAML 9999999999.1\n--- a")
def test_no_text_raises_anything_but_a_config_error(tmp_path_factory, suffix, text):
    path = tmp_path_factory.getbasetemp() / f"any.{suffix}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        document_path = read_document(path).path
    except ConfigError as error:
        document_path = error.path
    assert document_path == str(path)
