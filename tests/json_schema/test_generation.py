"""The schemas of Python types: without invented titles, and of results as they are sent."""
# ruff: noqa: UP045 - the old spelling is read too

from __future__ import annotations

import inspect
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Coroutine,
    Iterable,
    Iterator,
)
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, ConfigDict, Field

from mcp_bridge._contracts.content import Image
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._json_schema.inference import infer_signature
from tests.kits.schema.typed_functions import (
    Node,
    OldOptions,
    Opaque,
    Options,
    Period,
    Place,
    Point,
    Trip,
    Unit,
    is_valid,
    make_returning_function,
)

# -- titles --------------------------------------------------------------------------------------------------


class Titled(BaseModel):
    model_config = ConfigDict(title="A thing with a title")
    title: str
    other: int = Field(title="Another")


class SelfTitled(BaseModel):
    model_config = ConfigDict(title="SelfTitled")


def test_only_titles_of_the_author_are_kept() -> None:
    def tool(a: Titled, b: Trip, c: Options, d: Unit, e: Point, f: SelfTitled, title: str = ""): ...

    schema = infer_signature(tool).input_schema
    properties = schema["properties"]
    titles = [subschema["title"] for subschema in properties.values() if "title" in subschema]
    assert sorted(titles) == ["A thing with a title", "SelfTitled"]
    assert "title" not in schema
    assert properties["title"] == {"type": "string", "default": ""}
    assert properties["a"]["properties"] == {
        "title": {"type": "string"}, "other": {"type": "integer", "title": "Another"},
    }  # fmt: skip
    assert properties["b"]["description"] == "A way to go."
    assert properties["d"] == {"type": "string", "enum": ["celsius", "kelvin"]}


def test_a_default_in_two_places_is_rejected() -> None:
    def tool(a: Annotated[int, Field(default_factory=int)] = 3): ...

    with pytest.raises(TypeError, match=r"tool: cannot specify both default and default_factory.*input_schema="):
        infer_signature(tool)


# -- answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation",
    [
        inspect.Signature.empty, None, str, bytes, Annotated[str, "words"], ToolResult, list[str | Image],
        list, tuple, list[Any], tuple[Any, ...],
        Optional[ToolResult], Awaitable[str], Iterator[int], AsyncIterator[int], Opaque, OldOptions, "Missing",
    ],
    ids=str,
)  # fmt: skip
def test_an_unspecific_or_unsupported_return_type_has_no_schema(annotation: Any) -> None:
    if annotation is OldOptions and sys.version_info >= (3, 12):
        pytest.skip("pydantic reads typing.TypedDict from Python 3.12 on")
    assert infer_signature(make_returning_function(annotation)).output_schema == {}


@pytest.mark.parametrize(
    ("annotation", "answer"),
    [
        (Unit, "kelvin"), (list[int], [1]), (Period, {"start": "2026-01-02", "days": 1}), (Options, {"deep": True}),
        (Iterable[int], [1]), (Coroutine[Any, Any, Awaitable[int]], 1), (Node, {"value": 1, "next": None}),
        (Literal["a"], "a"),
    ],
    ids=str,
)  # fmt: skip
def test_a_return_type_becomes_the_schema_of_its_json(annotation: Any, answer: Any) -> None:
    schema = infer_signature(make_returning_function(annotation)).output_schema
    assert schema
    assert is_valid(schema, answer)
    assert not is_valid(schema, ["something", "else"])
    assert "title" not in schema


def test_an_optional_answer_may_be_null() -> None:
    assert infer_signature(make_returning_function(Optional[int])).output_schema == {
        "anyOf": [{"type": "integer"}, {"type": "null"}]
    }


def test_the_schema_of_a_result_describes_its_serialized_form() -> None:
    assert infer_signature(make_returning_function(Place)).output_schema["required"] == ["name"]
    assert infer_signature(make_returning_function(Decimal)).output_schema["type"] == "string"
