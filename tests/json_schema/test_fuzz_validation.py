"""For any schema and any data, validation never raises, and agrees with a reference validator.

FUZZ=50 runs fifty times as many examples. Schemas are read as 2020-12 unless they declare otherwise.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import anyio
import orjson
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from mcp_bridge import ToolEntry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.source import Offer, Publish, Source
from mcp_bridge._json_schema.schema_checks import check_schema
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._server.tools.methods import ToolIndex
from tests.kits.fuzzing import build_text, read_corpus, use_examples
from tests.kits.schema.fuzz_schemas import DATA, FITTED, HOSTILE, ODD, SOUND

MAX_SECONDS = 60.0
"""The maximum seconds of CPU for one validation. Work that grows exponentially takes far longer."""


def get_verdict(data: Any, schema: Any) -> bool:
    """Return the verdict of the validator, and check that `is_valid` and `check` agree."""
    validator = Validator(schema)
    began = time.process_time()
    verdict = validator.check(data)
    assert time.process_time() - began < MAX_SECONDS
    assert verdict.valid is validator.is_valid(data)
    assert verdict.valid is (not verdict.errors)
    assert all(isinstance(line, str) and line.encode("utf-8", "surrogatepass") for line in verdict.errors)
    return verdict.valid


@use_examples(150)
@given(data=DATA, schema=SOUND)
def test_any_valid_schema_and_any_json_get_the_verdict_of_the_reference(data: Any, schema: dict[str, Any]) -> None:
    assert check_schema(schema) == []
    assert get_verdict(data, schema) is Draft202012Validator(schema).is_valid(data)


@use_examples(50)
@given(pair=FITTED)
def test_data_that_is_made_to_fit_fits(pair: tuple[Any, Any]) -> None:
    schema, data = pair
    assert Draft202012Validator(schema).is_valid(data)
    assert check_schema(schema) == []
    assert get_verdict(data, schema)


@use_examples(75)
@given(data=DATA | ODD, schema=HOSTILE)
def test_a_hostile_schema_is_rejected_with_a_reason_or_validates_without_raising(data: Any, schema: Any) -> None:
    assert all(isinstance(line, str) for line in check_schema(schema))
    get_verdict(data, schema)


def read_finding(finding: dict[str, Any], key: str) -> Any:
    """Return the schema or the data of a finding; a long one is stored as a text that generates it."""
    text = finding.get(f"{key}_text")
    return json.loads(build_text(text)) if text else finding[key]


@pytest.mark.parametrize("finding", read_corpus("schema"))
def test_a_schema_that_once_failed_is_validated_in_time_or_rejected_with_a_reason(finding: dict[str, Any]) -> None:
    schema, data = read_finding(finding, "schema"), read_finding(finding, "data")
    verdict = get_verdict(data, schema)
    if finding["expect"] == "refused":
        assert check_schema(schema) != [], finding["name"]
    else:
        assert check_schema(schema) == [], finding["name"]
        assert verdict is finding["expect"]
    assert len("".join(Validator(schema).list_problems(data))) < 1_000_000


def test_a_long_chain_of_references_is_followed_to_its_end() -> None:
    links = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(3000)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**links, "a3000": {"type": "string"}}}
    assert get_verdict("x", schema)
    assert not get_verdict(5, schema)


def test_the_first_thousand_problems_are_listed_with_a_note_that_there_are_more() -> None:
    problems = Validator({"items": {"type": "integer"}}).list_problems(["x"] * 2000)
    assert problems[999] == "$[999]: expected type integer, got str"
    assert problems[1000:] == ["$: there are more problems; only the first are listed"]


@dataclass
class Offering(Source):
    """A source of one tool with this schema, and of a good one."""

    schema: Any
    name: str = "offering"

    async def run(self, publish: Publish) -> None:
        """Publish both tools."""
        odd = ToolEntry("odd", "Odd.", lambda data: data, self.schema, self.schema)
        publish(Offer(tools=[odd, ToolEntry("good", "Good.", lambda data: data, {"type": "object"})]))


def serve_schema(schema: Any) -> tuple[list[str], list[str], list[str]]:
    """Return the tools listed in each era for this schema, and the problems."""
    bridge = Bridge(sources=[AttachedSource(source=Offering(schema))])

    async def start() -> None:
        async with bridge.run_sources():
            await bridge.wait_until_started()

    anyio.run(start)
    pages = ToolIndex(bridge.registry, page=10).get_pages()
    tools = []
    for version in ("2025-11-25", "2026-07-28"):
        # A page can be sent only if its schemas can be encoded.
        page = orjson.loads(orjson.dumps(pages.render(version, None)))
        tools.append([tool["name"] for tool in page["tools"]])
    return tools[0], tools[1], bridge.problems["offering"]


@use_examples(30)
@given(schema=HOSTILE)
def test_a_tool_with_a_hostile_schema_is_listed_or_rejected_with_a_reason_and_others_are_served(
    schema: Any,
) -> None:
    older, newer, problems = serve_schema(schema)
    assert older == newer
    assert older == (["good"] if problems else ["good", "odd"])
    assert all("odd" in problem for problem in problems)


def test_data_too_deep_to_explain_is_invalid_even_if_the_library_cannot_read_it() -> None:
    tree = {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"$ref": "#"}}]}
    data: Any = [1]
    for _ in range(10):
        # The library cannot read a lone surrogate.
        data = {"a": data, "b": "\ud800"}
    assert Validator(tree).list_problems(data) == ["$: value does not fit the schema"]
    assert not get_verdict(data, tree)
