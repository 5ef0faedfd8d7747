"""Integers of any size are written and read exactly."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._runtime.exact_json import LARGEST_INTEGER, dump_json, load_json

INTEGERS = st.integers(-(2**66), 2**66) | st.sampled_from([LARGEST_INTEGER, -LARGEST_INTEGER, 10**18, 10**19])
VALUES = st.recursive(
    INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text('0123456789,[]{}:" -', max_size=50),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("0123456789:", max_size=30), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_values_are_read_as_they_were_written(value: Any) -> None:
    text = dump_json(value)
    assert json.loads(text) == value
    assert load_json(text) == value
    assert load_json(json.dumps(value, indent=1)) == value


@dataclass(slots=True)
class Sizes:
    sizes: list[int]
    _hidden: int = 0


@pytest.mark.parametrize("container", [Sizes([2**64]), OrderedDict(sizes=[2**64]), defaultdict(list, sizes=[2**64])])
def test_large_integers_are_written_in_every_container_that_orjson_writes(container: Any) -> None:
    assert json.loads(dump_json({"outer": container})) == {"outer": {"sizes": [2**64]}}


def test_an_integer_beyond_the_range_of_parsers_is_not_written() -> None:
    with pytest.raises(TypeError):
        dump_json([LARGEST_INTEGER * 10])


def test_a_value_that_contains_itself_is_rejected() -> None:
    value: list[Any] = [2**64]
    value += [value, value]
    with pytest.raises(TypeError):
        dump_json(value)
