"""Lines of JSON between processes: limits, invalid lines and half lines."""

from __future__ import annotations

import os

import pytest

from mcp_bridge._json_schema.size_limits import MAX_VALUES
from mcp_bridge._protocol.line_channel import BlockingLineChannel, InvalidLine, JsonLines, OversizedLine


def receive_all(data: bytes, max_line: int = 1_000) -> list[object]:
    source, sink = os.pipe()
    try:
        os.write(sink, data)
    finally:
        os.close(sink)
    channel, values = BlockingLineChannel(source, sink, max_line), list[object]()
    try:
        while (value := channel.receive()) is not None:
            values.append(value)
    finally:
        os.close(source)
    return values


def test_values_arrive_in_order_and_half_a_line_at_the_end_is_dropped() -> None:
    assert receive_all(b'{"a": 1}\n\n[2]\n{"half": ') == [{"a": 1}, [2]]


@pytest.mark.parametrize("line", [b"no JSON", b'"\xff"', b"x" * 2_000], ids=["text", "not UTF-8", "too long"])
def test_a_line_that_cannot_be_read_is_an_error(line: bytes) -> None:
    with pytest.raises(InvalidLine):
        receive_all(line + b"\n")


def test_a_line_with_too_many_values_is_replaced_unless_its_beginning_allows_them() -> None:
    line = b'{"say":"offer","values":[' + b"1," * MAX_VALUES + b"1]}\n"
    ((value, length),) = JsonLines(1 << 30).feed(line)
    assert isinstance(value, OversizedLine)
    assert length == 0
    ((value, length),) = JsonLines(1 << 30, unbounded=b'{"say":"offer"').feed(line)
    assert length == len(line) - 1
    assert value["say"] == "offer"


def test_sending_to_a_closed_reader_does_nothing() -> None:
    source, sink = os.pipe()
    os.close(source)
    BlockingLineChannel(source, sink).send({"a": 1})
    os.close(sink)
