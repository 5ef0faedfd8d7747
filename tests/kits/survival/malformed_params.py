"""Requests with parameters that are wrong in one way each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.kits.constants import ENVELOPE
from tests.kits.survival.malformed_rows import (
    BAD_PARAMS,
    BAD_VERSION,
    FAILED,
    LONG,
    NO_METHOD,
    NO_REQUEST,
    RESULT,
    Era,
    Row,
    row,
)


def shapes(era: Era) -> Iterator[Row]:
    """Arguments of various depths and widths. The model learns which limit they exceed."""
    for depth in (10, 500):
        for container, opening, closing in [("arrays", "[", "]"), ("objects", '{"a":', "}")]:
            name = f"{container} {depth} deep"
            deep = f"{opening * depth}1{closing * depth}"
            call = json.dumps(era.call(name, {"text": "HERE"})).replace('"HERE"', deep)
            yield Row(f"{name} in arguments", call.encode(), FAILED, name)
            message = json.dumps(era.request(f"{name} beside", "tools/list", more="HERE")).replace('"HERE"', deep)
            yield Row(f"{name} in params", message.encode(), RESULT, f"{name} beside")
            outside = json.dumps({**era.good(f"{name} outside"), "more": "HERE"}).replace('"HERE"', deep)
            yield Row(f"{name} in the envelope", outside.encode(), RESULT, f"{name} outside")
    many = {f"k{index}": index for index in range(100_000)}
    yield row("100000 keys in arguments", era.call("many", many), FAILED, "many")
    yield row("100000 keys in params", era.request("wide", "tools/list", **many), RESULT, "wide")
    yield row("100000 keys in the envelope", {**era.good("outer"), **many}, RESULT, "outer")
    yield row("a list of 200000", era.call("flat", {"text": [0] * 200_000}), FAILED, "flat")
    yield row("an argument of 3 megabytes", era.call("big", {"text": "x" * 3_000_000}), RESULT, "big")
    yield row("a key of a megabyte", era.call("key", {LONG: 1, "text": "x"}), FAILED, "key")
    yield row("an argument with a NUL", era.call("nul", {"text": "a\0b"}), RESULT, "nul")
    yield Row("an argument minus zero", json.dumps(era.call("zero", {"text": -0.0})).encode(), FAILED, "zero")
    yield row("an argument of 30 digits", era.call("digits", {"text": 10**30}), FAILED, "digits")


def meta(era: Era) -> Iterator[Row]:
    """`_meta` is an object, and a progress token in it a text or an integer (basic, "_meta" and progress)."""
    for name, value in [("a number", 7), ("an array", []), ("a text", "x"), ("null", None), ("true", True)]:
        message = {**era.good(f"meta {name}"), "params": {"_meta": value}}
        if value is None and not era.stateless:
            # Null is allowed for optional parameters.
            continue
        yield row(f"meta {name}", message, BAD_PARAMS, f"meta {name}")
    for name, token in [("a float", 1.5), ("null", None), ("true", True), ("an array", [1]), ("an object", {})]:
        asked = era.request(f"token {name}", "tools/list", _meta={"progressToken": token})
        yield row(f"progress token {name}", asked, BAD_PARAMS, f"token {name}")
    for name, token in [("negative", -1), ("empty", ""), ("of a megabyte", LONG)]:
        call = era.call(f"token {name}", {"text": "x"})
        call["params"]["_meta"]["progressToken"] = token
        yield row(f"progress token {name}", call, RESULT, f"token {name}")
    odd = {"a": 1, "com.example/x": [{}], "": None, "io.modelcontextprotocol/unknown": 3}
    yield row("unknown meta", era.request("odd meta", "tools/list", _meta=odd), RESULT, "odd meta")
    for name, cursor in [("a number", 7), ("an array", []), ("true", True), ("an object", {})]:
        yield row(f"cursor {name}", era.request(f"c {name}", "tools/list", cursor=cursor), BAD_PARAMS, f"c {name}")
    for name, cursor in [
        ("invented", "invented"),
        ("empty", ""),
        ("with a NUL", "\0"),
        ("not ASCII", "\u00e9"),
        ("long", LONG),
    ]:
        yield row(f"cursor {name}", era.request(f"c {name}", "tools/list", cursor=cursor), BAD_PARAMS, f"c {name}")


def calls(era: Era) -> Iterator[Row]:
    """tools/call with odd names and arguments."""
    for name, value in [("a number", 7), ("null", None), ("an array", ["echo"]), ("an object", {}), ("true", True)]:
        yield row(f"tool name {name}", era.call(f"n {name}", {}, value), BAD_PARAMS, f"n {name}")
    unknown = {"empty": "", "unknown": "make", "with a NUL": "echo\0", "in other case": "Echo", "with a blank": "echo ",
               "a path": "../echo", "a prototype": "__proto__", "in Cyrillic": "\u0435\u0441h\u043e",
               "full width": "\uff45\uff43\uff48\uff4f"}  # fmt: skip
    for name, value in unknown.items():
        yield row(f"tool name {name}", era.call(f"n {name}", {"text": "x"}, value), BAD_PARAMS, f"n {name}")
    yield row("tool name of a megabyte", era.call("n long", {}, LONG), BAD_PARAMS, "n long")
    yield row("tool name missing", era.request("n", "tools/call", arguments={}), BAD_PARAMS, "n")
    for name, value in [("an array", []), ("a text", "{}"), ("a number", 7), ("true", True)]:
        yield row(f"arguments {name}", era.call(f"a {name}", value), BAD_PARAMS, f"a {name}")
    wrong: dict[str, Any] = {
        "missing": {}, "null": {"text": None}, "a number": {"text": 7}, "a list": {"text": ["x"]},
        "more": {"text": "x", "more": 1}, "a prototype": {"__proto__": {"text": "x"}}, "an empty name": {"": "x"},
    }  # fmt: skip
    for name, value in wrong.items():
        yield row(f"argument {name}", era.call(f"w {name}", value), FAILED, f"w {name}")
    yield row("arguments null", era.call("none", None), FAILED, "none")
    yield row("arguments absent", era.request("absent", "tools/call", name="echo"), FAILED, "absent")


def others(era: Era) -> Iterator[Row]:
    """The other methods with odd parameters."""
    params_by_method: dict[str, list[dict[str, Any]]] = {
        "prompts/get": [{}, {"name": 7}, {"name": "nothing"}, {"name": "", "arguments": {}},
                        {"name": "nothing", "arguments": {"a": 1}}, {"name": "nothing", "arguments": []}],
        "resources/read": [{}, {"uri": 7}, {"uri": None}, {"uri": ""}, {"uri": "file:///etc/passwd"}, {"uri": "a\0b"},
                           {"uri": "mcp-bridge://results/guess/2"}, {"uri": "http://[::1"}],
        "completion/complete": [{}, {"ref": 7, "argument": 7}, {"ref": {"type": "ref/other"}, "argument": {}},
                                {"ref": {"type": "ref/prompt", "name": "no"}, "argument": {"name": "a", "value": "b"}},
                                {"ref": {"type": "ref/resource", "uri": "no"}, "argument": {"name": "a", "value": 1}}],
        "resources/list": [{"cursor": 7}, {"cursor": "x"}], "prompts/list": [{"cursor": []}, {"cursor": "x"}],
        "resources/templates/list": [{"cursor": {}}, {"cursor": "x"}],
    }  # fmt: skip
    for method, several in params_by_method.items():
        for index, params in enumerate(several):
            yield row(
                f"{method} {index}", era.request(f"{method} {index}", method, **params), BAD_PARAMS, f"{method} {index}"
            )


def eras(era: Era) -> Iterator[Row]:
    """Messages for one era, or with different meanings in the two eras."""
    if era.stateless:
        yield from without_handshake(era)
        return
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    yield row("initialize again", era.request("again", "initialize", **hello), NO_REQUEST, "again")
    yield row("initialize again with nothing", era.request("hello", "initialize"), NO_REQUEST, "hello")
    for name, level in [("a number", 7), ("unknown", "loud"), ("null", None), ("in other case", "Debug")]:
        yield row(f"level {name}", era.request(f"l {name}", "logging/setLevel", level=level), BAD_PARAMS, f"l {name}")
    yield row("level missing", era.request("l", "logging/setLevel"), BAD_PARAMS, "l")
    for index, params in enumerate([{}, {"uri": 7}, {"uri": "nothing://there"}]):
        yield row(
            f"subscribe {index}", era.request(f"s {index}", "resources/subscribe", **params), BAD_PARAMS, f"s {index}"
        )
    yield row("params null", {**era.good("p null"), "params": None}, RESULT, "p null")
    yield row("listen", era.request("listen", "subscriptions/listen", notifications={}), NO_METHOD, "listen")
    yield row("an envelope of the other era", era.request("other", "tools/list", _meta=ENVELOPE), NO_REQUEST, "other")


def without_handshake(era: Era) -> Iterator[Row]:
    """2026-07-28: every request has the client and the version."""
    version = "io.modelcontextprotocol/protocolVersion"
    for name, value in [("unknown", "2099-01-01"), ("empty", ""), ("of the handshake", "2025-11-25")]:
        message = era.request(f"pv {name}", "tools/list", _meta={version: value})
        yield row(f"version {name}", message, BAD_VERSION, f"pv {name}")
    for name, odd in [("a number", 20260728), ("null", None), ("an array", [])]:
        yield row(
            f"version {name}", era.request(f"pv {name}", "tools/list", _meta={version: odd}), BAD_PARAMS, f"pv {name}"
        )
    for key in ENVELOPE:
        if key.endswith("clientInfo"):
            # This parameter is optional.
            continue
        fields = {name: value for name, value in ENVELOPE.items() if name != key}
        message = {**era.good(f"no {key[-7:]}"), "params": {"_meta": fields}}
        yield row(f"meta without {key.rsplit('/')[-1]}", message, BAD_PARAMS, f"no {key[-7:]}")
    for key in ("clientInfo", "clientCapabilities"):
        message = era.request(f"odd {key}", "tools/list", _meta={f"io.modelcontextprotocol/{key}": [7]})
        yield row(f"meta with odd {key}", message, BAD_PARAMS, f"odd {key}")
    for index, params in enumerate([{}, {"notifications": 7}, {"notifications": {"toolsListChanged": [1]}}]):
        yield row(
            f"listen {index}", era.request(f"lis {index}", "subscriptions/listen", **params), BAD_PARAMS, f"lis {index}"
        )
    yield row("params null", {**era.good("p null"), "params": None}, BAD_PARAMS, "p null")
    yield row("params missing", {"jsonrpc": "2.0", "id": "p", "method": "tools/list"}, BAD_PARAMS, "p")
    yield row("level of the other era", era.request("level", "logging/setLevel", level="info"), NO_METHOD, "level")
    yield row("subscribe of the other era", era.request("sub", "resources/subscribe", uri="a://b"), NO_METHOD, "sub")
    yield row("initialize of the other era", era.request("init", "initialize"), BAD_VERSION, "init")
