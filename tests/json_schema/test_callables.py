"""The analysis of a callable: where its context goes, and its docstring."""
# ruff: noqa: F821, UP037, UP045 - names that cannot be resolved and old spellings are read too

from __future__ import annotations

import functools
import subprocess
import sys
import typing
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Optional

import annotated_types
import pytest
from pydantic import Field
from typing_extensions import Doc

from mcp_bridge._contracts.context import CallContext
from mcp_bridge._json_schema.callables import find_context_parameter, is_context
from mcp_bridge._json_schema.inference import infer_signature
from tests.kits.schema.typed_functions import Period, Place, Unit, make_function

if typing.TYPE_CHECKING:
    from nowhere import Missing

Renamed = CallContext

# -- the context ---------------------------------------------------------------------------------------------


class Called:
    """An object that is called."""

    def __call__(self, a: int, ctx: CallContext) -> int:
        return a

    def method(self, a: int, ctx: CallContext | None = None) -> list[int]:
        """A method."""
        return [a]

    @classmethod
    def made(cls, ctx: Optional[CallContext] = None) -> None: ...


def _plain(ctx: CallContext): ...
def _renamed(ctx: Renamed): ...
def _beside_the_unknown(a: Missing, ctx: CallContext, b: Missing): ...
def _dotted_unknown(ctx: missing.CallContext | None): ...
def _optional_unknown(ctx: missing.Optional[missing.CallContext]): ...
def _annotated_unknown(ctx: missing.Annotated[CallContext, missing.thing]): ...
def _quoted_unknown(ctx: missing.Union["None", "missing.CallContext"]): ...
def _inside_something_else(a: list[CallContext], b: Callable[[CallContext], int], c: missing[CallContext]): ...
def _not_an_expression(a: Missing): ...


_not_an_expression.__annotations__["a"] = "CallContext ("


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (_plain, "ctx"),
        (_renamed, "ctx"),
        (_beside_the_unknown, "ctx"),
        (_dotted_unknown, "ctx"),
        (_optional_unknown, "ctx"),
        (_annotated_unknown, "ctx"),
        (_quoted_unknown, "ctx"),
        (_inside_something_else, None),
        (_not_an_expression, None),
        (Called(), "ctx"),
        (Called().method, "ctx"),
        (Called.made, "ctx"),
        (functools.partial(_plain), "ctx"),
        (functools.partial(_plain, ctx=None), None),
        (functools.lru_cache(_plain), "ctx"),
        (functools.wraps(_plain)(lambda **_: None), "ctx"),
        (make_function(Annotated[CallContext, "the call"]), "it"),
        (make_function(typing.ForwardRef("CallContext")), "it"),
        (make_function(int), None),
        (iter, None),
        (5, None),
    ],
)
def test_the_context_parameter_of_any_callable_is_found_by_its_annotation(function: Any, name: str | None) -> None:
    assert find_context_parameter(function) == name


def test_a_forward_reference_to_the_context_means_it() -> None:
    assert is_context(typing.ForwardRef("CallContext"))
    assert not is_context(typing.ForwardRef("Context"))
    assert not is_context("CallContext\0")


def test_looking_for_the_context_imports_neither_pydantic_nor_the_docstring_parser() -> None:
    code = (
        "import sys\n"
        "from mcp_bridge._json_schema.callables import find_context_parameter\n"
        "def f(a: int, ctx: 'CallContext'): ...\n"
        "assert find_context_parameter(f) == 'ctx'\n"
        "print(sorted({'pydantic', 'docstring_parser', 'typing_extensions'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


# -- callables -----------------------------------------------------------------------------------------------


def test_a_bound_method_and_an_object_lose_self_and_keep_their_words() -> None:
    assert infer_signature(Called().method).input_schema["required"] == ["a"]
    assert infer_signature(Called().method).description == "A method."
    assert infer_signature(Called()).description == "An object that is called."
    assert infer_signature(Called()).output_schema == {"type": "integer"}


def test_a_class_is_a_tool_by_its_constructor() -> None:
    signature = infer_signature(Period)
    assert signature.call(**signature.bind({"start": "2026-01-02"})) == Period(date(2026, 1, 2))


def test_partials_and_wrappers_are_read_as_the_function_inside() -> None:
    @functools.lru_cache
    def tool(a: int, b: Unit) -> Place:
        """Cached."""

    signature = infer_signature(functools.partial(tool, 1))
    assert list(signature.input_schema["properties"]) == ["b"]
    assert (signature.description, signature.bind({"b": "kelvin"})) == ("Cached.", {"b": Unit.KELVIN})


def test_a_function_without_words_has_no_description() -> None:
    assert infer_signature(lambda: None).description == ""
    assert infer_signature(functools.partial(lambda: None)).description == ""


# -- words ---------------------------------------------------------------------------------------------------

GOOGLE = """Find a place.

    Looks in all countries.

    Args:
        name (str): What to look for.
            As people write it.
        **others: More.

    Returns:
        Nothing.
    """
NUMPY = """Find a place.

    Looks in all countries.

    Parameters
    ----------
    name, alias : str
        What to look for.
        As people write it.

    Raises
    ------
    ValueError
        Never.
    """
REST = """Find a place.

    Looks in all countries.

    :param name: What to look for.
        As people write it.
    :returns: Nothing.
    """


@pytest.mark.parametrize("words", [GOOGLE, NUMPY, REST])
def test_description_and_parameters_come_from_the_docstring(words: str) -> None:
    def tool(name: str): ...

    tool.__doc__ = words
    signature = infer_signature(tool)
    assert signature.description == "Find a place.\n\nLooks in all countries."
    assert signature.input_schema["properties"]["name"]["description"] == "What to look for.\nAs people write it."


@pytest.mark.parametrize("metadata", [Field(description="mine"), "mine", Doc("mine")])
def test_a_description_in_the_annotation_wins_over_the_docstring(metadata: Any) -> None:
    function = make_function(Annotated[int, metadata])
    function.__doc__ = "Do.\n\nArgs:\n    it: theirs\n"
    assert infer_signature(function).input_schema["properties"]["it"]["description"] == "mine"


def test_the_last_description_counts_as_in_pydantic() -> None:
    function = make_function(Annotated[Annotated[int, Field(description="first")], "last"])
    assert infer_signature(function).input_schema["properties"]["it"]["description"] == "last"


def test_a_starred_parameter_has_its_words_too() -> None:
    def tool(*names: str):
        """Do.

        Args:
            *names: Whom to ask.
        """

    assert infer_signature(tool).input_schema["properties"]["names"]["description"] == "Whom to ask."


def test_an_inherited_method_keeps_its_words() -> None:
    class Other(Called):
        def method(self, a: int, ctx: CallContext | None = None) -> list[int]:
            return []

    assert infer_signature(Other().method).description == "A method."


def test_metadata_without_words_leaves_the_docstring_s() -> None:
    function = make_function(Annotated[int, annotated_types.Ge(0), Field(le=5)])
    function.__doc__ = "Do.\n\nArgs:\n    it: theirs\n"
    assert infer_signature(function).input_schema["properties"]["it"]["description"] == "theirs"
