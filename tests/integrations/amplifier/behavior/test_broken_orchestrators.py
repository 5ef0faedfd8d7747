"""Every rule of the suite for orchestrators finds a violation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcp_bridge._integrations.amplifier.behavior import OrchestratorBehaviorTests, find_violations
from mcp_bridge._integrations.amplifier.message_models import ChatRequest, Message, ToolSpec
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge.amplifier.testing import ScriptedOrchestrator
from tests.kits.amplifier.broken_modules import list_own_rules, run_rule

CUT = "[the call was interrupted]"


@dataclass(frozen=True, kw_only=True)
class Flaws:
    """The flaws of a small orchestrator; none by default."""

    returns: str = "text"
    loses: tuple[str, ...] = ()
    asks_context: bool = True
    declares_tools: bool = True
    forgets: bool = False
    sends_everything: bool = True
    keeps_reasoning: bool = True
    passes_arguments: bool = True
    skips_empty: bool = False
    is_concurrent: bool = True
    catches: bool = True
    follows: tuple[str, ...] = ("deny", "modify", "ask_user", "inject_context", "result", "post", "request", "prompt")
    emits: tuple[str, ...] = ("provider:error", "tool:error", "orchestrator:complete", "provider:response")
    asks_every_model: bool = False
    is_limited: bool = True
    detaches: str = ""
    repairs: bool = True
    heeds_session: bool = True
    builds_early: bool = False


class SmallOrchestrator:
    """The shortest orchestrator for the contract, except for its flaws."""

    def __init__(self, flaws: Flaws, config: dict[str, Any]) -> None:
        self.flaws = flaws
        self.most = config.get("max_iterations", 10) if flaws.is_limited else 1000
        self.default = config.get("default_provider")
        self.left: list[asyncio.Future[Any]] = []

    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, coordinator: Any = None
    ) -> Any:
        self.context, self.tools, self.hooks, self.coordinator = context, tools, hooks, coordinator
        self.queued: list[dict[str, Any]] = []
        await self.repair_history()
        decision = await self.decide("prompt:submit", {"prompt": prompt})
        changed = decision.data["prompt"] if "prompt" in self.flaws.follows else prompt
        await self.add({"role": "user", "content": changed})
        name = self.default if self.default in providers else next(iter(providers))
        if self.flaws.asks_every_model:
            for provider in providers.values():
                await provider.complete(ChatRequest(messages=[]))
        text = await self.run_turns(name, providers[name])
        if "orchestrator:complete" in self.flaws.emits:
            await hooks.emit("orchestrator:complete", {"orchestrator": "small", "status": "success"})
        if self.flaws.forgets:
            await context.clear()
        return {"text": text, "nothing": "", "bytes": text.encode()}[self.flaws.returns]

    async def run_turns(self, name: str, model: Any) -> str:
        for _ in range(self.most):
            if self.flaws.heeds_session and self.coordinator.cancellation.is_cancelled:
                return "cancelled"
            request = await self.build_request(model) if self.flaws.builds_early else None
            decision = await self.decide("provider:request", {"provider": name})
            if decision.action == "deny" and "request" in self.flaws.follows:
                return str(decision.reason)
            try:
                response = await self.detach(model.complete(request or await self.build_request(model)), "model")
            except Exception as error:
                if "provider:error" in self.flaws.emits:
                    await self.hooks.emit("provider:error", {"error": str(error)})
                return str(error) if self.flaws.catches else "sorry"
            if "provider:response" in self.flaws.emits:
                await self.hooks.emit("provider:response", {"provider": name, "usage": response.usage})
            calls = model.parse_tool_calls(response)
            text = "".join(block.text for block in response.content if block.type == "text")
            blocks = [block.model_dump() for block in response.content]
            message = {"role": "assistant", "content": blocks if self.flaws.keeps_reasoning else text}
            await self.add(message | ({"tool_calls": [call.model_dump() for call in calls]} if calls else {}))
            if not calls:
                return text
            await self.run_calls(calls)
        return "too long"

    async def build_request(self, model: Any) -> ChatRequest:
        results = await self.context.get_messages_for_request(provider=model) if self.flaws.asks_context else []
        results = results or list(self.context.messages)
        additions, self.queued = self.queued, []
        specs = [
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.input_schema)
            for tool in self.tools.values()
        ]
        keys = {"role", "content", "tool_calls", "tool_call_id"} if self.flaws.sends_everything else {"role", "content"}
        sent = [{key: tool[key] for key in keys & set(tool)} for tool in [*results, *additions]]
        messages = [Message(**{**tool, "content": tool["content"] or ""}) for tool in sent]
        return ChatRequest(messages=messages, tools=(specs or None) if self.flaws.declares_tools else None)

    async def run_calls(self, calls: Any) -> None:
        results: dict[str, str] = {}

        async def run(call: Any) -> None:
            results[call.id] = await self.run_call(call)

        if self.flaws.is_concurrent:
            async with anyio.create_task_group() as tasks:
                for call in calls:
                    tasks.start_soon(run, call)
        else:
            for call in calls:
                await run(call)
        for call in calls:
            await self.add({"role": "tool", "tool_call_id": call.id, "content": results[call.id]})

    async def run_call(self, call: Any) -> str:
        if call.name not in self.tools:
            return f"there is no {call.name}"
        data = {"tool_name": call.name, "tool_input": call.arguments}
        decision = await self.decide("tool:pre", data)
        if decision.action == "deny":
            return str(decision.reason)
        arguments = (decision.data or data)["tool_input"] if "modify" in self.flaws.follows else call.arguments
        if self.flaws.skips_empty and not arguments:
            return "no arguments"
        try:
            result = await self.detach(
                self.tools[call.name].execute(arguments if self.flaws.passes_arguments else {}), "tool"
            )
            if not result.success and "error" in self.flaws.loses:
                return "Failed"
            output = str(result.output)
        except Exception as error:
            if "tool:error" in self.flaws.emits:
                await self.hooks.emit("tool:error", {**data, "error": str(error)})
            return str(error)
        after = await self.decide("tool:post", {**data, "tool_input": arguments, "result": output})
        return str((after.data or {}).get("result", output)) if "result" in self.flaws.follows else output

    async def decide(self, event: str, data: dict[str, Any]) -> Any:
        decision = await self.hooks.emit(event, data)
        if decision.action == "inject_context":
            if event == "tool:post" and "post" not in self.flaws.follows:
                return decision
            if "inject_context" in self.flaws.follows and decision.ephemeral:
                self.queued.append({"role": "user", "content": decision.context_injection})
        if decision.action not in self.flaws.follows and decision.action != "continue":
            return HookResult(data=decision.data)
        decided = await self.coordinator.process_hook_result(decision, event, "small")
        return decision.model_copy(update={"action": decided.action, "reason": decided.reason})

    async def add(self, message: dict[str, Any]) -> None:
        if message["role"] not in self.flaws.loses:
            await self.context.add_message(message)

    async def detach(self, waiting: Any, what: str) -> Any:
        """Wait, with the flaw in a task without a cancellation."""
        if self.flaws.detaches != what:
            return await waiting
        task = asyncio.ensure_future(waiting)
        self.left.append(task)
        return await asyncio.shield(task)

    async def repair_history(self) -> None:
        messages = await self.context.get_messages()
        if self.flaws.repairs and messages and messages[-1].get("tool_calls"):
            for call in messages[-1]["tool_calls"]:
                await self.add({"role": "tool", "tool_call_id": call["id"], "content": CUT})


def ignore(*actions: str) -> Flaws:
    return Flaws(follows=tuple(action for action in Flaws.follows if action not in actions))


def omit_event(event: str) -> Flaws:
    return Flaws(emits=tuple(name for name in Flaws.emits if name != event))


class Waitless:
    def execute(self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any) -> str:
        return "Done."


BROKEN: dict[str, Flaws | None] = {
    "execute_takes_the_arguments_of_the_contract_and_the_coordinator": None,
    "the_final_text_of_the_model_is_returned": Flaws(returns="nothing"),
    "a_turn_without_tools_works": Flaws(returns="bytes"),
    "prompt_response_and_result_are_added_to_the_context": Flaws(loses=("assistant",)),
    "every_request_gets_its_messages_from_the_context": Flaws(asks_context=False),
    "requests_declare_the_tools": Flaws(declares_tools=False),
    "an_execution_continues_the_history": Flaws(forgets=True),
    "a_history_in_the_format_of_the_contract_is_continued": Flaws(sends_everything=False),
    "reasoning_is_returned_to_the_model_with_its_signature": Flaws(keeps_reasoning=False),
    "a_tool_receives_its_arguments_and_the_model_its_result": Flaws(passes_arguments=False),
    "a_call_without_arguments_runs": Flaws(skips_empty=True),
    "calls_of_one_response_run_concurrently_and_results_keep_their_order": Flaws(is_concurrent=False),
    "failing_raising_and_unknown_tools_are_reported_to_the_model": Flaws(loses=("error",)),
    "prompt_submit_modify_changes_the_prompt": ignore("prompt"),
    "tool_pre_deny_prevents_the_call": ignore("deny"),
    "tool_pre_modify_changes_the_arguments": ignore("modify"),
    "tool_pre_inject_context_reaches_the_model_and_the_call_runs": ignore("inject_context"),
    "tool_pre_ask_user_runs_the_call_only_if_the_user_agrees": ignore("ask_user"),
    "tool_post_modify_changes_the_result": ignore("result"),
    "tool_post_inject_context_reaches_the_model": ignore("post"),
    "provider_request_inject_context_reaches_this_request": Flaws(builds_early=True),
    "a_request_that_a_hook_denies_is_not_sent": ignore("request"),
    "events_come_in_order_with_their_data": omit_event("provider:response"),
    "a_call_that_fails_emits_tool_error": omit_event("tool:error"),
    "only_one_provider_is_used_and_default_provider_selects_it": Flaws(asks_every_model=True),
    "max_iterations_stops_a_model_that_never_stops": Flaws(is_limited=False),
    "the_error_of_a_provider_ends_the_execution": omit_event("provider:error"),
    "cancellation_stops_the_request_to_the_model": Flaws(detaches="model"),
    "cancellation_stops_running_tools": Flaws(detaches="tool"),
    "after_a_cancellation_every_call_has_a_result": Flaws(repairs=False),
    "a_session_that_is_cancelled_makes_no_further_request": Flaws(heeds_session=False),
}
"""The flaw of an orchestrator that breaks the rule, by rule."""


@contextlib.asynccontextmanager
async def build_module(flaws: Flaws | None) -> AsyncIterator[Any]:
    """Build a module for the orchestrator. Its remaining tasks end with the block."""
    module: list[Any] = []

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        module.append(Waitless() if flaws is None else SmallOrchestrator(flaws, config))
        await coordinator.mount("orchestrator", module[-1])

    yield SimpleNamespace(mount=mount)
    for task in [task for item in module for task in getattr(item, "left", ())]:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


def test_every_rule_has_an_example() -> None:
    assert list_own_rules(OrchestratorBehaviorTests) == set(BROKEN)


@pytest.mark.parametrize("rule", BROKEN)
async def test_a_rule_finds_an_orchestrator_that_breaks_it(rule: str) -> None:
    async with build_module(Flaws()) as module:
        assert await run_rule(OrchestratorBehaviorTests, rule, module) == ""
    async with build_module(BROKEN[rule]) as module:
        assert await run_rule(OrchestratorBehaviorTests, rule, module, timeout=0.5)


async def test_an_orchestrator_that_asks_no_model_breaks_the_contract() -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("orchestrator", ScriptedOrchestrator(["It is three centimetres."] * 9))

    violations = await find_violations(OrchestratorBehaviorTests, SimpleNamespace(mount=mount), timeout=0.5)
    assert violations["every_request_gets_its_messages_from_the_context"].startswith("of 0 requests")
    assert "the_final_text_of_the_model_is_returned" not in violations
    assert "execute_takes_the_arguments_of_the_contract_and_the_coordinator" not in violations
