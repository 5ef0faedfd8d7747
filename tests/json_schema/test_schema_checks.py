"""Problems of uncheckable schemas, with their places and advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._json_schema.schema_checks import check_schema
from mcp_bridge._sources.python import PythonSource

CASES = {
    "look-around": (
        {"properties": {"a": {"pattern": "(?=x)"}}},
        "#/properties/a/pattern: the pattern '(?=x)' cannot be used. Patterns run in linear time: "
        "write it without look-around",
    ),
    "an unknown type": ({"items": {"type": "foo"}}, '#/items/type: "foo" is not valid under any'),
    "a wrong keyword": ({"anyOf": [{"required": "a"}]}, '#/anyOf/0/required: "a" is not of type "array"'),
    "a reference that leads nowhere": (
        {"properties": {"a": {"$ref": "#/$defs/b"}}},
        "#/properties/a/$ref: Pointer '/$defs/b' does not exist",
    ),
    "an address that is none": ({"$id": "http://[", "$ref": "#"}, "#/$id: Invalid URI reference 'http://['"),
    "a place with a slash in its name": ({"properties": {"a/b": {"type": "foo"}}}, "#/properties/a~1b/type: "),
}


@pytest.mark.parametrize("case", CASES)
def test_a_problem_has_the_place_and_the_reason(case: str) -> None:
    schema, expected = CASES[case]
    (line,) = check_schema(schema)
    assert line.startswith(expected)


@pytest.mark.parametrize("schema", [True, {"type": "object", "properties": {"a": {"pattern": "^a+$"}}}])
def test_a_valid_schema_has_no_problems(schema: object) -> None:
    assert check_schema(schema) == []


def test_two_tools_may_share_a_handler(tmp_path: Path) -> None:
    (tmp_path / "pair.py").write_text(
        "from mcp_bridge import ToolEntry\ndef h(data): return 1\na, b = ToolEntry('a', '', h), ToolEntry('b', '', h)\n"
    )
    offer = PythonSource("pair", path=tmp_path / "pair.py").load()
    assert [entry.name for entry in offer.tools] == ["a", "b"]
