"""Malformed messages: each is wrong in one way, with the response the specifications require.

Sources: JSON-RPC 2.0 (sections 4 and 5), RFC 8259 for JSON, and MCP of both eras (basic, transports).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.client.server_process import Way
from tests.kits.survival.malformed_params import calls, eras, meta, others, shapes
from tests.kits.survival.malformed_rows import (
    BAD_HEADER,
    FAILED,
    LONG,
    NO_METHOD,
    NO_REQUEST,
    NOT_JSON,
    RESULT,
    SILENCE,
    Era,
    Row,
    row,
)


def _no_json(era: Era) -> Iterator[Row]:
    """Invalid JSON or UTF-8, and JSON that is too deep or too large for the parsers.

    Lone surrogates and a byte order mark are repaired. The error has the id of the message if it is readable.
    """
    halves = ("a lone high surrogate", "a lone low surrogate", "surrogates in the wrong order")
    repaired = {f"argument {name}": (RESULT, name) for name in halves} | {
        "a BOM": (RESULT, "good"), "a surrogate as id": (RESULT, "\ufffd"),
        "a surrogate in the method": (NO_METHOD, "good"),
    }  # fmt: skip
    readable = {
        "argument NaN", "argument Infinity", "argument minus Infinity", "argument 1e999", "argument a raw tab",
        "argument a raw NUL", "a lone continuation", "an overlong slash", "an overlong NUL", "a raw surrogate",
        "beyond Unicode",
    }  # fmt: skip
    ids = dict.fromkeys(readable, "value") | {"Latin-1": "good"}

    def make_row(name: str, data: bytes) -> Row:
        return Row(name, data, *repaired.get(name, (NOT_JSON, ids.get(name))))

    good = era.text()
    argument = json.dumps(era.call("value", {"text": "HERE"}))
    values = {
        "NaN": "NaN", "Infinity": "Infinity", "minus Infinity": "-Infinity", "1e999": "1e999", "a leading zero": "01",
        "a leading plus": "+1", "no digit after the point": "1.", "no digit before the point": ".5", "hex": "0x10",
        "5000 digits": "9" * 5000, "True": "True", "undefined": "undefined", "a bad escape": r'"\x41"',
        "a short escape": r'"\u12"', "a lone high surrogate": r'"\ud800"', "a lone low surrogate": r'"\udc00"',
        "surrogates in the wrong order": r'"\udc00\ud800"', "a raw tab": '"\t"', "a raw NUL": '"\0"',
        "arrays 5000 deep": "[" * 5000 + "]" * 5000, "objects 5000 deep": '{"a":' * 5000 + "1" + "}" * 5000,
        "arrays a million deep": "[" * 1_000_000 + "]" * 1_000_000,
    }  # fmt: skip
    for name, value in values.items():
        # Calls that are repaired run at the same time, so each has an id of its own.
        text = argument.replace('"HERE"', value)
        yield make_row(f"argument {name}", (text.replace('"value"', f'"{name}"') if name in halves else text).encode())
    texts = {
        "words": "hello", "truncated": good[:-1], "truncated in a string": good[:12],
        "a trailing comma": good[:-1] + ",}",
        "single quotes": good.replace('"', "'"), "a comment": good + " // hello", "keys without quotes": "{id: 1}",
        "two messages on a line": good + good, "two messages and a blank": f"{good} {good}",
        "garbage after": good + "x",
        "a BOM": "\ufeff" + good, "a NUL before": "\0" + good, "a NUL after": good + "\0", "a NUL alone": "\0",
        "a vertical tab before": "\v" + good, "a hard blank before": "\xa0" + good, "an SSE event": f"data: {good}",
        "headers of LSP": f"Content-Length: {len(good)}",
        "a surrogate as id": era.text("HERE").replace("HERE", r"\ud800"),
        "a surrogate in the method": good.replace("tools/list", r"tools/\udfff"),
        "brackets that never close": "[" * 100_000, "objects that never close": '{"a":' * 100_000,
        "the envelope 5000 deep": '{"jsonrpc":' * 5000 + "1" + "}" * 5000, "id arrays 5000 deep":
        good.replace('"good"', "[" * 5000 + "]" * 5000),
    }  # fmt: skip
    for name, text in texts.items():
        yield make_row(name, text.encode())
    broken = {
        "UTF-16": good.encode("utf-16"), "UTF-16 without a BOM": good.encode("utf-16-be"),
        "UTF-32": good.encode("utf-32-le"), "Latin-1": good.replace("tools", "t\xf6ls").encode("latin-1"),
        "a byte of no text": b"\xff", "a lone continuation": argument.encode().replace(b"HERE", b"\x80"),
        "an overlong slash": argument.encode().replace(b"HERE", b"\xc0\xaf"),
        "an overlong NUL": argument.encode().replace(b"HERE", b"\xc0\x80"),
        "a raw surrogate": argument.encode().replace(b"HERE", b"\xed\xa0\x80"),
        "beyond Unicode": argument.encode().replace(b"HERE", b"\xf4\x90\x80\x80"), "gzip": b"\x1f\x8b\x08\x00\x00",
        "a cut character": argument.encode().replace(b'HERE"', b"\xe2\x82"), "a TLS hello": b"\x16\x03\x01\x02\x00\x01",
    }  # fmt: skip
    for name, data in broken.items():
        yield make_row(name, data)


def _no_object(era: Era) -> Iterator[Row]:
    """JSON without an object at the top: MCP has no batches any more."""
    values = {
        "an empty object": {}, "an empty array": [], "an array in an array": [[]], "a batch of one": [era.good()],
        "a batch of two": [era.good("a"), era.good("b")], "a batch of notifications": [{"jsonrpc": "2.0",
        "method": "x"}],
        "a batch of numbers": [1, 2, 3], "a number": 7, "a text": "tools/list", "null": None, "true": True,
        "a float": 1.5,
        "an array of 100000": [0] * 100_000,
    }  # fmt: skip
    for name, value in values.items():
        yield row(name, value, NO_REQUEST)


def _twice(era: Era) -> Iterator[Row]:
    """Duplicate names, and names that differ only in case."""
    good, call = era.text("twice {}"), json.dumps(era.call("twice {}", {"text": "hello"}))
    for part, text, old, new in [
        ("id", good, '"id":', '"id": "first", "id":'),
        ("jsonrpc", good, '"jsonrpc":', '"jsonrpc": "1.0", "jsonrpc":'),
        ("method", good, '"method":', '"method": "ping", "method":'),
        ("params", good, '"params":', '"params": {}, "params":'),
        ("name", call, '"name": "echo"', '"name": "release", "name": "echo"'),
        ("arguments", call, '"arguments":', '"arguments": {}, "arguments":'),
        ("meta", call, '"_meta":', '"_meta": {}, "_meta":'),
        ("an argument", call, '"text":', '"text": "other", "text":'),
        ("an escaped name", call, '"name": "echo"', '"n\\u0061me": "release", "name": "echo"'),
        ("a value that is equal", call, '"text":', '"text": "hello", "text":'),
    ]:
        number = None if part == "id" else f"twice {part}"
        yield Row(f"{part} twice", text.replace(old, new).replace('{}"', f'{part}"').encode(), NO_REQUEST, number)
    for member in ("id", "method", "params", "jsonrpc"):
        message = era.good(f"variant {member}")
        with_both = {**message, member.upper(): message[member]}
        yield row(f"{member} in both cases", with_both, NO_REQUEST, f"variant {member}")
        alone = {name.title() if name == member else name: value for name, value in message.items()}
        number = f"variant {member}" if member not in ("id", "method") else None
        number = "variant method" if member == "method" else number
        yield row(f"{member} in the wrong case", alone, NO_REQUEST, number)
    smuggled = era.request("Name", "tools/call", name="echo", Name="release", arguments={"text": "hello"})
    yield row("name in both cases", smuggled, NO_REQUEST, "Name")
    yield row("arguments that differ by case", era.call("cased", {"text": "a", "Text": "b"}), FAILED, "cased")


def _envelopes(era: Era) -> Iterator[Row]:
    """A wrong version of JSON-RPC, and members that exclude each other."""
    for name, value in [
        ("1.0", "1.0"),
        ("a float", 2.0),
        ("2", "2"),
        ("null", None),
        ("an array", ["2.0"]),
        ("blank", "2.0 "),
    ]:
        yield row(f"jsonrpc {name}", {**era.good(f"v {name}"), "jsonrpc": value}, NO_REQUEST, f"v {name}")
    missing = {name: value for name, value in era.good("v").items() if name != "jsonrpc"}
    yield row("jsonrpc missing", missing, NO_REQUEST, "v")
    yield row("a request and a result", {**era.good("both"), "result": {}}, NO_REQUEST, "both")
    yield row("a request and an error", {**era.good("err"), "error": {"code": 1, "message": ""}}, NO_REQUEST, "err")
    yield row("an unknown member", {**era.good("more"), "trace": [1], "__proto__": {}}, RESULT, "more")
    spread = json.dumps(era.good("blanks"), separators=(" \t\r , ", "\r\t :  "))
    yield Row("blanks everywhere", f"\t {spread} \r".encode(), RESULT, "blanks")
    yield Row("a flood of blanks", b" " * 1_000_000 + era.text("flood").encode() + b" " * 1_000_000, RESULT, "flood")
    yield Row("everything escaped", era.text("\u00fc").encode(), RESULT, "\u00fc")


def _ids(era: Era) -> Iterator[Row]:
    """MCP: an id is a text or an integer, never null. The response to an unreadable id has null (JSON-RPC, 5)."""
    wrong = {
        "null": None, "true": True, "false": False, "a float": 1.5, "an object": {"a": 1}, "an array": [1],
        "an empty array": [], "beyond 64 bits": 2**64, "of 30 digits": 10**30, "far below zero": -(2**63) - 1,
    }  # fmt: skip
    for name, value in wrong.items():
        yield row(f"id {name}", era.good(value), NO_REQUEST)
    fine = {"negative": -1, "zero": 0, "empty": "", "beyond doubles": 2**53 + 1, "the largest": 2**63 - 1,
            "a text of digits": "12345678", "with a NUL": "a\0b", "with an emoji": "\U0001f600",
            "of a megabyte": LONG}  # fmt: skip
    for name, value in fine.items():
        yield row(f"id {name}", era.good(value), RESULT, value)


def _methods(era: Era) -> Iterator[Row]:
    """JSON-RPC: the method is a text; MCP: parameters are an object."""
    for name, value in [
        ("a number", 7),
        ("null", None),
        ("true", True),
        ("an array", ["tools/list"]),
        ("an object", {}),
    ]:
        yield row(f"method {name}", {**era.good(f"m {name}"), "method": value}, NO_REQUEST, f"m {name}")
    yield row("method missing", {"jsonrpc": "2.0", "id": "m"}, NO_REQUEST, "m")
    unknown = {
        "empty": "", "unknown": "tools/make", "with a NUL": "tools/list\0", "of a prototype": "__proto__",
        "a constructor": "constructor", "of the system": "rpc.discover", "in other case": "Tools/List",
        "with a blank": " tools/list", "of the server": "sampling/createMessage", "with a path": "../tools/list",
        "of a megabyte": LONG, "a notification": "notifications/initialized", "in Cyrillic": "t\u043e\u043els/list",
    }  # fmt: skip
    for name, value in unknown.items():
        yield row(f"method {name}", era.request(f"m {name}", value), NO_METHOD, f"m {name}")
    for name, params in [
        ("an array", []),
        ("positions", ["echo"]),
        ("a text", "echo"),
        ("a number", 7),
        ("true", True),
    ]:
        yield row(f"params {name}", {**era.good(f"p {name}"), "params": params}, NO_REQUEST, f"p {name}")


def _responses(era: Era) -> Iterator[Row]:
    """Unexpected responses. The server ignores valid ones. It must not reject others under their id."""
    for name, number in [("a text", "r-1"), ("a number", 4711), ("a neighbour's", 1), ("negative", -5)]:
        yield row(f"a result for {name}", {"jsonrpc": "2.0", "id": number, "result": {}}, SILENCE)
    wrong = {"code": -32000, "message": "no"}
    yield row("an error for no request", {"jsonrpc": "2.0", "id": 4712, "error": wrong}, SILENCE)
    yield row("an error without an id", {"jsonrpc": "2.0", "id": None, "error": wrong}, SILENCE)
    yield row("an error with large data", {"jsonrpc": "2.0", "id": 9, "error": {**wrong, "data": LONG}}, SILENCE)
    broken: dict[str, dict[str, Any]] = {
        "a result that is a text": {"id": 4713, "result": "done"}, "a result that is null": {"id": 4714,
        "result": None},
        "a result without an id": {"result": {}}, "a result of no version": {"id": 4715, "result": {},
        "jsonrpc": "1.0"},
        "a result with an odd id": {"id": [1], "result": {}}, "an error that is a text": {"id": 4716, "error": "no"},
        "an error without a code": {"id": 4717, "error": {"message": "no"}},
        "an error with a text as code": {"id": 4718, "error": {"code": "no", "message": "no"}},
    }  # fmt: skip
    for name, members in broken.items():
        yield row(name, {"jsonrpc": "2.0", **members}, NO_REQUEST)


def _notifications(_: Era) -> Iterator[Row]:
    """JSON-RPC, 4.1: a notification is never answered, not with an error either."""
    plain: dict[str, dict[str, Any]] = {
        "a request without an id": {"method": "tools/list"}, "a ping without an id": {"method": "ping"},
        "a call without an id": {"method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}},
        "initialize without an id": {"method": "initialize", "params": {}},
        "an unknown notification": {"method": "notifications/unknown"}, "an empty method": {"method": ""},
        "a notification of the server": {"method": "notifications/tools/list_changed"},
        "initialized again": {"method": "notifications/initialized"},
        "changed roots": {"method": "notifications/roots/list_changed", "params": {"_meta": 7}},
        "progress of nothing": {"method": "notifications/progress", "params": {"progressToken": 99, "progress": 1}},
        "progress of an odd token": {"method": "notifications/progress", "params": {"progressToken": [],
        "progress": {}}},
        "progress without params": {"method": "notifications/progress"},
        "a cancellation without params": {"method": "notifications/cancelled"},
        "a cancellation without an id": {"method": "notifications/cancelled", "params": {}},
        "a method of a megabyte": {"method": LONG}, "a notification with params null": {"method": "x", "params": None},
    }  # fmt: skip
    for name, members in plain.items():
        yield row(name, {"jsonrpc": "2.0", **members}, SILENCE)
    for odd in ("unknown", 99, -1, 0, 1.5, None, True, [], {}, "", 2**53, LONG):
        params = {"requestId": odd, "reason": "why not"}
        name = f"a cancellation of {str(odd)[:20] or 'nothing'} {type(odd).__name__}"
        yield row(name, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}, SILENCE)
    for name, params in [("an array", []), ("a text", "x"), ("a number", 1)]:
        yield row(f"a notification with {name}", {"jsonrpc": "2.0", "method": "x", "params": params}, NO_REQUEST)


def _over_http(row: Row, way: Way) -> Row:
    """Return a row with the response expected over HTTP, where the transport may reject a message first.

    In 2026-07-28 headers repeat the method and the name, so a value that a header cannot contain does not match.
    Clients of this version send no responses, so the server rejects these.
    """
    if not way.stateless:
        return row
    if row.name in UNREPEATED:
        return replace(row, expected=BAD_HEADER)
    if row.name == "initialize of the other era":
        return replace(row, expected=NO_METHOD)
    return replace(row, expected=NO_REQUEST) if row.expected == SILENCE and b'"method"' not in row.data else row


UNREPEATED = frozenset(
    {"method with a NUL", "method with a blank", "method of a megabyte", "method in Cyrillic", "tool name a number",
     "tool name an array", "tool name an object", "tool name true", "tool name of a megabyte", "prompts/get 1",
     "resources/read 1", "version unknown", "version empty", "version of the handshake", "version a number",
     "version null", "version an array"}
)  # fmt: skip


GROUPS: dict[str, Callable[[Era], Iterator[Row]]] = {
    "no JSON": _no_json, "no object": _no_object, "twice": _twice, "envelopes": _envelopes, "ids": _ids,
    "methods": _methods, "responses": _responses, "notifications": _notifications, "shapes": shapes, "meta": meta,
    "calls": calls, "others": others, "eras": eras,
}  # fmt: skip


def list_rows(way: Way, group: str) -> list[Row]:
    """Return the rows of a group for a way."""
    table = list(GROUPS[group](Era(way.stateless)))
    return [_over_http(row, way) for row in table] if way.transport == "http" else table
