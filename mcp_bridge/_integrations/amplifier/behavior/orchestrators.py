"""The suite of tests for orchestrators (ORCHESTRATOR_CONTRACT 1.0.0)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.behavior.module_tests import (
    ModuleBehaviorTests,
    open_task_group,
    require,
    require_async_method,
)
from mcp_bridge._integrations.amplifier.behavior.scene import (
    ANSWER,
    PROMPT,
    RESULT,
    EndlessModel,
    FunctionTool,
    OrchestratorScene,
    PendingCall,
    PendingModel,
    PreparedModel,
    request_calls,
)
from mcp_bridge._integrations.amplifier.doubles import MockTool
from mcp_bridge._integrations.amplifier.llm_errors import RateLimitError
from mcp_bridge._integrations.amplifier.message_models import TextBlock, ThinkingBlock
from mcp_bridge._integrations.amplifier.models import ToolResult

_INJECTED = "Mind the unit."
_MOST_ITERATIONS = 3


class OrchestratorBehaviorTests(ModuleBehaviorTests):
    """The rules that every orchestrator must follow."""

    mount_point = "orchestrator"

    @asynccontextmanager
    async def open_scene(self, *args: Any, **config: Any) -> AsyncIterator[OrchestratorScene]:
        """Mount the orchestrator, and yield a scene for it. The arguments are the model and the tools of the scene."""
        async with self.mount_module(**config) as coordinator:
            self.list_mounted(coordinator)
            yield OrchestratorScene(coordinator, self.host, *args)

    async def test_execute_takes_the_arguments_of_the_contract_and_the_coordinator(self) -> None:
        names = ("prompt", "context", "providers", "tools", "hooks", "coordinator")
        async with self.open_module() as orchestrator:
            require_async_method(orchestrator, "execute", *names)

    async def test_the_final_text_of_the_model_is_returned(self) -> None:
        async with self.open_scene() as scene:
            require(await scene.execute() == ANSWER, "`execute` does not return the text of the model's last response")

    async def test_a_turn_without_tools_works(self) -> None:
        async with self.open_scene(PreparedModel(ANSWER)) as scene:
            scene.tools.clear()
            require(await scene.execute() == ANSWER, "without tools, `execute` does not return the model's text")

    async def test_prompt_response_and_result_are_added_to_the_context(self) -> None:
        async with self.open_scene() as scene:
            await scene.execute()
        roles = [message["role"] for message in scene.context.messages]
        require(roles == ["user", "assistant", "tool", "assistant"], f"the history has the roles {', '.join(roles)}")
        for message, text in zip(scene.context.messages, (PROMPT, "call_0", RESULT, ANSWER), strict=True):
            require(text in repr(message), f"the {message['role']}'s message in the history lacks {text!r}")

    async def test_every_request_gets_its_messages_from_the_context(self) -> None:
        async with self.open_scene() as scene:
            await scene.execute()
        read_count, request_count = scene.context.request_count, scene.model.call_count
        require(
            read_count >= request_count > 0,
            f"of {request_count} requests, {read_count} called context.get_messages_for_request()",
        )
        roles = [message.role for message in scene.last_request]
        require(roles == ["user", "assistant", "tool"], f"the second request has the roles {', '.join(roles)}")

    async def test_requests_declare_the_tools(self) -> None:
        async with self.open_scene() as scene:
            await scene.execute()
        specs = [(tool.name, tool.description, tool.parameters) for tool in scene.model.requests[0].tools or ()]
        expected = [(scene.tool.name, scene.tool.description, scene.tool.input_schema)]
        require(specs == expected, f"the request declares {specs} instead of {expected}")

    async def test_an_execution_continues_the_history(self) -> None:
        async with self.open_scene(PreparedModel(ANSWER)) as scene:
            await scene.execute()
            await scene.execute("And in inches?")
        texts = repr(scene.last_request)
        missing = [text for text in (PROMPT, ANSWER, "And in inches?") if text not in texts]
        require(not missing, f"the request of a second execution lacks {missing}")

    async def test_a_history_in_the_format_of_the_contract_is_continued(self) -> None:
        function = {"name": "measure", "arguments": '{"unit": "cm"}'}
        history: list[dict[str, Any]] = [
            {"role": "user", "content": "Measure it."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "old", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "old", "content": "an old result"},
            {"role": "assistant", "content": "It is small."},
        ]
        async with self.open_scene(PreparedModel(ANSWER)) as scene:
            scene.context.messages += history
            require(await scene.execute() == ANSWER, "`execute` does not return the model's text")
        roles = [message.role for message in scene.last_request]
        require(roles[:4] == [message["role"] for message in history], f"the request has the roles {', '.join(roles)}")
        require("old" in scene.results, "the result in the history has lost its call id in the request")

    async def test_reasoning_is_returned_to_the_model_with_its_signature(self) -> None:
        thinking = ThinkingBlock(thinking="A ruler helps.", signature="c2lnbmF0dXJl")
        call = request_calls(("measure", {"unit": "cm"}), before=[thinking, TextBlock(text="I look.")])
        async with self.open_scene(PreparedModel(call, ANSWER)) as scene:
            await scene.execute()
        require("c2lnbmF0dXJl" in repr(scene.last_request), "the next request lacks the signature of the reasoning")

    async def test_a_tool_receives_its_arguments_and_the_model_its_result(self) -> None:
        async with self.open_scene() as scene:
            await scene.execute()
        require(scene.tool.inputs == [{"unit": "cm"}], f"the tool was called with {scene.tool.inputs}")
        require(RESULT in scene.results.get("call_0", ""), "the next request lacks the result of the call")

    async def test_a_call_without_arguments_runs(self) -> None:
        async with self.open_scene(PreparedModel(request_calls(("measure", {})), ANSWER)) as scene:
            await scene.execute()
        require(scene.tool.inputs == [{}], f"the tool was called with {scene.tool.inputs} instead of once with {{}}")

    async def test_calls_of_one_response_run_concurrently_and_results_keep_their_order(self) -> None:
        is_done = anyio.Event()

        async def finish_first() -> ToolResult:
            is_done.set()
            return ToolResult(output="second")

        async def wait_for_other() -> ToolResult:
            await is_done.wait()
            return ToolResult(output="first")

        calls = request_calls(("wait", {"for": "finish"}), ("finish", {"now": True}))
        tools = [FunctionTool("wait", wait_for_other), FunctionTool("finish", finish_first)]
        async with self.open_scene(PreparedModel(calls, ANSWER), tools) as scene:
            await scene.execute()
        ids = list(scene.results)
        require(ids == ["call_0", "call_1"], f"the results are those of {', '.join(ids)}")

    async def test_failing_raising_and_unknown_tools_are_reported_to_the_model(self) -> None:
        failure = ToolResult(success=False, error={"message": "there is no ruler"})
        tools = [
            MockTool("fail", failure),
            MockTool("explode", RuntimeError("the ruler broke")),
            MockTool("measure", RESULT),
        ]
        names = ("fail", "explode", "vanish", "measure")
        calls = request_calls(*((name, {"unit": "cm"}) for name in names))
        async with self.open_scene(PreparedModel(calls, ANSWER), tools) as scene:
            require(await scene.execute() == ANSWER, "the execution does not continue after a failed call")
        require(len(scene.results) == len(names), f"of {len(names)} calls, {len(scene.results)} have a result")
        for index, text in enumerate(("there is no ruler", "the ruler broke", "vanish", RESULT)):
            result = scene.results[f"call_{index}"]
            require(text in result, f"the result of '{names[index]}' lacks {text!r}: {result!r:.200}")

    async def test_prompt_submit_modify_changes_the_prompt(self) -> None:
        async with self.open_scene() as scene:
            scene.decide(events.PROMPT_SUBMIT, action="modify", data={"prompt": "[redacted]"})
            await scene.execute()
        messages = repr(scene.model.requests[0].messages)
        require(
            "[redacted]" in messages and PROMPT not in messages,
            "the request has the prompt as it was before the change",
        )

    async def test_tool_pre_deny_prevents_the_call(self) -> None:
        async with self.open_scene() as scene:
            scene.decide(events.TOOL_PRE, action="deny", reason="the ruler is in use")
            await scene.execute()
        require(not scene.tool.call_count, "a denied call runs")
        require("the ruler is in use" in scene.results.get("call_0", ""), "the result of the call lacks the reason")

    async def test_tool_pre_modify_changes_the_arguments(self) -> None:
        async with self.open_scene() as scene:
            data = {"tool_name": "measure", "tool_input": {"unit": "mm"}}
            scene.decide(events.TOOL_PRE, action="modify", data=data)
            await scene.execute()
        require(scene.tool.inputs == [{"unit": "mm"}], f"the tool was called with {scene.tool.inputs}")

    async def test_tool_pre_inject_context_reaches_the_model_and_the_call_runs(self) -> None:
        await self._check_injection(events.TOOL_PRE)

    async def test_tool_pre_ask_user_runs_the_call_only_if_the_user_agrees(self) -> None:
        for answer, count in (("Allow", 1), ("Deny", 0)):
            async with self.open_scene() as scene:
                scene.coordinator.approvals.answer = answer
                scene.decide(events.TOOL_PRE, action="ask_user", approval_prompt="May it?", approval_default="deny")
                await scene.execute()
            require(scene.coordinator.approvals.asked, "the user is not asked")
            call_count = scene.tool.call_count
            require(call_count == count, f"the user chose {answer!r}, and the call ran {call_count} times")

    async def test_tool_post_modify_changes_the_result(self) -> None:
        async with self.open_scene() as scene:
            data = {"tool_name": "measure", "result": "[redacted]", "tool_result": "[redacted]"}
            scene.decide(events.TOOL_POST, action="modify", data=data)
            await scene.execute()
        result = scene.results.get("call_0", "")
        require("[redacted]" in result and RESULT not in result, f"the model reads {result!r:.200}")

    async def test_tool_post_inject_context_reaches_the_model(self) -> None:
        await self._check_injection(events.TOOL_POST)

    async def test_provider_request_inject_context_reaches_this_request(self) -> None:
        async with self.open_scene() as scene:
            scene.decide(events.PROVIDER_REQUEST, action="inject_context", context_injection=_INJECTED)
            await scene.execute()
        is_sent = _INJECTED in repr(scene.model.requests[0].messages)
        require(is_sent, "the first request lacks a text that a hook injects at provider:request")

    async def _check_injection(self, event: str) -> None:
        for is_ephemeral in (False, True):
            async with self.open_scene() as scene:
                decision = {"context_injection": _INJECTED, "ephemeral": is_ephemeral}
                scene.decide(event, action="inject_context", **decision)
                await scene.execute()
            require(scene.tool.call_count == 1, "the call does not run")
            subject = "an ephemeral text" if is_ephemeral else "a text"
            require(_INJECTED in repr(scene.last_request), f"the next request lacks {subject} that a hook injects")
            is_stored = any(_INJECTED in repr(message) for message in scene.context.messages)
            verb = "is" if is_stored else "is not"
            require(is_stored is not is_ephemeral, f"{subject} {verb} in the history")

    async def test_a_request_that_a_hook_denies_is_not_sent(self) -> None:
        async with self.open_scene() as scene:
            scene.decide(events.PROVIDER_REQUEST, action="deny", reason="no models today")
            text = await scene.execute()
        require(not scene.model.call_count, "a denied request is sent")
        require("no models today" in text, "the response lacks the reason")

    async def test_events_come_in_order_with_their_data(self) -> None:
        async with self.open_scene() as scene:
            await scene.execute()
        request = [events.PROVIDER_REQUEST, events.PROVIDER_RESPONSE]
        expected = [*request, events.TOOL_PRE, events.TOOL_POST, *request, events.ORCHESTRATOR_COMPLETE]
        names = [event for event, _ in scene.recorder.events]
        require(names == expected, f"the events are {', '.join(names)} instead of {', '.join(expected)}")
        data = dict(scene.recorder.events)
        require(data[events.PROVIDER_REQUEST].get("provider") == "mock", "provider:request does not name the provider")
        require(data[events.PROVIDER_RESPONSE].get("usage"), "provider:response has no usage")
        for event in (events.TOOL_PRE, events.TOOL_POST):
            call = (data[event].get("tool_name"), data[event].get("tool_input"))
            require(call == ("measure", {"unit": "cm"}), f"{event} has the call {call}")
        results = [data[events.TOOL_POST].get(key) for key in ("result", "tool_result")]
        require(any(RESULT in str(result) for result in results), "tool:post has no result")
        require(data[events.ORCHESTRATOR_COMPLETE].get("status") == "success", "orchestrator:complete has no status")

    async def test_a_call_that_fails_emits_tool_error(self) -> None:
        calls = request_calls(("explode", {"unit": "cm"}))
        tools = [MockTool("explode", RuntimeError("the ruler broke"))]
        async with self.open_scene(PreparedModel(calls, ANSWER), tools) as scene:
            await scene.execute()
        recorded_events = repr(scene.recorder.get_events(events.TOOL_ERROR))
        require("the ruler broke" in recorded_events, "a tool that raises causes no tool:error with the error")

    async def test_only_one_provider_is_used_and_default_provider_selects_it(self) -> None:
        models = {"one": PreparedModel("one"), "two": PreparedModel("two")}
        async with self.open_scene() as scene:
            text = await scene.execute(providers=models)
            names = [name for name, model in models.items() if model.call_count]
            require(names == [text], f"the response is {text!r}, of the models {', '.join(names)}")
        async with self.open_scene(default_provider="two") as scene:
            require(
                await scene.execute(providers=models) == "two", "the configuration `default_provider` has no effect"
            )

    async def test_max_iterations_stops_a_model_that_never_stops(self) -> None:
        async with self.open_scene(EndlessModel(), max_iterations=_MOST_ITERATIONS) as scene:
            await scene.execute()
        count = scene.model.call_count
        require(
            count <= _MOST_ITERATIONS + 1,
            f"max_iterations is {_MOST_ITERATIONS}, and the model was asked {count} times",
        )
        require(scene.recorder.get_events(events.ORCHESTRATOR_COMPLETE), "orchestrator:complete is not emitted")

    async def test_the_error_of_a_provider_ends_the_execution(self) -> None:
        error = RateLimitError("too many requests", provider="mock")
        async with self.open_scene(PreparedModel(error)) as scene:
            try:
                text = await scene.execute()
            except RateLimitError as raised:
                text = str(raised)
        require("too many requests" in text, f"neither the response nor an exception has the error: {text!r:.200}")
        require(scene.recorder.get_events(events.PROVIDER_ERROR), "provider:error is not emitted")

    async def test_cancellation_stops_the_request_to_the_model(self) -> None:
        call = PendingCall()
        async with self.open_scene(PendingModel(call)) as scene:
            await _cancel_execution(scene, call)
        require(call.was_cancelled, "the request to the model continues after the execution is cancelled")

    async def test_cancellation_stops_running_tools(self) -> None:
        call = PendingCall()
        model = PreparedModel(request_calls(("wait", {"for": "ever"})), ANSWER)
        async with self.open_scene(model, [FunctionTool("wait", call.wait_forever)]) as scene:
            await _cancel_execution(scene, call)
        require(call.was_cancelled, "a tool continues after the execution is cancelled")
        require(scene.model.call_count == 1, "the model is asked again after the execution is cancelled")

    async def test_after_a_cancellation_every_call_has_a_result(self) -> None:
        call = PendingCall()
        model = PreparedModel(request_calls(("wait", {"for": "ever"}), ("measure", {"unit": "cm"})), ANSWER)
        tools = [FunctionTool("wait", call.wait_forever), MockTool("measure", RESULT)]
        async with self.open_scene(model, tools) as scene:
            await _cancel_execution(scene, call)
            await scene.execute("Go on.")
        requests = repr([message for message in scene.last_request if message.role == "assistant"])
        calls = [call_id for call_id in ("call_0", "call_1") if f"'{call_id}'" in requests]
        require(
            list(scene.results) == calls,
            f"the next request has the calls {calls} and the results {list(scene.results)}",
        )

    async def test_a_session_that_is_cancelled_makes_no_further_request(self) -> None:
        async with self.mount_module() as coordinator:

            async def cancel_session() -> ToolResult:
                coordinator.cancellation.request_graceful()
                return ToolResult(output=RESULT)

            model = PreparedModel(request_calls(("stop", {"now": True})), ANSWER)
            scene = OrchestratorScene(coordinator, self.host, model, [FunctionTool("stop", cancel_session)])
            await scene.execute()
        require(model.call_count == 1, "the model is asked again after the session is cancelled")
        results = [message for message in scene.context.messages if message["role"] == "tool"]
        require(len(results) == 1, "the result of a call that was complete is not in the history")


async def _cancel_execution(scene: OrchestratorScene, call: PendingCall) -> None:
    """Run the orchestrator, and cancel it when it waits for the pending call."""
    async with open_task_group() as tasks:
        tasks.start_soon(scene.execute)
        await call.has_started.wait()
        tasks.cancel_scope.cancel()
