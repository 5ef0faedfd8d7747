"""The Orchestrator contract: turns with a model that says what it is told to say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from mcp_bridge.amplifier import events
from mcp_bridge.amplifier.message_models import ChatRequest, ChatResponse, ToolCall, ToolCallBlock, Usage
from mcp_bridge.amplifier.models import HookResult
from mcp_bridge.amplifier.testing import EventRecorder, MockContextManager, MockProvider, MockTool
from mcp_bridge.amplifier.validation.bench import Bench
from mcp_bridge.amplifier.validation.examiner import Examiner, Outcome, Step, method

ENDLESS = 300
"""Completions after which a turn is taken for endless."""
_EVENTS = (events.PROVIDER_REQUEST, events.PROVIDER_RESPONSE, events.TOOL_PRE, events.TOOL_POST)
_PROMPT, _INJECTED, _RESULT, _ANSWER = "What is a sample?", "An injected sample.", "A result.", "The answer."


class _Asked(ToolCall):
    """A call, with its arguments under both names that the contracts have for them."""

    @property
    def input(self) -> dict[str, Any]:
        """Its arguments."""
        return self.arguments


class _Model(MockProvider):
    """Calls a tool, then answers; `endless` never answers, `fails` raises. It knows when it is asked too often."""

    def __init__(self, *, endless: bool = False, fails: bool = False) -> None:
        super().__init__([_called()] if endless else [_called(), _ANSWER], name="sample")
        self._fails = fails
        self.worn_out = anyio.Event()

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """The next response; none to those who ask without end."""
        await anyio.lowlevel.checkpoint()
        if self._fails:
            raise RuntimeError("the provider of the sample fails")
        if self.call_count >= ENDLESS:
            self.worn_out.set()
            await anyio.sleep_forever()
        return await super().complete(request, **kwargs)


class _Context(MockContextManager):
    """Knows whether it was asked for what a request may have."""

    was_asked = False

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Every message."""
        self.was_asked = True
        return await super().get_messages_for_request(token_budget, provider)


def _called() -> ChatResponse:
    arguments = {"text": "as asked"}
    return ChatResponse(
        content=[ToolCallBlock(id="call_1", name="sample", input=arguments)],
        tool_calls=[_Asked(id="call_1", name="sample", arguments=arguments)],
        usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
        finish_reason="tool_calls",
    )


class _Turn:
    """What one turn works with, and what it came to."""

    def __init__(self, *models: _Model) -> None:
        self.models = models or (_Model(),)
        self.tool = MockTool("sample", _RESULT)
        self.context = _Context()
        self.outcome = Outcome()

    @property
    def seen(self) -> str:
        """All that the model, or the context, was given."""
        return repr((self.context.messages, [request for model in self.models for request in model.requests]))


def steps(examiner: Examiner, bench: Bench) -> list[Step]:
    """Every check of the orchestrator."""
    one = _Loop(examiner, bench)
    parts = (
        ("orchestrator.execute", one.protocol),
        ("orchestrator.answers", one.answers),
        ("orchestrator.hooks", one.hooks),
        ("orchestrator.providers", one.providers),
        ("orchestrator.limit", one.limit),
        ("orchestrator.provider_errors", one.provider_errors),
    )
    return [Step(item=item, run=run, group="orchestrator") for item, run in parts]


class _Loop:
    """The orchestrator, as it is examined."""

    def __init__(self, examiner: Examiner, bench: Bench) -> None:
        self._examiner = examiner
        self._bench = bench
        self._loop = bench.get("orchestrator")

    async def protocol(self) -> None:
        """Its one method."""
        names = ("prompt", "context", "providers", "tools", "hooks")
        wrong = method(self._loop, "execute", named=dict.fromkeys(names))
        advice = "Write `async def execute(self, prompt, context, providers, tools, hooks, **kwargs)`"
        self._examiner.check("orchestrator.execute", wrong, advice)

    async def answers(self) -> None:
        """A turn in which all goes well."""
        recorder = EventRecorder()
        turn = await self._turn(_Turn(), *((event, recorder) for event in _EVENTS))
        answer = turn.outcome.answer
        wrong = turn.outcome.wrong or ("" if isinstance(answer, str) else f"it answered with a {type(answer).__name__}")
        if not wrong and not turn.tool.call_count:
            wrong = "the tool that the model asked for was not called"
        if not self._examiner.check("orchestrator.answers", wrong, "Call the tools, and answer with the model's text"):
            return
        missing = [event for event in _EVENTS if not recorder.get_events(event)]
        told = f"{', '.join(missing)} did not come" if missing else ""
        self._examiner.check("orchestrator.events", told, "Emit them through the hooks that `execute` is given")
        messages = repr(turn.context.messages)
        parts = (("prompt", _PROMPT), ("answer", _ANSWER), ("tool's result", _RESULT))
        lost = [name for name, text in parts if text not in messages]
        told = f"the context has no {', and no '.join(lost)}" if lost else ""
        told = told or ("" if turn.context.was_asked else "it never called context.get_messages_for_request()")
        self._examiner.check(
            "orchestrator.context", told, "Add each with context.add_message, and ask it what a request may have"
        )

    async def hooks(self) -> None:
        """What it does with decisions about a call; the person who is asked says no."""
        changed = {"text": "as changed"}
        cases: tuple[tuple[HookResult, Callable[[_Turn], bool]], ...] = (
            (HookResult(action="deny", reason="the sample says no"), lambda turn: not turn.tool.call_count),
            (
                HookResult(action="modify", data={"tool_name": "sample", "tool_input": changed}),
                lambda turn: turn.tool.last_input == changed,
            ),
            (HookResult(action="inject_context", context_injection=_INJECTED), lambda turn: _INJECTED in turn.seen),
            (
                HookResult(action="ask_user", approval_prompt="May it?", approval_default="deny"),
                lambda turn: not turn.tool.call_count,
            ),
        )
        wrong = [told for result, kept in cases if (told := await self._decided(result, kept))]
        advice = "Look at what hooks.emit('tool:pre', ...) answers before the tool is called"
        self._examiner.check("orchestrator.hooks", "; ".join(wrong), advice)

    async def _decided(self, result: HookResult, kept: Callable[[_Turn], bool]) -> str:
        async def decide(event: str, data: dict[str, Any]) -> HookResult:
            return result

        self._bench.approvals.answer = "Deny"
        turn = await self._turn(_Turn(), (events.TOOL_PRE, decide))
        if turn.outcome.wrong:
            return f"{result.action}: {turn.outcome.wrong}"
        return "" if kept(turn) else f"{result.action} had no effect"

    async def providers(self) -> None:
        """A turn with two."""
        turn = await self._turn(_Turn(_Model(), _Model()))
        self._examiner.check("orchestrator.providers", turn.outcome.wrong, "Choose one of the providers that are given")

    async def limit(self) -> None:
        """A turn with a model that always wants one call more."""
        model = _Model(endless=True)
        turn = _Turn(model)
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await model.worn_out.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            await self._turn(turn)
            tasks.cancel_scope.cancel()
        endless = model.worn_out.is_set() or turn.outcome.slow
        if turn.outcome.error is not None and not endless:
            self._examiner.skipped("orchestrator.limit", turn.outcome.wrong)
            return
        found = f"it asked the model {model.call_count} times, and more" if endless else ""
        self._examiner.check("orchestrator.limit", found, "Have a most of iterations, and stop there")

    async def provider_errors(self) -> None:
        """A turn with a model that cannot be reached."""
        turn = await self._turn(_Turn(_Model(fails=True)))
        self._examiner.check(
            "orchestrator.provider_errors", turn.outcome.wrong, "Catch it, and answer with what failed"
        )

    async def _turn(self, turn: _Turn, *handlers: tuple[str, Any]) -> _Turn:
        """Run one, with these hooks; what it works with is on the coordinator too, where some look for it."""
        self._bench.mount_points["context"] = turn.context
        self._bench.mount_points["tools"] = {"sample": turn.tool}
        unregister = [self._bench.hooks.register(event, handler, 50) for event, handler in handlers]
        try:
            turn.outcome = await self._examiner.call(self._loop.execute, **self._given(turn))
        finally:
            for each in unregister:
                each()
        return turn

    def _given(self, turn: _Turn) -> dict[str, Any]:
        """The five arguments; and the coordinator, which amplifier-core gives those who take it."""
        providers: Sequence[tuple[str, _Model]] = [(f"sample{n or ''}", model) for n, model in enumerate(turn.models)]
        given = {
            "prompt": _PROMPT,
            "context": turn.context,
            "providers": dict(providers),
            "tools": {"sample": turn.tool},
            "hooks": self._bench.hooks,
        }
        try:
            parameters = inspect.signature(self._loop.execute).parameters.values()
        except (TypeError, ValueError):
            return given
        if any(one.name == "coordinator" or one.kind is one.VAR_KEYWORD for one in parameters):
            given["coordinator"] = self._bench
        return given
