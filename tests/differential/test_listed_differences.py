"""Each listed difference occurs: a sequence of messages shows it in its last message, and in no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kits.constants import CLIENT_INFO, META_PREFIX
from tests.kits.oracle.generated_messages import CAPABILITIES
from tests.kits.oracle.listed_differences import DIFFERENCES, find_difference
from tests.kits.oracle.twin_servers import connect_twins

Json = dict[str, Any]
META: Json = {f"{META_PREFIX}protocolVersion": "2026-07-28", f"{META_PREFIX}clientCapabilities": CAPABILITIES}
NOTHING: Json = {**META, f"{META_PREFIX}clientCapabilities": {"roots": {"listChanged": "often"}, "sampling": {}}}
GREETING: Json = {"type": "ref/prompt", "name": "greeting"}
RESULT: Json = {"roots": "none"}


def ask(method: str, number: Any = 1, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(name: str, number: Any = 1, **params: Any) -> Json:
    return ask("tools/call", number, name=name, **params)


def begin(version: str = "2025-11-25") -> list[Any]:
    hello = ask("initialize", 0, protocolVersion=version, capabilities=CAPABILITIES, clientInfo=CLIENT_INFO)
    return [hello, {"jsonrpc": "2.0", "method": "notifications/initialized"}]


EXAMPLES: dict[str, list[Any]] = {
    "malformed message": [{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}],
    "empty data": [*begin(), ask("tools/call")],
    "request and response": [*begin(), {**ask("ping"), "result": []}],
    "progress token": [*begin(), ask("ping", _meta={"progressToken": True})],
    "not JSON": [*begin(), b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "a": "\xff"}'],
    "mode of forms": [*begin("2025-06-18"), call("ask")],
    "order of checks": [call("echo", arguments=[], requestState="made up", _meta=META)],
    "request state of a handshake client": [*begin(), call("touch", requestState="made up")],
    "half of a surrogate pair": [*begin(), call("echo", arguments={"text": "\ud800"})],
    "used state": [call("roots", _meta=META), *(
        call("roots", number, requestState="the first", inputResponses={}, _meta=META) for number in (2, 3))],
    "second initialize": [*begin(), begin()[0]],
    "before initialize": [ask("tools/list")],
    "question asked again": [*begin(), call("roots"), {"jsonrpc": "2.0", "id": "roots/list#1", "result": RESULT}],
    "id in flight": [*begin(), call("wait"), call("touch")],
    "cancelled by text": [*begin(), call("ask"), {
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "1"}}],
    "truncated echo": [*begin(), call("x" * 1001)],
    "long value": [*begin(), ask("completion/complete", ref=GREETING, argument={"name": "who", "value": "x" * 1001})],
    "large id": [*begin(), ask("ping", 2**64)],
    "duplicate key": [*begin(), b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}'],
    "ambiguous case": [*begin(), call("touch", Name="echo")],
    "coerced value": [ask("subscriptions/listen", notifications={"toolsListChanged": 1}, _meta=META)],
    "capabilities that the SDK cannot read": [call("sample", _meta=NOTHING)],
}  # fmt: skip


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
async def test_a_listed_difference_occurs(difference: Any) -> None:
    lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in EXAMPLES[difference.name]]
    async with connect_twins() as twins:
        *before, last = [await twins.exchange(line) for line in lines]
    assert all(outcome.is_equal for outcome in before)
    assert not last.is_equal
    assert find_difference(last) is difference
