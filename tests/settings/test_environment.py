"""Values of the settings may come from the environment, and stay secret."""

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import Document, expand, read_document

LINES = {(): 1, ("a",): 2, ("b",): 3}


def expand_value(value, /, **environ):
    return expand(Document(path="s.yaml", data={"a": value}), environ).data["a"]


def get_error(data, **environ):
    with pytest.raises(ConfigError) as caught:
        expand(Document(path="s.yaml", data=data, lines=LINES), environ)
    return caught.value


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${X}", "value"),
        ("${X:-other}", "value"),
        ("${UNSET:-}", ""),
        ("${EMPTY:-other}", "other"),
        ("${UNSET:-a:-b}", "a:-b"),
        ("$${X} ${X}", "${X} value"),
        ("$$${X}", "$${X}"),
        ("$X $ {X} $$", "$X $ {X} $$"),
    ],
)
def test_references_in_text(text, result):
    assert expand_value(text, X="value", EMPTY="") == result


def test_references_work_at_any_depth_and_other_values_stay():
    assert expand_value([{"b": ["${X}", 1, None, True]}], X="x") == [{"b": ["x", 1, None, True]}]


def test_keys_are_not_expanded():
    assert expand_value({"${X}": 1}, X="x") == {"${X}": 1}


def test_a_value_is_never_expanded_twice():
    assert expand_value("${X}", X="${Y}", Y="no") == "${Y}"
    assert expand_value("${X}{Y}", X="$", Y="no") == "${Y}"
    assert expand_value("${UNSET:-$}{Y}", Y="no") == "${Y}"


def test_the_original_document_is_not_changed():
    document = Document(path="", data={"a": ["${X}"]})
    expand(document, {"X": "x"})
    assert document.data == {"a": ["${X}"]}


def test_an_unset_variable_is_reported_with_its_place_and_a_hint():
    error = get_error({"a": "x", "b": {"c": ["${NAME}"]}})
    assert (error.path, error.line, error.where) == ("s.yaml", 3, "b.c[0]")
    assert error.problem == "the environment variable NAME is not set"
    assert "${NAME:-default}" in error.hint


def test_all_unset_variables_are_reported_together():
    text = str(get_error({"a": "${ONE}", "b": "${TWO}"}))
    assert text.splitlines()[0].startswith("s.yaml:2: a: the environment variable ONE is not set. Set it")
    assert text.splitlines()[1].startswith("s.yaml:3: b: the environment variable TWO is not set")


def test_an_error_shows_no_other_value():
    text = str(get_error({"a": "${SET} between ${UNSET}", "b": "beside"}, SET="hunter2"))
    assert not [word for word in ("hunter2", "between", "beside") if word in text]


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A:?no}"])
def test_a_broken_reference_is_an_error_with_the_literal_form_as_a_hint(text):
    error = get_error({"a": text}, A="x")
    assert "does not begin a valid reference" in error.problem
    assert "$${" in error.hint


def test_a_variable_that_is_not_text_is_an_error():
    assert "NAME is not UTF-8" in get_error({"a": "${NAME}"}, NAME="\udcff").problem


def test_values_from_the_environment_are_secret_and_hidden():
    data = {"a": "Bearer ${X}", "b": ["${E}", "${U:-default}", "${Y}", "$${X}"]}
    document = expand(Document(path="", data=data), {"X": "x1", "Y": "y1", "E": "", "Z": "z1"})
    assert document.secrets == {"x1", "y1"}
    assert document.hidden_places == {("a",), ("b", 2)}
    assert "x1" not in repr(document)


def test_lines_survive_the_expansion(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("a: 1\nb: ${X}\n")
    assert expand(read_document(path), {"X": "x"}).get_line(["b"]) == 2


def test_variables_that_are_in_every_path_are_no_secrets() -> None:
    document = Document(path="", data={"a": "${HOME}/tools.py", "b": "${TOKEN}"})
    expanded = expand(document, {"HOME": "/home/me", "TOKEN": "hush"})
    assert expanded.data == {"a": "/home/me/tools.py", "b": "hush"}
    assert expanded.secrets == {"hush"}
