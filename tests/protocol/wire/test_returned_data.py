"""Return values of tools become data or an error, and never only the `repr` of an object."""

from __future__ import annotations

import array
import datetime
import itertools
import json
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pandas as pd
import pydantic.v1
import pytest

from mcp_bridge.testing import connect
from tests.kits.wire.speaking import build_registry, call, make_constant_tool, make_entry

FRAME = pd.DataFrame({"a": [1, 2], "b": [1.5, None], "c": pd.to_datetime(["2026-01-02", None])})
ROWS = [{"a": 1, "b": 1.5, "c": "2026-01-02T00:00:00"}, {"a": 2, "b": None, "c": None}]
NOTE = "NaN and infinities are null here, because JSON has no such numbers."


@attrs.define
class Point:
    x: int
    label: Any = None


class OldModel(pydantic.v1.BaseModel):
    size: int
    took: datetime.timedelta


class Silent:
    pass


class Bare:
    def __repr__(self) -> str:
        return "Bare(secret)"


DATA: dict[str, tuple[Callable[[], Any], Any]] = {
    "an integer of numpy": (lambda: np.int64(3), 3),
    "a float of numpy": (lambda: np.float32(0.5), 0.5),
    "a long float of numpy": (lambda: np.longdouble(0.5), 0.5),
    "a boolean of numpy": (lambda: np.bool_(True), True),
    "an array": (lambda: np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    "an array of objects": (lambda: np.array([1, "a", None], dtype=object), [1, "a", None]),
    "an array inside": (lambda: {"a": [np.array(5)]}, {"a": [5]}),
    "a date of numpy": (lambda: np.datetime64("2026-01-02"), "2026-01-02"),
    "a time in nanoseconds": (lambda: np.datetime64("2026-01-02T03:04:05.123456789"), "2026-01-02T03:04:05.123456"),
    "times": (lambda: np.array(["2026-01-02", "NaT"], dtype="M8[ns]"), ["2026-01-02T00:00:00", None]),
    "a duration of numpy": (lambda: np.timedelta64(90, "s"), "PT1M30S"),
    "a frame": (lambda: FRAME, ROWS),
    "a frame with labels": (lambda: FRAME.set_index("a"), ROWS),
    "filtered rows": (lambda: FRAME[FRAME.a > 1], ROWS[1:]),
    "equal columns": (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), {"columns": ["a", "a"], "rows": [[1, 2]]}),
    "a series": (lambda: FRAME["b"], [1.5, None]),
    "a series with labels": (lambda: pd.Series([1, 2], index=["x", "y"]), {"x": 1, "y": 2}),
    "equal labels": (
        lambda: pd.Series([1, 2], index=["x", "x"], name="n"),
        [{"index": "x", "n": 1}, {"index": "x", "n": 2}],
    ),
    "an index": (lambda: pd.Index([1, 2]), [1, 2]),
    "an array of pandas": (lambda: pd.array([1, None], dtype="Int64"), [1, None]),
    "missing values": (lambda: [pd.NA, pd.NaT, 1], [None, None, 1]),
    "times of pandas": (lambda: [pd.Timestamp("2026-01-02"), pd.Timedelta("90s")], ["2026-01-02T00:00:00", "PT1M30S"]),
    "attrs": (lambda: Point(1, np.int8(2)), {"x": 1, "label": 2}),
    "a model of pydantic 1": (lambda: OldModel(size=1, took=5), {"size": 1, "took": "PT5S"}),
    "a namespace": (lambda: types.SimpleNamespace(a=types.SimpleNamespace(b=1)), {"a": {"b": 1}}),
    "map": (lambda: map(str, [1, 2]), ["1", "2"]),
    "zip": (lambda: zip([1], ["a"], strict=True), [[1, "a"]]),
    "filter": (lambda: filter(None, [0, 1]), [1]),
    "enumerate": (lambda: enumerate("a"), [[0, "a"]]),
    "an iterator inside": (lambda: {"a": iter([1])}, {"a": [1]}),
    "values of a dict": (lambda: {"a": 1}.values(), [1]),
    "an array of Python": (lambda: array.array("i", [1]), [1]),
    "a pattern": (lambda: re.compile("a+"), "a+"),
}
"""A return value of a tool, and the data for the client."""
NO_DATA: dict[str, Callable[[], Any]] = {
    "an object": Silent,
    "an object with a repr": Bare,
    "an object inside": lambda: {"a": [Silent()]},
    "an object beside content": lambda: [b"x", Silent()],
    "a class": lambda: Silent,
    "a function": lambda: len,
    "an ellipsis": lambda: ...,
}


@pytest.mark.parametrize("library", DATA)
async def test_data_of_libraries_is_sent_as_data(library: str) -> None:
    make, expected = DATA[library]
    schema = {"type": "object", "properties": {"data": {}}}
    async with connect(build_registry(make_entry(lambda _: {"data": make()}, output_schema=schema))) as client:
        result = await call(client)
    assert not result.get("isError"), result
    assert result["structuredContent"] == {"data": expected}


@pytest.mark.parametrize("library", ["map", "an array", "a frame", "values of a dict"])
async def test_data_without_a_schema_is_text_of_json(library: str) -> None:
    make, expected = DATA[library]
    async with connect(build_registry(make_entry(lambda _: make()))) as client:
        (block,) = (await call(client))["content"]
    assert json.loads(block["text"]) == expected


@pytest.mark.parametrize("library", NO_DATA)
async def test_an_object_without_data_is_an_error_with_advice(library: str) -> None:
    async with connect(build_registry(make_constant_tool(NO_DATA[library]()))) as client:
        result = await call(client)
    assert result["isError"]
    text = result["content"][0]["text"]
    assert "has no data that can be sent. Return text, numbers, lists, dicts, dataclasses or pydantic models" in text
    assert "secret" not in text


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf"), "b": None}, np.array([1, np.nan])], ids=repr)
async def test_a_lost_number_is_reported_with_the_data(value: Any) -> None:
    async with connect(build_registry(make_constant_tool(value))) as client:
        result = await call(client)
    data, note = result["content"]
    assert "null" in data["text"]
    assert note["text"] == NOTE


async def test_a_null_of_a_tool_is_not_reported() -> None:
    async with connect(build_registry(make_constant_tool({"a": None}))) as client:
        assert len((await call(client))["content"]) == 1


async def test_an_iterator_runs_in_a_thread_up_to_the_limit() -> None:
    async with connect(build_registry(make_entry(lambda _: itertools.count()))) as client:
        result = await call(client)
    assert "yields more than 1000000 items" in result["content"][0]["text"]


async def test_an_asynchronous_iterator_is_read() -> None:
    class Countdown:
        left = 2

        def __aiter__(self) -> Countdown:
            return self

        async def __anext__(self) -> int:
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return self.left

    async with connect(build_registry(make_constant_tool(Countdown()))) as client:
        assert (await call(client))["content"][0]["text"] == "[1,0]"


async def test_an_error_of_an_iterator_is_an_error_of_the_tool() -> None:
    def make() -> Iterator[int]:
        return map((1).__floordiv__, [0])

    async with connect(build_registry(make_entry(lambda _: make()))) as client:
        result = await call(client)
    assert result["isError"]
    assert "internal error" in result["content"][0]["text"]


def test_numpy_and_pandas_are_never_imported() -> None:
    code = (
        "import sys; from mcp_bridge._protocol.wire.values import to_result\n"
        "to_result(map(str, [1])); print(*sys.modules)"
    )
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pandas", "attrs", "mcp", "mcp_types"} & {*modules}
