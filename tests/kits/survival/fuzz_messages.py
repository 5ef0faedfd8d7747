"""Strategies for client messages: valid messages of every method, changed as data and as bytes.

`subscriptions/listen` is left out: over HTTP its response has no end, so a plain client cannot wait for it.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.client.raw_client import Json
from tests.kits.constants import ENVELOPE
from tests.kits.data_changes import change_at, list_paths

ID = "the id"
"""A placeholder that the test replaces by a unique id, wherever it is in the bytes of a message."""
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
NOTIFICATIONS: list[tuple[str, Json]] = [
    ("notifications/cancelled", {"requestId": "unknown", "reason": "no more"}),
    ("notifications/progress", {"progressToken": "unknown", "progress": 0.5}),
    ("notifications/roots/list_changed", {}),
]


def list_valid_messages(*, stateless: bool) -> list[Json]:
    """Return a valid message of every kind in an era."""
    meta = {"_meta": ENVELOPE} if stateless else {}
    requests = [{"jsonrpc": "2.0", "id": ID, "method": name, "params": {**params, **meta}} for name, params in CALLS]
    notifications = [{"jsonrpc": "2.0", "method": name, "params": {**params, **meta}} for name, params in NOTIFICATIONS]
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


@st.composite
def change_message(draw: st.DrawFn, *, stateless: bool) -> Any:
    """Generate a valid message with up to three changes."""
    data: Any = draw(st.sampled_from(list_valid_messages(stateless=stateless)))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(list_paths(data)))
        how = draw(st.sampled_from(["drop", "put", "put", "rename", "wrap", "swap", "add"]))
        data = change_at(data, path, how, draw(NAMES), draw(VALUES))
    return data


def encode_message(data: Any) -> bytes:
    """Return a message as JSON. Python also writes NaN, Infinity and lone surrogates, which JSON does not allow."""
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


def corrupt_bytes(data: bytes, steps: list[tuple[str, float, int, bytes]]) -> bytes:
    """Return bytes with some parts inserted, removed, copied or replaced, without line breaks."""
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


def generate_sequences(*, stateless: bool) -> st.SearchStrategy[list[bytes]]:
    """Generate the bytes of one to four messages."""
    sound = change_message(stateless=stateless).map(encode_message)
    return st.lists(sound | sound | st.builds(corrupt_bytes, sound, STEPS), min_size=1, max_size=4)
