"""Checks of the Orchestrator contract: turns with a scripted model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel

from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.doubles import EventRecorder, MockContextManager, MockProvider, MockTool
from mcp_bridge._integrations.amplifier.message_models import ChatRequest, ChatResponse, ToolCall, ToolCallBlock, Usage
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._integrations.amplifier.validation.examiner import CallOutcome, Examiner, Step, describe_method_problem
from mcp_bridge._integrations.amplifier.validation.mounting import ModuleUnderTest, RecordingCoordinator

MAX_COMPLETIONS = 300  # completions after which a turn counts as endless
_EVENTS = (events.PROVIDER_REQUEST, events.PROVIDER_RESPONSE, events.TOOL_PRE, events.TOOL_POST)
_PROMPT, _INJECTED, _RESULT, _ANSWER = "What is a sample?", "An injected sample.", "A result.", "The answer."
_CHANGED = "As changed."


class _SampleCall(ToolCall):
    """A tool call with its arguments under both names that the contracts use."""

    @property
    def input(self) -> dict[str, Any]:
        return self.arguments


class _SampleModel(MockProvider):
    """A model that calls a tool, then returns text. With `endless` it only calls tools, with `fails` it raises."""

    def __init__(self, *, endless: bool = False, fails: bool = False) -> None:
        arguments = {"text": "as asked"}
        call = ChatResponse(
            content=[ToolCallBlock(id="call_1", name="sample", input=arguments)],
            tool_calls=[_SampleCall(id="call_1", name="sample", arguments=arguments)],
            usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
            finish_reason="tool_calls",
        )
        super().__init__([call] if endless else [call, _ANSWER], name="sample")
        self._fails = fails
        self.is_exhausted = anyio.Event()

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        await anyio.lowlevel.checkpoint()
        if self._fails:
            raise RuntimeError("the provider of the sample fails")
        if self.call_count >= MAX_COMPLETIONS:
            self.is_exhausted.set()
            await anyio.sleep_forever()
        return await super().complete(request, **kwargs)


class _SampleContext(MockContextManager):
    """Records whether it was asked for the messages of a request."""

    was_asked = False

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        self.was_asked = True
        return await super().get_messages_for_request(token_budget, provider)


class _Turn:
    """What one turn works with, and its outcome."""

    def __init__(self, *models: _SampleModel) -> None:
        self.models = models or (_SampleModel(),)
        self.tool = MockTool("sample", _RESULT)
        self.context = _SampleContext()
        self.outcome = CallOutcome()

    @property
    def transcript(self) -> str:
        """All that the models and the context received."""
        return repr((self.context.messages, [request for model in self.models for request in model.requests]))


@dataclass(frozen=True, slots=True)
class _DecisionCase:
    """A decision of a hook about an event, and whether an orchestrator has followed it in a turn."""

    event: str
    decision: HookResult
    is_followed: Callable[[_Turn], bool]


def _has_no_request(turn: _Turn) -> bool:
    return not turn.models[0].call_count


def _has_no_call(turn: _Turn) -> bool:
    return not turn.tool.call_count


def _has_injected(turn: _Turn) -> bool:
    return _INJECTED in turn.transcript


_DENY = HookResult(action="deny", reason="the sample denies it")
_ASK = HookResult(action="ask_user", approval_prompt="May it?", approval_default="deny")
_INJECT = HookResult(action="inject_context", context_injection=_INJECTED)
_INJECT_ONCE = HookResult(action="inject_context", context_injection=_INJECTED, ephemeral=True)
_CHANGED_CALL: dict[str, Any] = {"tool_name": "sample", "tool_input": {"text": _CHANGED}}
_CALL_CASES = (
    _DecisionCase(events.TOOL_PRE, _DENY, _has_no_call),
    _DecisionCase(
        events.TOOL_PRE,
        HookResult(action="modify", data=_CHANGED_CALL),
        lambda turn: turn.tool.last_input == {"text": _CHANGED},
    ),
    _DecisionCase(events.TOOL_PRE, _INJECT, _has_injected),
    _DecisionCase(events.TOOL_PRE, _ASK, _has_no_call),
)
_RUN_CASES = (
    *(
        _DecisionCase(event, decision, _has_no_request)
        for event in (events.PROMPT_SUBMIT, events.PROVIDER_REQUEST)
        for decision in (_DENY, _ASK)
    ),
    _DecisionCase(
        events.PROMPT_SUBMIT,
        HookResult(action="modify", data={"prompt": _CHANGED}),
        lambda turn: _PROMPT not in turn.transcript,
    ),
    _DecisionCase(events.PROVIDER_RESPONSE, _DENY, _has_no_call),
    _DecisionCase(events.TOOL_POST, _DENY, lambda turn: _RESULT not in turn.transcript),
    _DecisionCase(
        events.TOOL_POST,
        HookResult(action="modify", data={"result": _CHANGED, "tool_result": _CHANGED}),
        lambda turn: _CHANGED in turn.transcript and _RESULT not in turn.transcript,
    ),
    *(
        _DecisionCase(event, decision, _has_injected)
        for event in (events.PROMPT_SUBMIT, events.PROVIDER_REQUEST, events.TOOL_POST)
        for decision in (_INJECT, _INJECT_ONCE)
    ),
)


def build_orchestrator_steps(examiner: Examiner, mounted: ModuleUnderTest) -> list[Step]:
    check = _OrchestratorCheck(examiner, mounted.coordinator)
    parts = (
        ("orchestrator.execute", check.check_protocol),
        ("orchestrator.answers", check.check_turn),
        ("orchestrator.hooks", check.check_call_decisions),
        ("orchestrator.decisions", check.check_run_decisions),
        ("orchestrator.providers", check.check_providers),
        ("orchestrator.limit", check.check_limit),
        ("orchestrator.provider_errors", check.check_provider_errors),
    )
    return [Step(item=item, run=run, group="orchestrator") for item, run in parts]


class _OrchestratorCheck:
    def __init__(self, examiner: Examiner, coordinator: RecordingCoordinator) -> None:
        self._examiner = examiner
        self._coordinator = coordinator
        self._orchestrator = coordinator.get("orchestrator")

    async def check_protocol(self) -> None:
        names = ("prompt", "context", "providers", "tools", "hooks")
        problem = describe_method_problem(self._orchestrator, "execute", named=dict.fromkeys(names))
        advice = "Write `async def execute(self, prompt, context, providers, tools, hooks, **kwargs)`"
        self._examiner.check("orchestrator.execute", problem, advice)

    async def check_turn(self) -> None:
        check, recorder = self._examiner.check, EventRecorder()
        turn = await self._run_turn(_Turn(), *((event, recorder) for event in _EVENTS))
        result, problem = turn.outcome.result, turn.outcome.problem
        if not problem and not isinstance(result, str):
            problem = f"it returned a {type(result).__name__}"
        if not problem and not turn.tool.call_count:
            problem = "it did not call the tool that the model asked for"
        if not check("orchestrator.answers", problem, "Call the tools, and return the model's text"):
            return
        missing = [event for event in _EVENTS if not recorder.get_events(event)]
        problem = f"{', '.join(missing)} did not come" if missing else ""
        check("orchestrator.events", problem, "Emit them through the `hooks` argument of `execute`")
        messages = repr(turn.context.messages)
        parts = (("prompt", _PROMPT), ("answer", _ANSWER), ("tool's result", _RESULT))
        lost = [name for name, text in parts if text not in messages]
        problem = f"the context has no {', and no '.join(lost)}" if lost else ""
        if not problem and not turn.context.was_asked:
            problem = "it never called context.get_messages_for_request()"
        advice = "Add each with context.add_message, and ask the context for the messages of each request"
        check("orchestrator.context", problem, advice)

    async def check_call_decisions(self) -> None:
        advice = "Apply the result of hooks.emit('tool:pre', ...) before calling the tool"
        await self._check_decisions("orchestrator.hooks", _CALL_CASES, advice)

    async def check_run_decisions(self) -> None:
        advice = "Pass each result to coordinator.process_hook_result, and use its action and its data"
        await self._check_decisions("orchestrator.decisions", _RUN_CASES, advice)

    async def _check_decisions(self, item: str, cases: Sequence[_DecisionCase], advice: str) -> None:
        """Run a turn for each decision that a hook can make. The user who is asked denies."""
        problems = [problem for case in cases if (problem := await self._check_decision(case))]
        self._examiner.check(item, "; ".join(problems), advice)

    async def _check_decision(self, case: _DecisionCase) -> str:
        asked: list[str] = []

        async def decide(event: str, data: dict[str, Any]) -> HookResult:
            asked.append(event)
            return case.decision

        self._coordinator.approvals.answer = "Deny"
        turn = await self._run_turn(_Turn(), (case.event, decide))
        if not asked and case.event in _EVENTS:
            return ""  # `orchestrator.events` reports it
        kind = f"{'an ephemeral ' if case.decision.ephemeral else ''}{case.decision.action} at {case.event}"
        if turn.outcome.problem:
            return f"{kind}: {turn.outcome.problem}"
        return "" if case.is_followed(turn) else f"{kind} had no effect"

    async def check_providers(self) -> None:
        turn = await self._run_turn(_Turn(_SampleModel(), _SampleModel()))
        self._examiner.check("orchestrator.providers", turn.outcome.problem, "Choose one of the given providers")

    async def check_limit(self) -> None:
        model = _SampleModel(endless=True)
        turn = _Turn(model)
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await model.is_exhausted.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            await self._run_turn(turn)
            tasks.cancel_scope.cancel()
        is_endless = model.is_exhausted.is_set() or turn.outcome.is_slow
        if turn.outcome.error is not None and not is_endless:
            self._examiner.report_skipped("orchestrator.limit", turn.outcome.problem)
            return
        problem = f"it asked the model {model.call_count} times, and more" if is_endless else ""
        self._examiner.check("orchestrator.limit", problem, "Set a maximum of iterations, and stop there")

    async def check_provider_errors(self) -> None:
        turn = await self._run_turn(_Turn(_SampleModel(fails=True)))
        advice = "Catch the error, and return what failed"
        self._examiner.check("orchestrator.provider_errors", turn.outcome.problem, advice)

    async def _run_turn(self, turn: _Turn, *handlers: tuple[str, Any]) -> _Turn:
        """Run a turn. What it works with is also on the coordinator, where some orchestrators look for it."""
        self._coordinator.mount_points["context"] = turn.context
        self._coordinator.mount_points["tools"] = {"sample": turn.tool}
        with ExitStack() as stack:
            for event, handler in handlers:
                stack.callback(self._coordinator.hooks.register(event, handler, 50))
            turn.outcome = await self._examiner.call(self._orchestrator.execute, **self._build_arguments(turn))
        return turn

    def _build_arguments(self, turn: _Turn) -> dict[str, Any]:
        """The five arguments, and the coordinator where `execute` takes it, as amplifier-core passes it."""
        arguments = {
            "prompt": _PROMPT,
            "context": turn.context,
            "providers": {f"sample{number or ''}": model for number, model in enumerate(turn.models)},
            "tools": {"sample": turn.tool},
            "hooks": self._coordinator.hooks,
        }
        try:
            parameters = inspect.signature(self._orchestrator.execute).parameters.values()
        except (TypeError, ValueError):
            return arguments
        if any(one.name == "coordinator" or one.kind is one.VAR_KEYWORD for one in parameters):
            arguments["coordinator"] = self._coordinator
        return arguments
