"""Messages for fuzzing: right requests of every method, then changed as data and as bytes.

`subscriptions/listen` is not among them: over HTTP its answer has no end, so a plain client cannot wait for it.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.client.raw_client import Json
from tests.kits.constants import ENVELOPE

ID = "the id"
"""A placeholder for an id that no other message has, wherever it is in a message's bytes."""
CALLS: list[tuple[str, Json]] = [
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "echo", "arguments": {"text": "hi"}}),
    ("tools/call", {"name": "shape", "arguments": {"points": [{"x": 1.5, "y": 2}], "name": "é😀", "closed": True}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "fuzz://text"}),
    ("resources/read", {"uri": "fuzz://notes/ann"}),
    ("resources/subscribe", {"uri": "fuzz://text"}),
    ("resources/unsubscribe", {"uri": "fuzz://text"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "greeting", "arguments": {"who": "Ada"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "fuzz://notes/{name}"}, "argument": {"name": "name", "value": "a"}},
    ),
    ("logging/setLevel", {"level": "error"}),
    ("server/discover", {}),
]
NOTIFIED: list[tuple[str, Json]] = [
    ("notifications/cancelled", {"requestId": "nobody's", "reason": "no more"}),
    ("notifications/progress", {"progressToken": "nobody's", "progress": 0.5}),
    ("notifications/roots/list_changed", {}),
]


def messages(*, stateless: bool) -> list[Json]:
    """Return a valid message of every kind in an era."""
    meta = {"_meta": ENVELOPE} if stateless else {}
    requests = [{"jsonrpc": "2.0", "id": ID, "method": name, "params": {**params, **meta}} for name, params in CALLS]
    notifications = [{"jsonrpc": "2.0", "method": name, "params": {**params, **meta}} for name, params in NOTIFIED]
    answered: list[Json] = [
        {"jsonrpc": "2.0", "id": ID, "result": {}},
        {"jsonrpc": "2.0", "id": ID, "error": {"code": -1, "message": "no"}},
    ]
    return [*requests, *notifications, *answered]


MEMBERS = ["id", "ID", "jsonrpc", "method", "params", "_meta", "name", "arguments", "uri", "cursor", "result", "error"]
OTHERS = ["text", "inputResponses", "requestState", "progressToken", "io.modelcontextprotocol/protocolVersion", "$ref"]
NAMES = st.sampled_from([*MEMBERS, *OTHERS, "", "\ud800", "\x00", "__proto__", "a" * 300, "é"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**53, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400, 1e308, -0.0, 0.1, 1e-320]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["", "\ud800", "\udfff\ud800", "\x00", "\u2028", "\ufeff", "2.0", "echo", "file:///etc/passwd", "x" * 70_000]
    ),
    st.sampled_from(
        [name for name, _ in CALLS] + ["initialize", "notifications/initialized", "tools/unknown", "rpc.x"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def places(data: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in some data, the whole first."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [place, *(inner_place for step, item in inner for inner_place in places(item, (*place, step)))]


def changed(data: Any, place: tuple[Any, ...], how: str, name: str, value: Any) -> Any:
    """The data with one place dropped, replaced, renamed, wrapped, or given one more member."""
    if len(place) > 1:
        if isinstance(data, list):
            return [changed(x, place[1:], how, name, value) if n == place[0] else x for n, x in enumerate(data)]
        return {key: changed(x, place[1:], how, name, value) if key == place[0] else x for key, x in data.items()}
    if not place:
        return value if how == "put" else [data] if how == "wrap" else data
    if isinstance(data, list):
        items = [item for index, item in enumerate(data) if index != place[0]]
        return items if how == "drop" else [*items, value]
    old = data[place[0]]
    items = {key: item for key, item in data.items() if key != place[0]}
    match how:
        case "drop":
            return items
        case "put":
            return {**data, place[0]: value}
        case "rename":
            return {**items, name: old}
        case "wrap":
            return {**data, place[0]: [old] if name else {name: old}}
        case "swap" if items:
            other = next(iter(items))
            return {**data, place[0]: data[other], other: old}
    return {**data, name: value}


@st.composite
def reshaped(draw: st.DrawFn, *, stateless: bool) -> Any:
    """A right message, a little wrong; sometimes not at all."""
    data: Any = draw(st.sampled_from(messages(stateless=stateless)))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(places(data)))
        how = draw(st.sampled_from(["drop", "put", "put", "rename", "wrap", "swap", "add"]))
        data = changed(data, place, how, draw(NAMES), draw(VALUES))
    return data


def written(data: Any) -> bytes:
    """As JSON, where Python's has NaN and Infinity, and escapes of surrogates."""
    return json.dumps(data).encode()


PIECES = st.one_of(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"null", b"NaN", b"-Infinity", b"1e999", b"-", b"\r", b"\t"]
    ),
    st.sampled_from(
        [b"\\ud800", b"\\u0000", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x00", b"\xc0\x80", b"//", b"01", b"tru"]
    ),
    st.sampled_from(
        [b"[" * 5000, b'{"a":' * 3000, b"9" * 5000, b'"id":7,', b'"method":"ping",', b"[" * 300 + b"]" * 300]
    ),
    st.binary(max_size=3),
)
STEPS = st.lists(
    st.tuples(st.sampled_from("idcx"), st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=4
)


def scratched(data: bytes, steps: list[tuple[str, float, int, bytes]]) -> bytes:
    """Bytes with pieces inserted, dropped, copied and exchanged, in one line."""
    for how, where, size, piece in steps:
        at = int(where * len(data))
        match how:
            case "i":
                data = data[:at] + piece + data[at:]
            case "d":
                data = data[:at] + data[at + size :]
            case "c":
                data = data[: at + size] + data[at:]
            case _:
                data = data[:at] + piece + data[at + size :]
    return data.replace(b"\n", b" ")


def sequences(*, stateless: bool) -> st.SearchStrategy[list[bytes]]:
    """The bytes of some messages, one after the other."""
    sound = reshaped(stateless=stateless).map(written)
    return st.lists(sound | sound | st.builds(scratched, sound, STEPS), min_size=1, max_size=4)
