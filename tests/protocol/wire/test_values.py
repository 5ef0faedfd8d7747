"""Any result of a handler becomes JSON, or a readable failure."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections import OrderedDict, UserDict, deque, namedtuple
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge import Text, ToolEntry, ToolResult
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolDefinition
from mcp_bridge._protocol.wire.tools import to_mcp, to_wire
from mcp_bridge._protocol.wire.values import MAX_DEPTH, Unreadable, to_plain, to_result, to_text
from tests.kits.constants import STATELESS
from tests.kits.fuzzing import use_examples
from tests.kits.wire.speaking import build_registry, make_constant_tool

Pair = namedtuple("Pair", "a b")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(str):
    """Text with something on top."""

    __slots__ = ()

    def __str__(self) -> str:
        return Word("misleading")


@dataclasses.dataclass
class Place:
    name: str
    found: datetime.date
    tags: set[str] = dataclasses.field(default_factory=set)


class Model(pydantic.BaseModel):
    inner_name: str = pydantic.Field(alias="innerName")
    when: datetime.datetime
    amount: decimal.Decimal


class Frozen(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


async def dispatch(entry: ToolEntry) -> ToolResult:
    """Call the tool `t`, and return the result."""
    return await build_registry(entry).dispatch(ToolCall(id="1", name="t", arguments={}), RunningCall())


DAY = datetime.date(2026, 1, 2)
VALUES: list[tuple[Any, Any]] = [
    (True, True),
    (0, 0),
    (2**64 - 1, 2**64 - 1),
    (2**64, 2**64),
    (-(2**63) - 1, -(2**63) - 1),
    (10**308, 10**308),
    (float("nan"), None),
    (float("-inf"), None),
    (-0.5, -0.5),
    ("a\ud800b\udfff", "a\ufffdb\ufffd"),
    ("naïve 🔧", "naïve 🔧"),
    (Word("w"), "w"),
    (Colour.RED, "red"),
    (Level.HIGH, 3),
    (DAY, "2026-01-02"),
    (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02T03:00:00+00:00"),
    (datetime.time(3, 4), "03:04:00"),
    (datetime.timedelta(seconds=61), "PT1M1S"),
    (decimal.Decimal("1.10"), "1.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("/a"), "/a"),
    (1 + 2j, "(1+2j)"),
    (b"ab", "YWI="),
    (memoryview(b"ab"), "YWI="),
    ({3}, [3]),
    (frozenset({3}), [3]),
    (range(2), [0, 1]),
    (deque([1]), [1]),
    ((1, (2,)), [1, [2]]),
    (Pair(1, 2), [1, 2]),
    ({"a": 1}.keys(), ["a"]),
    (OrderedDict(a=1), {"a": 1}),
    (UserDict(a=1), {"a": 1}),
    (Frozen(), {"a": 1}),
    ({1: "a", False: "b", None: "c", (1, 2): "d"}, {"1": "a", "false": "b", "null": "c", "[1,2]": "d"}),
    ({Colour.RED: 1, Word("w"): 2, "\ud800": 3}, {"red": 1, "w": 2, "\ufffd": 3}),
    (Place("x", DAY, {"t"}), {"name": "x", "found": "2026-01-02", "tags": ["t"]}),
    (
        Model(innerName="x", when=datetime.datetime(2026, 1, 2), amount=decimal.Decimal("1.5")),
        {"innerName": "x", "when": "2026-01-02T00:00:00", "amount": "1.5"},
    ),
    (Text("x", meta={"a": 1}), {"annotations": None, "meta": {"a": 1}, "text": "x"}),
    (ValueError("no"), "no"),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=lambda value: type(value).__name__)
def test_values_become_json_types(value: Any, expected: Any) -> None:
    assert to_plain(value) == expected
    assert to_plain({"a": [value]}) == {"a": [expected]}


def test_values_are_sent_as_text_and_as_structured_content() -> None:
    values = [(value, expected) for value, expected in VALUES if not isinstance(value, Text)]
    answer = {str(index): value for index, (value, _) in enumerate(values)}
    result = to_mcp(to_result(answer), to_wire(ToolDefinition("t", "", "m")), STATELESS)
    expected = {str(index): made for index, (_, made) in enumerate(values)}
    assert result["structuredContent"] == expected
    text, note = (block["text"] for block in result["content"])
    assert json.loads(text) == expected
    assert note == "NaN and infinities are null here, because JSON has no such numbers."


@pytest.mark.parametrize(
    ("answer", "schema"),
    [
        ({"id": uuid.UUID(int=1)}, {"type": "object", "properties": {"id": {"type": "string"}}}),
        ({"n": float("nan")}, {"type": "object", "properties": {"n": {"type": "null"}}}),
        ({"c": Colour.RED}, {"type": "object", "properties": {"c": {"const": "red"}}}),
        ({"when": DAY, "s": {1}}, {"type": "object", "properties": {"when": {"type": "string"}, "s": {"items": {}}}}),
        (Place("x", DAY), {"type": "object", "required": ["found"]}),
        ((1, 2), {"type": "array"}),
        (ToolResult(output={"when": DAY}), {"type": "object", "properties": {"when": {"type": "string"}}}),
    ],
    ids=str,
)
async def test_a_result_is_validated_after_its_conversion(answer: Any, schema: dict[str, Any]) -> None:
    result = await dispatch(make_constant_tool(answer, output_schema=schema))
    assert not result.is_error, result.error_text


def test_text_is_unchanged_and_other_values_are_compact_json() -> None:
    assert to_text("a \n b") == "a \n b"
    assert to_text({"a": [1, None]}) == '{"a":[1,null]}'


def test_a_plain_result_is_not_copied() -> None:
    answer = {"a": [1, "x"], "b": {"c": 2.5}}
    assert to_result(answer).output is answer
    result = ToolResult(output=answer)
    assert to_result(result) is result


# What cannot be JSON


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("planted secret")


class Endless(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(["deeper"])

    def __len__(self) -> int:
        return 1


class WrongModel:
    """A value that cannot be read, because its `model_dump` does not take the arguments of pydantic's method."""

    def model_dump(self) -> dict[str, Any]:
        return {}


def make_cycle() -> list[Any]:
    value: list[Any] = []
    value.append({"back": value})
    return value


def nest(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value


UNREADABLE: list[Any] = [
    {"more digits than Python writes": 10**5000},
    make_cycle(),
    nest(MAX_DEPTH + 1),
    nest(100_000),
    Endless(),
    {"a": Rude()},
    {Pair(1, Rude()): 1},
    [WrongModel()],
    Place(Rude(), DAY),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("answer", UNREADABLE, ids=lambda value: type(value).__name__)
def test_a_result_that_cannot_be_json_is_unreadable(answer: Any) -> None:
    with pytest.raises(Unreadable) as caught:
        to_result(answer)
    assert "planted secret" not in str(caught.value)


@pytest.mark.parametrize("answer", [make_cycle(), {"a": Rude()}], ids=["itself", "a secret"])
async def test_an_unreadable_result_is_an_error_after_the_tool_ran(answer: Any) -> None:
    result = await dispatch(make_constant_tool(answer))
    assert (result.is_error, result.code) == (True, "invalid_output")
    assert "The tool did run" in result.error_text
    assert "- $: " in result.error_text
    assert "planted secret" not in result.error_text


def test_a_result_of_the_maximum_depth_is_accepted() -> None:
    assert to_plain(nest(MAX_DEPTH)) == nest(MAX_DEPTH)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, 2**64, -(10**30)]),
    st.floats(),
    st.text(st.characters(exclude_categories=[]), max_size=5),
    st.binary(max_size=5),
    st.complex_numbers(),
    st.decimals(),
    st.fractions(),
    st.dates(),
    st.datetimes(timezones=st.timezones()),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from([Colour.RED, Level.HIGH, Rude(), object(), int, len, Endless(), make_cycle(), ..., nest(300)]),
)
KEYS = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(st.characters(exclude_categories=[])), st.dates(), st.binary()
)


@use_examples(50)
@given(
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.dictionaries(KEYS, inner, max_size=4),
            st.builds(Place, inner, inner, inner),
            st.builds(Text, inner),
        ),
        max_leaves=15,
    )
)
def test_any_value_is_json_or_a_value_error(value: Any) -> None:
    try:
        plain = to_plain(value)
    except ValueError:
        return
    json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    assert to_plain(plain) == plain
