"""Schemas of plain types are generated without pydantic, and equal pydantic's schemas."""

# ruff: noqa: UP007, UP045, RUF036 - unions in every notation and order
from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, Union

import pytest

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._json_schema.generation import generate_output_schema
from mcp_bridge._json_schema.inference import infer_signature
from mcp_bridge._json_schema.plain_types import describe_result, describe_type

PLAIN = (
    str, int, float, bool, None, Any, Literal["a"], Literal["a", "b"], list[str], list[Any], list[list[int]],
    dict[str, int], dict[str, Any], dict[str, list[float]], str | None, None | int, int | str,
    Optional[list[str]], Union[None, bool, list[int | None]], list[str | None] | dict[str, None | str | float] | None,
)  # fmt: skip
OTHER = (
    bytes, object, list, dict, tuple, set[str], tuple[int, ...], dict[int, str], Literal[1], Literal["a", 1],
    Annotated[str, "text"], int | Any, type, Callable, list[Any] | set[int], Literal["a", None],
)  # fmt: skip
DEFAULTS = (..., None, "x", 1, 1.5, True, math.inf)


def infer(annotation: Any, default: Any = ...) -> str:
    """Return the description and the schema of a function with parameters of a type, one of them described, as JSON."""

    def function(first, *, second=default):  # type: ignore[no-untyped-def]
        """Do it.

        Args:
            first: Its description.
        """

    function.__annotations__ = {"first": annotation, "second": annotation}
    function.__kwdefaults__ = {} if default is ... else {"second": default}
    signature = infer_signature(function)
    return json.dumps([signature.description, signature.input_schema])


@pytest.mark.parametrize("annotation", PLAIN, ids=str)
@pytest.mark.parametrize("default", DEFAULTS, ids=str)
def test_a_plain_type_has_the_schema_that_pydantic_generates(annotation: Any, default: Any) -> None:
    assert infer(annotation, default) == infer(Annotated[annotation, 0], default)


@pytest.mark.parametrize("annotation", PLAIN, ids=str)
def test_results_of_a_plain_type_have_the_schema_that_pydantic_generates(annotation: Any) -> None:
    assert json.dumps(describe_result(annotation)) == json.dumps(generate_output_schema(annotation))


@pytest.mark.parametrize("annotation", OTHER, ids=str)
def test_other_types_are_left_to_pydantic(annotation: Any) -> None:
    assert describe_type(annotation) is None


def test_the_arguments_of_plain_types_are_still_bound_strictly() -> None:
    def function(names: list[str], count: int = 1) -> None: ...

    signature = infer_signature(function)
    assert signature.bind({"names": ["a"], "count": 2.0}) == {"names": ["a"], "count": 2}
    with pytest.raises(InvalidArguments) as caught:
        signature.bind({"names": [1]})
    assert caught.value.details == ("$.names[0]: Input should be a valid string",)
