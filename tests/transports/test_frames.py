"""Bytes to lines, lines to messages, messages to bytes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_bridge._protocol.peer.json_lines import dump_message, format_error, parse_message
from mcp_bridge._runtime.line_splitter import MAX_LINE, LineSplitter

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
STRANGE = st.recursive(
    JSON | st.binary() | st.just(object()) | st.just("\ud800") | st.sets(st.integers()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(), inner, max_size=3),
    max_leaves=8,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2.0, None]),
        "id": JSON,
        "method": st.text(max_size=5) | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON | st.fixed_dictionaries({"code": JSON, "message": JSON}),
    },
)
IDS = st.text() | st.integers(-(2**63), 2**64 - 1)
PARAMS = st.dictionaries(st.text(), st.text() | st.integers(-(2**63), 2**63 - 1)).filter(
    lambda params: len({name.lower() for name in params}) == len(params)
)


def split_frames(chunks: list[bytes], limit: int) -> list[bytes | None]:
    lines = LineSplitter(limit)
    return [line for chunk in chunks for line in lines.feed(chunk)] + list(lines.finish())


@given(
    text=st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\r\n", b" ", b"x" * 9]), max_size=30).map(b"".join),
    places=st.lists(st.integers(0, 100), max_size=12),
    limit=st.integers(1, 12),
)
@example(text=b"x" * 9, places=[4], limit=3)
@example(text=b"xxxx\nok", places=[3], limit=3)
def test_any_split_of_the_bytes_gives_the_same_lines(text: bytes, places: list[int], limit: int) -> None:
    edges = sorted({0, len(text), *(place for place in places if place < len(text))})
    chunks = [text[start:end] for start, end in pairwise(edges)]
    expected = [None if len(line) > limit else line for line in text.split(b"\n") if len(line) > limit or line.strip()]
    assert split_frames(chunks, limit) == split_frames([text], limit) == expected


def test_a_line_of_any_length_is_dropped_in_constant_memory() -> None:
    lines = LineSplitter(1000)
    for _ in range(100):
        assert list(lines.feed(b"x" * 900)) == []
        assert len(lines._partial_line) <= 1000
    assert list(lines.feed(b"\nnext\n")) == [None, b"next"]


@given(st.binary() | (JSON | NEARLY).map(lambda data: json.dumps(data).encode("utf-8", "surrogatepass")) | st.none())
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b"\xff\xfe")
@example(b"1" * 5000)
def test_parsing_never_raises_and_returns_protocol_errors(line: bytes | None) -> None:
    parsed = parse_message(line)
    if isinstance(parsed, bytes):
        answer = json.loads(parsed)
        assert answer["error"]["code"] in {-32700, -32600}
        assert "id" in answer


@given(IDS, STRANGE)
@example(1, {1: "a key that is no text"})
def test_dumping_never_raises_and_keeps_the_id_of_a_response(number: str | int, data: Any) -> None:
    reply = {"jsonrpc": "2.0", "id": number, "result": data}
    line = dump_message(reply)
    assert line.count(b"\n") == 1
    answer = json.loads(line)
    assert answer["id"] == number
    assert ("result" in answer) != (answer.get("error", {}).get("code") == -32603)


@given(STRANGE)
def test_a_request_that_cannot_be_written_is_dropped(data: Any) -> None:
    for message in (
        {"jsonrpc": "2.0", "method": "m", "params": {"data": data}},
        {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"data": data}},
    ):
        line = dump_message(message)
        assert line == b"" or json.loads(line)["method"] == "m"


def test_a_response_that_cannot_be_written_becomes_an_error_with_its_id() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    for member in ({"error": {"code": -1, "message": "m", "data": object()}}, {"result": circle}):
        answer = json.loads(dump_message({"jsonrpc": "2.0", "id": "7", **member}))
        assert (answer["id"], answer["error"]["code"]) == ("7", -32603)


@given(IDS, st.text(), PARAMS)
def test_a_message_is_read_as_it_was_written(number: str | int, method: str, params: dict[str, Any]) -> None:
    for message in (
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params},
        {"jsonrpc": "2.0", "method": method, "params": params},
        {"jsonrpc": "2.0", "id": number, "result": params},
    ):
        assert parse_message(dump_message(message).removesuffix(b"\n")) == message


class Pairs(list[tuple[str, Any]]):
    """The members of an object, with names that may occur twice."""

    def has_duplicates(self) -> bool:
        inner = [item for _, value in self for item in (value if type(value) is list else [value])]
        is_unique = len({name for name, _ in self}) == len(self)
        return not is_unique or any(item.has_duplicates() for item in inner if isinstance(item, Pairs))


PAIRS = st.recursive(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.sampled_from('a:{"\\ü😀\n')),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(st.text("ab:ü"), inner), max_size=3).map(Pairs),
    max_leaves=10,
)


@given(st.lists(st.tuples(st.sampled_from("abc"), PAIRS), max_size=3).map(Pairs), st.booleans(), st.booleans())
@example(Pairs([("a", Pairs([("b:", 1), ("b:", 2)]))]), True, True)
@example(Pairs([("a", 2**64), ("b", -(2**63) - 1)]), True, True)
def test_no_spaces_and_escapes_hide_names_or_digits(pairs: Pairs, has_spaces: bool, escapes_colons: bool) -> None:
    def write(value: Any) -> str:
        if isinstance(value, Pairs):
            return "{" + ("," + space).join(f"{write(name)}:{space}{write(item)}" for name, item in value) + "}"
        if isinstance(value, list):
            return "[" + ("," + space).join(map(write, value)) + "]"
        text = json.dumps(value)
        return text.replace(":", r"\u003a") if escapes_colons else text

    space = " " if has_spaces else ""
    params = write(pairs)
    parsed = parse_message(f'{{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {params}}}'.encode())
    if pairs.has_duplicates():
        assert isinstance(parsed, bytes)
        assert "occurs twice" in json.loads(parsed)["error"]["message"]
    else:
        assert isinstance(parsed, dict)
        assert repr(parsed["params"]) == repr(json.loads(params))


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"NaN", -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b"7", -32600, None),
        (b"null", -32600, None),
        (b"{}", -32600, None),
        (b'{"id":3,"method":"ping"}', -32600, 3),
        (b'{"jsonrpc":"1.0","id":"x","method":"ping"}', -32600, "x"),
        (b'{"jsonrpc":"2.0","id":4,"method":7}', -32600, 4),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":true,"method":7}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}', -32600, None),
        (None, -32600, None),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","method":"tools/list"}', -32600, 6),
        (b'{"jsonrpc":"2.0","id":6,"id":7,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","params":{"a":[{"b":1,"\\u0062":2}]}}', -32600, 6),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","Method":"tools/list"}', -32600, 6),
        (b'{"jsonrpc":"2.0","ID":6,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","params":{"name":"a","Name":"b"}}', -32600, 6),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","result":{}}', -32600, 6),
        (b'{"jsonrpc":"2.0","id":6,"result":7}', -32600, None),
    ],
)
def test_invalid_lines_get_an_error_response(line: bytes | None, code: int, number: Any) -> None:
    parsed = parse_message(line)
    assert isinstance(parsed, bytes)
    answer = json.loads(parsed)
    assert (answer["error"]["code"], answer["id"]) == (code, number)


def test_the_error_for_a_long_line_names_the_limit() -> None:
    parsed = parse_message(None)
    assert isinstance(parsed, bytes)
    assert str(MAX_LINE) in json.loads(parsed)["error"]["message"]


def test_an_error_is_one_line() -> None:
    assert format_error(1, -1, "two\nlines").count(b"\n") == 1
