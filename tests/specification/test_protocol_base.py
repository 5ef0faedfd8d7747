"""The base of all messages in both eras."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.client.raw_client import Json
from tests.kits.constants import META_PREFIX, STATELESS
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_questions import NAME
from tests.kits.protocol.protocol_server import NAME as SERVER
from tests.kits.protocol.protocol_ways import EVERY_TRANSPORT, HANDSHAKE_ONLY, STATELESS_ONLY, Connected, over

LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
META_KEY = re.compile(rf"(?P<prefix>{LABEL}(?:\.{LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
OURS = {f"{META_PREFIX}{name}" for name in ("serverInfo", "subscriptionId")}
DEFINED = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
WRONG: list[tuple[str, Json]] = [
    ("tools/eat", {}),
    ("tools/call", {"name": "nothing"}),
    ("tools/call", {"name": 1}),
    ("tools/call", {}),
    ("tools/list", {"cursor": "invented"}),
    ("resources/read", {"uri": "test://nothing"}),
    ("resources/read", {"uri": "test://crash"}),
    ("resources/read", {}),
    ("prompts/get", {"name": "nothing"}),
    ("prompts/get", {"name": "crash_prompt"}),
    ("prompts/get", {"name": "review"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "nothing"}, "argument": {"name": "a", "value": ""}}),
    ("completion/complete", {"ref": {"type": "ref/nothing"}, "argument": {"name": "a", "value": ""}}),
]
MALFORMED: list[tuple[str, Json]] = [
    ("tools/call", {}),
    ("tools/call", {"name": "echo", "arguments": ["text"]}),
    ("resources/read", {}),
    ("prompts/get", {"arguments": {}}),
    ("prompts/get", {"name": "review", "arguments": {"language": 1}}),
    ("completion/complete", {"argument": {"name": "language", "value": ""}}),
]
REMOVED = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
"""Methods of the handshake era alone."""
TRACES: list[Json] = [
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", "tracestate": "a=b", "baggage": "c=d"},
    {"traceparent": "nonsense", "tracestate": ",,,", "baggage": "="},
    {"traceparent": 7, "tracestate": None, "baggage": {"a": 1}},
]


@proves("base/request-id-echoed")
@EVERY_TRANSPORT
async def test_an_answer_has_the_id_of_its_request(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for number in ("a text", "77", 77, 0, -1, 2**53):
            assert type((await raw.request("tools/list", id=number))["id"]) is type(number)
            assert "error" in await raw.request("tools/eat", id=f"{number} again")


@proves("base/error-shape", "base/error-codes")
async def test_errors_have_a_message_and_a_code_that_is_defined(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for method, params in WRONG:
            error = await raw.get_error(method, params)
            assert error["code"] in DEFINED, (method, params, error)
            assert isinstance(error["message"], str)
            assert error["message"]


@proves("base/method-not-found")
async def test_an_unknown_method_is_not_found(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        foreign_methods = REMOVED if connected.stateless else ("server/discover", "subscriptions/listen")
        for method in ("tools/eat", *foreign_methods):
            error = await raw.get_error(method, {"uri": "test://text", "level": "info", "notifications": {}})
            assert error["code"] == -32601, method


@proves("base/malformed-request", "tools/malformed-call")
async def test_params_that_violate_the_schema_of_their_method_are_invalid(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for method, params in MALFORMED:
            assert (await raw.get_error(method, params))["code"] == -32602, (method, params)


@proves("base/notifications-unanswered")
async def test_notifications_are_not_answered(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for method in ("notifications/nothing", "notifications/roots/list_changed", "tools/list"):
            await raw.notify(method)
        before = {message["id"] for message in raw.received if message.get("id") is not None}
        last = await raw.request("tools/list")
        answers = [message for message in raw.received if message.get("id") is not None and message["id"] not in before]
        assert answers == [last]
        assert all("result" not in message for message in raw.received if message.get("id") is None)


@proves("base/result-type", "base/server-info")
@STATELESS_ONLY
async def test_every_stateless_result_is_complete_and_names_its_server(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for result in [result async for result in list_results(raw)]:
            assert result["resultType"] == "complete"
            assert result["_meta"][f"{META_PREFIX}serverInfo"]["name"] == SERVER


@proves("base/meta-key-names")
async def test_keys_of_meta_follow_the_grammar(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        keys = {key async for result in list_results(raw) for key in list_meta_keys(result)}
        assert "com.example/label" in keys
        for key in keys:
            match = META_KEY.fullmatch(key)
            assert match, key
            labels = (match["prefix"] or "/")[:-1].split(".")
            reserved = labels[1:2] in (["modelcontextprotocol"], ["mcp"])
            assert not reserved or key in OURS, key


async def list_results(raw: Any) -> Any:
    """Yield a result of every kind of request."""
    if raw.stateless:
        yield await raw.get_result("server/discover")
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        yield await raw.get_result(method)
    yield await raw.call("echo", {"text": "hi"})
    yield await raw.call("refuse", {"reason": "no"})
    yield await raw.call("blocks")
    yield await raw.get_result("resources/read", {"uri": "test://text"})
    yield await raw.get_result("prompts/get", {"name": "gallery"})
    completed = {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": "p"}}
    yield await raw.get_result("completion/complete", completed)


def list_meta_keys(value: Any) -> Iterator[str]:
    """Yield every key of every `_meta` in a value."""
    if isinstance(value, dict):
        yield from value.get("_meta", {})
        for inner in value.values():
            yield from list_meta_keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from list_meta_keys(inner)


@proves("base/required-meta")
@over("memory", "http", stateless=True)
async def test_a_stateless_request_without_a_required_field_is_rejected(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        # After this request the era is fixed.
        await raw.get_result("tools/list")
        for missing in ("protocolVersion", "clientCapabilities"):
            request = raw.make_request("tools/list", meta={f"{META_PREFIX}{missing}": None})
            headers = {"MCP-Protocol-Version": STATELESS} if raw.transport == "http" else {}
            await raw.send(request, **headers)
            assert (await raw.receive_response(request["id"]))["error"]["code"] == -32602
            if raw.transport == "http":
                assert raw.responses[request["id"]].status == 400


@proves("base/client-info-optional")
@STATELESS_ONLY
async def test_a_stateless_request_needs_no_client_info(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert (await raw.get_result("tools/list", meta={f"{META_PREFIX}clientInfo": None}))["tools"]


@proves("base/missing-capability", "questions/only-declared")
@over("memory", "http", stateless=True)
async def test_a_call_that_needs_an_undeclared_capability_is_rejected(connected: Connected) -> None:
    needs = {"ask_name": "elicitation", "needs_name": "elicitation", "ask_model": "sampling", "ask_roots": "roots"}
    async with connected.raw_client() as raw:
        for tool, required in needs.items():
            number = await raw.send_call(tool)
            error = (await raw.receive_response(number))["error"]
            assert error["code"] == -32021
            assert required in error["data"]["requiredCapabilities"]
            if raw.transport == "http":
                assert raw.responses[number].status == 400


@proves("base/undeclared-capability")
@HANDSHAKE_ONLY
async def test_a_client_that_cannot_be_asked_is_not_asked(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for tool in ("ask_name", "needs_name", "ask_page", "ask_model", "ask_roots", "ask_all"):
            assert (await raw.call(tool))["isError"] is True
        assert raw.list_requests() == []


@proves("base/no-prior-requests")
@STATELESS_ONLY
async def test_the_server_remembers_nothing_of_earlier_requests(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        can = {f"{META_PREFIX}clientCapabilities": {"elicitation": {}}}
        assert (await raw.call("ask_name", meta=can))["resultType"] == "input_required"
        assert (await raw.get_error("tools/call", {"name": "ask_name", "arguments": {}}))["code"] == -32021
        await raw.call("say", {"levels": ["error"]}, meta={f"{META_PREFIX}logLevel": "debug"})
        before = len(raw.list_notifications())
        await raw.call("say", {"levels": ["error"]})
        assert len(raw.list_notifications()) == before == 1
        strange = await raw.get_error("tools/list", meta={f"{META_PREFIX}protocolVersion": "2099-01-01"})
        assert strange["code"] == -32022
        assert (await raw.get_result("tools/list"))["tools"]


@proves("base/explicit-state", "base/any-connection")
@over("memory", "http", stateless=True)
async def test_a_question_is_answered_over_another_connection(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as first, connected.raw_client(elicitation={}) as second:
        questions = await first.call("ask_name")
        assert questions["inputRequests"]["name"]["params"]["requestedSchema"]["required"] == NAME["required"]
        answers = {"name": {"action": "accept", "content": {"name": "Ann"}}}
        retry = {
            "name": "ask_name",
            "arguments": {},
            "inputResponses": answers,
            "requestState": questions["requestState"],
        }
        result = await second.get_result("tools/call", retry)
        assert result["content"][0]["text"] == "Hello, Ann!"


@proves("base/many-conversations")
@EVERY_TRANSPORT
async def test_requests_interleave_and_none_waits_for_another(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        first, second = await raw.send_call("hold", {"name": "1"}), await raw.send_call("hold", {"name": "2"})
        for name in ("1", "2"):
            await raw.call("wait_for", {"kind": "begun", "name": name})
        await raw.call("let_go", {"name": "2"})
        assert (await raw.receive_response(second))["result"]["content"][0]["text"] == "let go"
        await raw.call("let_go", {"name": "1"})
        assert (await raw.receive_response(first))["result"]["content"][0]["text"] == "let go"


@proves("base/trace-context")
async def test_tracing_keys_do_not_affect_a_request(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for meta in TRACES:
            assert (await raw.call("echo", {"text": "hi"}, meta=meta))["content"][0]["text"] == "hi"


@proves("base/icons")
async def test_icons_are_at_safe_addresses(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for method, key in (("tools/list", "tools"), ("resources/list", "resources"), ("prompts/list", "prompts")):
            (icons,) = [item["icons"] for item in (await raw.get_result(method))[key] if "icons" in item]
            assert [icon["src"].split(":")[0] for icon in icons] == ["https", "data"]


@proves("base/utf-8")
@EVERY_TRANSPORT
async def test_messages_are_utf_8_in_both_directions(connected: Connected) -> None:
    text = "héllo 世界 🎉 \u2028 \x85 end"
    async with connected.raw_client() as raw:
        assert (await raw.call("echo", {"text": text}))["content"][0]["text"] == text
