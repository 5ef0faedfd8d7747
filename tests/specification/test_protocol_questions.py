"""Questions to the client: the same tools in both eras, as results with questions and as requests of the server."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.client.raw_client import Json, RawClient
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import EVERY_TRANSPORT, HANDSHAKE_ONLY, STATELESS_ONLY, Connected

PRIMITIVES = {"string", "number", "integer", "boolean", "array"}
EVERYTHING: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}
MESSAGE = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "a-model"}
ROOTS = {"roots": [{"uri": "file:///home/ann", "name": "home"}]}


def make_name_answer(name: str) -> Json:
    """Return an answer to the question for a name."""
    return {"action": "accept", "content": {"name": name}}


def make_retry(questions: Json, tool: str, answers: Json | None, arguments: Json | None = None) -> Json:
    """Return the params of the repeated request with answers."""
    back = {"name": tool, "arguments": arguments or {}, "requestState": questions["requestState"]}
    return {**back, "inputResponses": answers} if answers is not None else back


async def get_question(raw: RawClient, tool: str, arguments: Json | None = None) -> tuple[Json, Any]:
    """Return the only question of a tool, and a function that sends its answer and returns the call's result."""
    if raw.stateless:
        questions = await raw.call(tool, arguments)
        ((key, request),) = questions["inputRequests"].items()

        async def back(answer: Json) -> Json:
            return await raw.get_result("tools/call", make_retry(questions, tool, {key: answer}, arguments))

        return request, back
    number = await raw.send_call(tool, arguments)
    request = await raw.receive(lambda message: "method" in message and "id" in message)

    async def reply(answer: Json) -> Json:
        await raw.respond(request, answer)
        result: Json = (await raw.receive_response(number))["result"]
        return result

    return request, reply


@proves("questions/form")
async def test_a_form_is_a_flat_object_with_every_kind_of_field(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        request, answer = await get_question(raw, "ask_fields")
        params = request["params"]
        assert (request["method"], params.get("mode", "form")) == ("elicitation/create", "form")
        assert params["message"] == "Fill this in."
        schema = params["requestedSchema"]
        types.ElicitRequestFormParams.model_validate(params)
        assert (schema["type"], schema["required"]) == ("object", ["text"])
        assert {field["type"] for field in schema["properties"].values()} <= PRIMITIVES
        defaults = {name: field["default"] for name, field in schema["properties"].items() if "default" in field}
        assert defaults == {
            "text": "some", "mail": "a@example.com", "whole": 3, "number": 0.5, "flag": True, "one": "a", "some": ["p"],
        }  # fmt: skip
        titled, several = schema["properties"]["titled"], schema["properties"]["several"]
        assert titled["oneOf"][0] == {"const": "x", "title": "X"}
        assert several["items"]["anyOf"][0] == {"const": "m", "title": "M"}
        filled = {"text": "t", "whole": 4, "flag": False, "titled": "y", "several": ["m", "n"]}
        result = await answer({"action": "accept", "content": filled})
        assert result["structuredContent"] == filled


@proves("questions/url")
async def test_a_page_has_a_message_and_a_valid_url(connected: Connected) -> None:
    async with connected.raw_client(elicitation={"url": {}}) as raw:
        request, answer = await get_question(raw, "ask_page")
        assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "url")
        assert request["params"]["message"] == "Sign in."
        url = urlsplit(request["params"]["url"])
        assert (url.scheme, url.hostname) == ("https", "example.com")
        types.ElicitRequestURLParams.model_validate(request["params"])
        assert (await answer({"action": "accept"}))["content"][0]["text"] == "accept"
        for bad in ("nonsense", "javascript:alert(1)", "https://", "http:///path", "https://exa mple.com", ""):
            await raw.send_call("ask_page", {"url": bad})
            answer = await raw.receive(lambda message: "result" in message or "params" in message)
            assert answer.get("result", {}).get("isError") is True, (bad, answer)


@proves("questions/modes")
async def test_only_the_modes_that_the_client_declares_are_used(connected: Connected) -> None:
    for elicitation, tools in (
        ({}, ["ask_page"]),
        ({"form": {}}, ["ask_page"]),
        ({"url": {}}, ["ask_name", "ask_fields"]),
    ):
        async with connected.raw_client(elicitation=elicitation) as raw:
            for tool in tools:
                answer = await raw.request("tools/call", {"name": tool, "arguments": {}})
                if connected.stateless:
                    assert answer["error"]["code"] == -32021
                else:
                    assert answer["result"]["isError"] is True
            assert raw.list_requests() == []


@proves("questions/declined")
async def test_a_tool_receives_that_the_user_declines_or_cancels(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        for action in ("decline", "cancel"):
            _, answer = await get_question(raw, "ask_name")
            assert (await answer({"action": action}))["content"][0]["text"] == f"{action} is fine."


@proves("questions/declined")
@HANDSHAKE_ONLY
async def test_a_client_that_fails_to_ask_ends_the_call_and_nothing_else(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        number = await raw.send_call("ask_name")
        request = await raw.receive_message("elicitation/create")
        error = {"code": -32603, "message": "no screen"}
        await raw.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        assert (await raw.receive_response(number))["result"]["isError"] is True
        assert "isError" not in await raw.call("echo", {"text": "hi"})


@proves("questions/answers-validated")
async def test_an_answer_that_does_not_fit_does_not_reach_the_tool(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        request, answer = await get_question(raw, "ask_name")
        if connected.stateless:
            questions = await answer({"action": "accept", "content": {"name": "A"}})
            assert questions["resultType"] == "input_required"
            assert questions["inputRequests"]["name"]["params"]["requestedSchema"]["required"] == ["name"]
            result = await raw.get_result(
                "tools/call", make_retry(questions, "ask_name", {"name": make_name_answer("Ann")})
            )
        else:
            await raw.respond(request, {"action": "accept", "content": {"name": "A"}})
            request = await raw.receive_message("elicitation/create")
            await raw.respond(request, make_name_answer("Ann"))
            result = (await raw.receive(lambda message: "result" in message and "content" in message["result"]))[
                "result"
            ]
        assert result["content"][0]["text"] == "Hello, Ann!"


@proves("questions/answers-validated")
@STATELESS_ONLY
async def test_answers_that_never_fit_end_the_call(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        questions = await raw.call("ask_name")
        for _ in range(5):
            if questions["resultType"] == "input_required":
                answers = {"name": {"action": "accept", "content": {}}}
                questions = await raw.get_result("tools/call", make_retry(questions, "ask_name", answers))
        assert questions["isError"] is True


@proves("questions/sampling-messages")
async def test_a_sampling_request_has_messages_and_a_limit(connected: Connected) -> None:
    async with connected.raw_client(sampling={}) as raw:
        request, answer = await get_question(raw, "ask_model")
        assert request["method"] == "sampling/createMessage"
        (message,) = request["params"]["messages"]
        assert (message["role"], message["content"]["type"]) == ("user", "text")
        assert request["params"]["maxTokens"] == 50
        assert request["params"].keys().isdisjoint({"tools", "toolChoice", "includeContext"})
        types.CreateMessageRequestParams.model_validate(request["params"])
        assert (await answer(MESSAGE))["content"][0]["text"] == "Paris"


@proves("questions/sampling-tools", "questions/sampling-context")
async def test_tools_and_context_are_for_clients_that_declare_them(connected: Connected) -> None:
    for option, capability in (("tools", "tools"), ("context", "context")):
        async with connected.raw_client(sampling={}) as raw:
            answer = await raw.request("tools/call", {"name": "ask_model", "arguments": {option: True}})
            if connected.stateless:
                assert answer["error"]["code"] == -32021
                assert capability in answer["error"]["data"]["requiredCapabilities"]["sampling"]
            else:
                assert answer["result"]["isError"] is True
            assert raw.list_requests() == []
        async with connected.raw_client(sampling={capability: {}}) as raw:
            request, finish = await get_question(raw, "ask_model", {option: True})
            assert {"tools": "tools", "context": "includeContext"}[option] in request["params"]
            assert (await finish(MESSAGE))["content"][0]["text"] == "Paris"


@proves("questions/roots")
async def test_roots_are_asked_for(connected: Connected) -> None:
    async with connected.raw_client(roots={}) as raw:
        request, answer = await get_question(raw, "ask_roots")
        assert request["method"] == "roots/list"
        assert (await answer(ROOTS))["structuredContent"] in (
            [ROOTS["roots"][0]["uri"]],
            {"result": ["file:///home/ann"]},
        )


@EVERY_TRANSPORT
async def test_the_official_client_answers_every_kind_of_question(connected: Connected) -> None:
    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    async def sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult.model_validate(MESSAGE)

    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate(ROOTS)

    options = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with connected.client(**options) as client:
        for tool, expected in (
            ("ask_name", "Hello, Ann!"),
            ("ask_twice", "Ann and Ann"),
            ("ask_all", "Ann, Paris, 1"),
            ("needs_name", "Ann at step 1"),
        ):
            assert (await client.call_tool(tool, {})).content[0].text == expected  # type: ignore[union-attr]
        prompt = await client.get_prompt("asking_prompt")
        assert prompt.messages[0].content.text == "Greet Ann."  # type: ignore[union-attr]
        page = await client.read_resource("test://asking")
        assert page.contents[0].text == "The page of Ann"  # type: ignore[union-attr]


async def test_a_client_without_elicitation_receives_an_error(connected: Connected) -> None:
    async with connected.client() as client:
        if connected.stateless:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("ask_name", {})
            assert caught.value.error.code == -32021
        else:
            assert (await client.call_tool("ask_name", {})).is_error
        for get in (client.get_prompt("asking_prompt"), client.read_resource("test://asking")):
            with pytest.raises(MCPError):
                await get
