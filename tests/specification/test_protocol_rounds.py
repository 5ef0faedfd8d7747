"""Multi round-trip requests: accepted and rejected states."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from tests.client.raw_client import Json
from tests.kits.constants import META_PREFIX
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import STATELESS_ONLY, Connected, over
from tests.specification.test_protocol_questions import EVERYTHING, MESSAGE, ROOTS, make_name_answer, make_retry

REJECTION = "Invalid or expired requestState"
KINDS = {"elicitation/create", "sampling/createMessage", "roots/list"}


def is_rejected(answer: Json) -> bool:
    """Whether a state was rejected with the right error."""
    return answer.get("error", {}).get("code") == -32602 and REJECTION in answer["error"]["message"]


@proves("questions/where", "questions/something-to-go-on", "questions/known-kinds")
@STATELESS_ONLY
async def test_calls_prompts_and_reads_ask_and_nothing_else_does(connected: Connected) -> None:
    async with connected.raw_client(**EVERYTHING) as raw:
        asking: list[tuple[str, Json]] = [
            ("tools/call", {"name": "ask_all", "arguments": {}}),
            ("tools/call", {"name": "needs_name", "arguments": {}}),
            ("prompts/get", {"name": "asking_prompt"}),
            ("resources/read", {"uri": "test://asking"}),
        ]
        for method, params in asking:
            questions = await raw.get_result(method, params)
            assert questions["resultType"] == "input_required"
            assert questions["inputRequests"]
            assert isinstance(questions["requestState"], str)
            assert {request["method"] for request in questions["inputRequests"].values()} <= KINDS
        for method in ("server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            assert (await raw.get_result(method))["resultType"] == "complete"
        ref = {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": ""}}
        assert (await raw.get_result("completion/complete", ref))["resultType"] == "complete"


@proves("base/no-server-requests", "stdio/no-requests")
@over("memory", "stdio", stateless=True)
async def test_questions_travel_in_results_and_the_server_sends_no_requests(connected: Connected) -> None:
    async with connected.raw_client(**EVERYTHING) as raw:
        questions = await raw.call("ask_all")
        assert {key: request["method"] for key, request in questions["inputRequests"].items()} == {
            "name": "elicitation/create",
            "model": "sampling/createMessage",
            "roots": "roots/list",
        }
        answers = {"name": make_name_answer("Ann"), "model": MESSAGE, "roots": ROOTS}
        result = await raw.get_result("tools/call", make_retry(questions, "ask_all", answers))
        assert result["content"][0]["text"] == "Ann, Paris, 1"
        assert raw.list_requests() == []


@proves("questions/extra-answers", "questions/missing-answers")
@STATELESS_ONLY
async def test_extra_answers_are_ignored_and_missing_ones_asked_for_again(connected: Connected) -> None:
    async with connected.raw_client(**EVERYTHING) as raw:
        questions = await raw.call("ask_all")
        questions = await raw.get_result(
            "tools/call",
            make_retry(questions, "ask_all", {"name": make_name_answer("Ann"), "weather": make_name_answer("fine")}),
        )
        assert (questions["resultType"], sorted(questions["inputRequests"])) == ("input_required", ["model", "roots"])
        questions = await raw.get_result("tools/call", make_retry(questions, "ask_all", None))
        assert sorted(questions["inputRequests"]) == ["model", "roots"]
        result = await raw.get_result(
            "tools/call", make_retry(questions, "ask_all", {"model": MESSAGE, "roots": ROOTS})
        )
        assert result["content"][0]["text"] == "Ann, Paris, 1"


@STATELESS_ONLY
async def test_questions_come_one_after_the_other(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        questions = await raw.call("ask_twice")
        questions = await raw.get_result(
            "tools/call", make_retry(questions, "ask_twice", {"first": make_name_answer("Ann")})
        )
        assert questions["inputRequests"]["second"]["params"]["message"] == "And the friend of Ann?"
        result = await raw.get_result(
            "tools/call", make_retry(questions, "ask_twice", {"second": make_name_answer("Bob")})
        )
        assert result["content"][0]["text"] == "Ann and Bob"


@proves("questions/state-verified")
@STATELESS_ONLY
async def test_a_state_that_was_tampered_with_is_rejected(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        for tool in ("ask_name", "needs_name"):
            questions = await raw.call(tool)
            state = questions["requestState"]
            middle = len(state) // 2
            flipped = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
            made_up = base64.urlsafe_b64encode(
                b'{"handle": "", "started": false, "answered": [], "asked": {}}'
            ).decode()
            for wrong in (flipped, state[:-8], state + "AAAA", made_up, "{}", ""):
                back = make_retry({"requestState": wrong}, tool, {"name": make_name_answer("Eve")})
                assert is_rejected(await raw.request("tools/call", back)), wrong
            result = await raw.get_result("tools/call", make_retry(questions, tool, {"name": make_name_answer("Ann")}))
            assert "Ann" in result["content"][0]["text"]


@proves("questions/state-verified")
@STATELESS_ONLY
async def test_a_made_up_state_is_rejected_also_where_nothing_asks(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        for method, params in (
            ("tools/call", {"name": "echo", "arguments": {"text": "hi"}}),
            ("prompts/get", {"name": "greeting"}),
            ("resources/read", {"uri": "test://text"}),
        ):
            assert is_rejected(await raw.request(method, {**params, "requestState": "made up"})), method


@proves("questions/state-request")
@STATELESS_ONLY
async def test_a_state_is_rejected_with_another_request(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        questions = await raw.call("ask_name", {"greeting": "Hi"})
        answers = {"name": make_name_answer("Eve")}
        for tool, arguments in (("ask_twice", {}), ("ask_name", {"greeting": "Bye"}), ("ask_name", {})):
            assert is_rejected(await raw.request("tools/call", make_retry(questions, tool, answers, arguments))), (
                tool,
                arguments,
            )
        state = {"requestState": questions["requestState"], "inputResponses": answers}
        assert is_rejected(await raw.request("prompts/get", {"name": "asking_prompt", **state}))
        assert is_rejected(await raw.request("resources/read", {"uri": "test://asking", **state}))
        result = await raw.get_result(
            "tools/call", make_retry(questions, "ask_name", {"name": make_name_answer("Ann")}, {"greeting": "Hi"})
        )
        assert result["content"][0]["text"] == "Hi, Ann!"


@proves("questions/state-once")
@STATELESS_ONLY
async def test_a_state_is_rejected_the_second_time(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        for tool in ("ask_name", "needs_name"):
            back = make_retry(await raw.call(tool), tool, {"name": make_name_answer("Ann")})
            assert "Ann" in (await raw.get_result("tools/call", back))["content"][0]["text"]
            assert is_rejected(await raw.request("tools/call", back))


@proves("questions/state-once")
@STATELESS_ONLY
async def test_each_round_has_a_state_of_its_own(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        first = await raw.call("ask_twice")
        second = await raw.get_result("tools/call", make_retry(first, "ask_twice", {"first": make_name_answer("Ann")}))
        assert is_rejected(
            await raw.request("tools/call", make_retry(first, "ask_twice", {"first": make_name_answer("Eve")}))
        )
        result = await raw.get_result(
            "tools/call", make_retry(second, "ask_twice", {"second": make_name_answer("Bob")})
        )
        assert result["content"][0]["text"] == "Ann and Bob"


@proves("questions/state-expires")
@over("memory", stateless=True)
@pytest.mark.parametrize("options", [{"state": {"ttl": 0.05}}])
async def test_a_request_state_is_rejected_after_its_ttl(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        for tool in ("ask_name", "needs_name"):
            questions = await raw.call(tool)
            # This waits for the expiry, not for an order of events.
            await anyio.sleep(0.1)
            answer = await raw.request("tools/call", make_retry(questions, tool, {"name": make_name_answer("Ann")}))
            assert is_rejected(answer), answer


@proves("questions/no-retry")
@STATELESS_ONLY
@pytest.mark.parametrize("options", [{"state": {"suspended": 2}}])
async def test_unanswered_questions_block_no_other_call(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        for _ in range(4):
            await raw.request("tools/call", {"name": "ask_name", "arguments": {}})
        assert "isError" not in await raw.call("echo", {"text": "hi"})


@STATELESS_ONLY
async def test_a_call_may_bring_its_answers_at_once(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        call = {
            "name": "ask_name",
            "arguments": {},
            "inputResponses": {"name": make_name_answer("Ann"), "weather": make_name_answer("fine")},
        }
        assert (await raw.get_result("tools/call", call))["content"][0]["text"] == "Hello, Ann!"


@STATELESS_ONLY
async def test_a_retry_must_declare_what_the_next_question_needs(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        questions = await raw.call("ask_twice")
        none: dict[str, Any] = {f"{META_PREFIX}clientCapabilities": {}}
        answer = await raw.request(
            "tools/call", make_retry(questions, "ask_twice", {"first": make_name_answer("Ann")}), meta=none
        )
        assert "inputRequests" not in answer.get("result", {})


@proves("utilities/progress-token", "utilities/log-on-own-stream")
@STATELESS_ONLY
async def test_messages_of_a_call_belong_to_the_request_that_is_open(connected: Connected) -> None:
    level = {f"{META_PREFIX}logLevel": "debug"}
    async with connected.raw_client(elicitation={}) as raw:
        await raw.call("let_go", {"name": "1"})
        questions = await raw.call("ask_between", {"name": "1"}, meta={"progressToken": "a", **level})
        events = [
            (notification["method"].split("/")[-1], notification["params"].get("progressToken"))
            for notification in raw.list_notifications()
        ]
        assert events == [("progress", "a"), ("message", None)]
        back = make_retry(questions, "ask_between", {"name": make_name_answer("Ann")}, {"name": "1"})
        await raw.get_result("tools/call", back, meta={"progressToken": "b"})
        progress = [
            notification["params"]["progressToken"] for notification in raw.list_notifications("notifications/progress")
        ]
        assert progress == ["a", "b"]
        # The second request has not opted in.
        assert len(raw.list_notifications("notifications/message")) == 1


@proves("utilities/cancel")
@over("memory", "http", stateless=True, both_loops=True)
async def test_giving_up_the_request_that_came_back_stops_the_call(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        questions = await raw.call("ask_between", {"name": "1"})
        back = await raw.send_request(
            "tools/call", make_retry(questions, "ask_between", {"name": make_name_answer("Ann")}, {"name": "1"})
        )
        await raw.call("wait_for", {"kind": "begun", "name": "1"})
        await raw.cancel(back)
        await raw.call("wait_for", {"kind": "cancelled", "name": "1"})
        assert [message for message in raw.received if message.get("id") == back] == []


class SignedIn:
    """An app around another that authenticates the caller, here by a name in a header."""

    def __init__(self, app: Any) -> None:
        self._app = AuthContextMiddleware(app)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        name = dict(scope["headers"]).get(b"x-name", b"").decode()
        if name:
            token = AccessToken(token=name, client_id="a client", scopes=[], subject=name)
            scope = {**scope, "user": AuthenticatedUser(token)}
        await self._app(scope, receive, send)


@proves("questions/state-principal")
@over("http", stateless=True)
async def test_a_state_is_rejected_from_any_other_principal(connected: Connected) -> None:
    assert connected.host is not None
    connected.host.app = SignedIn(connected.host.app)
    async with connected.raw_client(elicitation={}) as ann, connected.raw_client(elicitation={}) as eve:
        ann.headers["X-Name"], eve.headers["X-Name"] = "ann", "eve"
        for tool in ("ask_name", "needs_name"):
            questions = await ann.call(tool)
            back = make_retry(questions, tool, {"name": make_name_answer("Ann")})
            assert is_rejected(await eve.request("tools/call", back))
            del eve.headers["X-Name"]
            assert is_rejected(await eve.request("tools/call", back))
            eve.headers["X-Name"] = "eve"
            assert "Ann" in (await ann.get_result("tools/call", back))["content"][0]["text"]
