"""The loop of an agent, which `loop-basic` and `loop-streaming` mount (ORCHESTRATOR_CONTRACT 1.0.0).

The loop asks the model, runs the requested tools, and returns the final text:

    prompt -> [request -> response -> tool calls -> results]* -> request -> response -> text

It adds everything to the history of the context, so that the next execution continues there. An execution ends early if
a budget is used up, a hook denies a step, the provider fails, or the session is cancelled. It then returns its text so
far, and the reason. The budgets of an agent also count the agents that it has started (`Spending`).

The two modules differ in one point: `loop-streaming` reports the text of a response while it grows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict, Field

from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.hook_decisions import get_injections
from mcp_bridge._integrations.amplifier.inspection import read_schema
from mcp_bridge._integrations.amplifier.llm_errors import InvalidToolCallError, LLMError
from mcp_bridge._integrations.amplifier.loops.tool_calls import HookEmitter, ToolRunner
from mcp_bridge._integrations.amplifier.message_models import (
    TRUNCATED,
    ChatRequest,
    Message,
    ToolCall,
    ToolSpec,
    describe_unfinished,
)
from mcp_bridge._integrations.amplifier.results import encode_json
from mcp_bridge._integrations.amplifier.running_call import pause_while_asking
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._runtime.third_party import describe_error

logger = logging.getLogger("mcp_bridge.amplifier")

_INCOMPLETE = "Error: the run ended before the result of this call was recorded. The call may have had effects."
_NO_PRICE = (
    "The budget max_cost cannot be kept, because the cost of the provider '{}' is not known. Use a provider that "
    "reports it, or set max_tokens instead."
)
_CONTINUE = {"role": "user", "content": "Your response was truncated. Continue where it stopped, and repeat nothing."}


class LoopConfig(BaseModel):
    """The configuration of a loop.

    Attributes:
        default_provider: The provider of requests; by default the first one.
        max_iterations: The maximum number of requests to the model for one prompt.
        max_tokens: The maximum number of tokens of all requests together.
        max_cost: The maximum cost in US dollars. A response without a known cost stops the run.
        max_seconds: The maximum duration in seconds, without the time in which questions wait for the user.
        max_repeated_calls: How often a tool may be called with the same arguments.
        max_continuations: How often in a row the model is asked to continue a truncated response.
    """

    model_config = ConfigDict(extra="ignore")

    default_provider: str | None = None
    max_iterations: int = Field(default=50, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_cost: Decimal | None = Field(default=None, gt=0)
    max_seconds: float | None = Field(default=None, gt=0)
    max_repeated_calls: int = Field(default=3, gt=0)
    max_continuations: int = Field(default=3, ge=0)


@dataclass
class Spending:
    """The tokens and costs of one execution, including those of the agents that it has started.

    `outer` is the spending of the agent that has started this one. The spending of this execution also
    counts against the budgets of that agent.
    """

    config: LoopConfig
    outer: Spending | None = None
    iterations: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)

    def add(self, usage: Any) -> None:
        self.iterations += 1
        spending: Spending | None = self
        while spending is not None:
            spending.tokens += getattr(usage, "total_tokens", 0) or 0
            spending.cost += Decimal(str(getattr(usage, "cost_usd", None) or 0))
            spending = spending.outer

    @property
    def is_cost_limited(self) -> bool:
        """Whether this execution or one above it has a limit in US dollars."""
        return self.config.max_cost is not None or (self.outer is not None and self.outer.is_cost_limited)

    def find_exceeded(self) -> str:
        """Return the budget that is used up, or an empty string."""
        config = self.config
        if self.iterations >= config.max_iterations:
            return f"{config.max_iterations} requests to the model (max_iterations)"
        return self._find_spent()

    def _find_spent(self) -> str:
        config = self.config
        if config.max_tokens is not None and self.tokens >= config.max_tokens:
            return f"{config.max_tokens} tokens (max_tokens)"
        if config.max_cost is not None and self.cost >= config.max_cost:
            return f"{config.max_cost} US dollars (max_cost)"
        if self.outer is None:
            return ""
        budget = self.outer._find_spent()
        return f"{budget} of the agent that started this one" if budget else ""


_SPENDING: ContextVar[Spending | None] = ContextVar("spending", default=None)
"""The spending of the execution around the running tool."""


class StoppedError(Exception):
    """An execution ended without a final response of the model; the text says why."""


@dataclass
class Execution:
    """One execution of the loop.

    Attributes:
        texts: The text of the current response. A truncated response and its continuations are several pieces.
    """

    config: LoopConfig
    context: Any
    provider_name: str
    provider: Any
    tools: Mapping[str, Any]
    emitter: HookEmitter
    runner: ToolRunner
    cancellation: Any
    streams: bool
    spending: Spending
    model: str | None = None
    texts: list[str] = field(default_factory=list)

    async def run(self) -> str:
        """Return the final text. Raises StoppedError."""
        continuations = 0
        while True:
            response, calls = await self._ask_model()
            text = "".join(block.text for block in response.content if block.type == "text")
            await self.context.add_message(_to_history(response, text, calls))
            is_truncated = response.finish_reason in TRUNCATED
            if calls and not is_truncated:
                # The limit is for each response, and this response is complete.
                continuations = 0
                self.texts.clear()
                for message in await self.runner.run_calls(calls):
                    await self.context.add_message(message)
            elif is_truncated and continuations < self.config.max_continuations:
                continuations += 1
                self.texts.append(text)
                # Do not run these calls, because their arguments may have been truncated, too.
                for call in calls:
                    reason = "Error: the response was truncated before this call was complete. Use shorter arguments."
                    await self.context.add_message({"role": "tool", "tool_call_id": call.id, "content": reason})
                # The request to continue is only sent once, and not added to the history.
                self.emitter.pending_messages.append(dict(_CONTINUE))
            else:
                # If this response is truncated, too, its calls remain without results in the history. `_complete_calls`
                # adds the results at the next execution.
                self.texts.append(text)
                problem = describe_unfinished(response)
                if problem:
                    raise StoppedError(problem)
                return "".join(self.texts)

    async def _ask_model(self) -> tuple[Any, list[ToolCall]]:
        """Return a response and its tool calls. Raises StoppedError."""
        while True:
            if self.cancellation is not None and self.cancellation.is_cancelled:
                raise StoppedError("The session was cancelled.")
            budget = self.spending.find_exceeded()
            if budget:
                raise StoppedError(f"The budget was used up: {budget}.")
            if self.spending.is_cost_limited and not _has_price(self.provider):
                raise StoppedError(_NO_PRICE.format(self.provider_name))
            request = await self._build_request()
            response: Any = None
            try:
                response = await self._complete(request)
                calls = _separate_calls(response, self.provider.parse_tool_calls(response))
            except InvalidToolCallError as error:
                # The model gets another request to correct its arguments.
                self._record_usage(getattr(response, "usage", None))
                self.emitter.pending_messages.append({"role": "user", "content": str(error)})
                continue
            except Exception as error:
                if response is not None:
                    # The response is paid for, although its calls cannot be read.
                    self.spending.add(getattr(response, "usage", None))
                data = {"provider": self.provider_name, "error": {"type": type(error).__name__, "message": str(error)}}
                await self.emitter.emit(events.PROVIDER_ERROR, data)
                text = f"The provider '{self.provider_name}' failed: {describe_error(error)}"
                logger.warning("%s", text, exc_info=None if isinstance(error, LLMError) else error)
                raise StoppedError(text) from error
            self._record_usage(response.usage)
            data = {"provider": self.provider_name, "response": response, "usage": response.usage}
            decision = await self.emitter.emit(events.PROVIDER_RESPONSE, data)
            if decision.action == "deny":
                raise StoppedError(f"A hook denied the model's response: {decision.reason or 'no reason was given'}")
            return response, calls

    def _record_usage(self, usage: Any) -> None:
        """Count the usage of a response. Raises StoppedError if there is a budget in US dollars and no known cost."""
        self.spending.add(usage)
        if self.spending.is_cost_limited and getattr(usage, "cost_usd", None) is None:
            raise StoppedError(_NO_PRICE.format(self.provider_name))

    async def _build_request(self) -> ChatRequest:
        messages = await self.context.get_messages_for_request(provider=self.provider)
        iteration = self.spending.iterations + 1
        data = {"provider": self.provider_name, "model": self.model, "messages": messages, "iteration": iteration}
        decision = await self.emitter.emit(events.PROVIDER_REQUEST, data)
        if decision.action == "deny":
            raise StoppedError(f"A hook denied the request to the model: {decision.reason or 'no reason was given'}")
        # The coordinator may have added an injected text to the history, so read the history again.
        if decision.action == "inject_context" or get_injections(decision):
            messages = await self.context.get_messages_for_request(provider=self.provider)
        request_messages = []
        for message in (*messages, *self.emitter.take_messages()):
            # A message with tool calls may have no content (CONTEXT_CONTRACT, "Message Format").
            request_messages.append(Message(**{**message, "content": message.get("content") or ""}))
        tools = []
        for name, tool in self.tools.items():
            schema = read_schema(tool) or {"type": "object"}
            tools.append(ToolSpec(name=name, description=str(tool.description), parameters=schema))
        return ChatRequest(messages=request_messages, tools=tools or None)

    async def _complete(self, request: ChatRequest) -> Any:
        if not self.streams:
            return await self.provider.complete(request)

        async def report(text: str) -> None:
            data = {"block_type": "text", "delta": text, "provider": self.provider_name}
            await self.emitter.emit(events.CONTENT_BLOCK_DELTA, data)

        return await self.provider.complete(request, on_text=report)


class AgentLoop:
    """An orchestrator. With `streams`, pieces of responses are emitted as `content_block:delta`."""

    def __init__(self, name: str, config: LoopConfig, coordinator: Any = None, *, streams: bool = False) -> None:
        self.name = name
        self._config = config
        self._coordinator = coordinator
        self._streams = streams

    def describe_missing_price(self, providers: Mapping[str, Any]) -> str:
        """Return why no request can be made with the default provider; empty if one can be made."""
        name = self._choose_provider(providers)
        if self._config.max_cost is None or name not in providers or _has_price(providers[name]):
            return ""
        return _NO_PRICE.format(name)

    def _choose_provider(self, providers: Mapping[str, Any]) -> str:
        return self._config.default_provider or next(iter(providers), "")

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: Mapping[str, Any],
        tools: Mapping[str, Any],
        hooks: Any,
        **kwargs: Any,
    ) -> str:
        """Return the model's response to a prompt, after as many model and tool calls as it takes.

        Args:
            prompt: The question or task of the user.
            context: The history. Everything is added to it.
            providers: The models by name; `provider=` among the further arguments chooses one.
            tools: The tools by name.
            hooks: Receives the events, and decides about calls.
            kwargs: `coordinator` replaces the coordinator of `mount`.

        If an execution stops early, it returns its text so far and the reason. The `status` of `orchestrator:complete`
        is `success`, `incomplete`, `denied` or `error`.
        """
        coordinator = kwargs.get("coordinator") or self._coordinator
        emitter = HookEmitter(hooks, coordinator, self.name)
        decision = await emitter.emit(events.PROMPT_SUBMIT, {"prompt": prompt})
        if decision.action == "deny":
            return await self._report(emitter, "denied", f"A hook denied the prompt: {decision.reason or ''}", None)
        await _complete_calls(context)
        prompt = str((decision.data or {}).get("prompt", prompt))
        await context.add_message({"role": "user", "content": prompt})
        name = str(kwargs.get("provider") or self._choose_provider(providers))
        if name not in providers:
            problem = "No provider is mounted."
            if providers:
                problem = f"There is no provider '{name}'. Mounted providers: {', '.join(providers)}."
            return await self._report(emitter, "error", problem, None)
        execution = Execution(
            config=self._config,
            context=context,
            provider_name=name,
            provider=providers[name],
            tools=tools,
            emitter=emitter,
            runner=ToolRunner(tools, emitter, coordinator, max_repeats=self._config.max_repeated_calls),
            cancellation=getattr(coordinator, "cancellation", None),
            streams=self._streams and _can_stream(providers[name]),
            spending=Spending(self._config, _SPENDING.get()),
            model=_find_model(providers[name]),
        )
        return await self._run(execution)

    async def _run(self, execution: Execution) -> str:
        token = _SPENDING.set(execution.spending)
        try:
            with anyio.move_on_after(self._config.max_seconds) as scope, pause_while_asking(scope):
                text = await execution.run()
                return await self._report(execution.emitter, "success", text, execution.spending)
        except StoppedError as stopped:
            reason = str(stopped)
        else:
            # The block has ended without a return, so its time is over.
            reason = f"The budget was used up: {self._config.max_seconds:g} seconds (max_seconds)."
        finally:
            _SPENDING.reset(token)
        text = "".join(execution.texts)
        if execution.texts:
            text += "\n\n"
        text += f"[Stopped early. {reason}]"
        return await self._report(execution.emitter, "incomplete", text, execution.spending)

    async def _report(self, emitter: HookEmitter, status: str, text: str, spending: Spending | None) -> str:
        """Emit `orchestrator:complete` and return the text."""
        spending = spending or Spending(self._config)
        data = {
            "orchestrator": self.name,
            "status": status,
            "response": text,
            "turn_count": spending.iterations,
            "tokens": spending.tokens,
            "cost_usd": str(spending.cost),
        }
        await emitter.emit(events.ORCHESTRATOR_COMPLETE, data)
        return text


async def _complete_calls(context: Any) -> None:
    """Add the missing results of the last calls in the history, because the APIs of models require one for each call.

    Results are missing if calls were cancelled, or if the process ended before them.
    """
    result_ids = set()
    for message in reversed(await context.get_messages()):
        if message["role"] == "tool":
            result_ids.add(message.get("tool_call_id"))
        elif message["role"] in ("assistant", "user"):
            for call in message.get("tool_calls") or ():
                # Another program may have written a call without an id, to which no result can refer.
                call_id = call.get("id") if isinstance(call, Mapping | ToolCall) else None
                if isinstance(call_id, str) and call_id not in result_ids:
                    await context.add_message({"role": "tool", "tool_call_id": call_id, "content": _INCOMPLETE})
            return


def _has_price(provider: Any) -> bool:
    """Return whether the provider may report the cost of its responses. The contract does not require `has_price`."""
    has_price = getattr(provider, "has_price", None)
    return has_price is None or bool(has_price())


def _find_model(provider: Any) -> str | None:
    """Return the default model of a provider, if it describes one."""
    try:
        return (provider.get_info().defaults or {}).get("model")
    except Exception:
        # The provider is third-party code.
        return None


def _can_stream(provider: Any) -> bool:
    """Return whether a provider can report text while it arrives. The contract does not require `on_text`."""
    try:
        return "on_text" in get_signature(provider.complete).parameters
    except (TypeError, ValueError):
        # Code that is not written in Python may have no signature.
        return False


def _to_history(response: Any, text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return a response as a message of the history.

    A block of reasoning keeps its `signature`, because later requests must return it to the provider.
    """
    blocks = [block.model_dump(mode="json", exclude_none=True) for block in response.content]
    is_plain = all(block["type"] == "text" for block in blocks)
    message: dict[str, Any] = {"role": "assistant", "content": text if is_plain else blocks}
    if calls:
        message["tool_calls"] = [_store_call(call) for call in calls]
    return message


def _store_call(call: ToolCall) -> dict[str, Any]:
    """Return a call as a message stores it, with the keys of Amplifier's public loops and of the Context contract.

    Contexts and providers may read either form.
    """
    function = {"name": call.name, "arguments": encode_json(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function, "tool": call.name, "arguments": call.arguments}


def _separate_calls(response: Any, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls with distinct ids. The blocks of the response get these ids, too."""
    counts: Counter[str] = Counter()
    blocks = [block for block in response.content if block.type == "tool_call"]
    distinct_calls = []
    for call in calls:
        counts[call.id] += 1
        if counts[call.id] == 1:
            distinct_calls.append(call)
            continue
        new_id = f"{call.id}_{counts[call.id]}"
        distinct_calls.append(ToolCall(id=new_id, name=call.name, arguments=call.arguments))
        same_id_blocks = [block for block in blocks if block.id == call.id]
        # The first block belongs to the call that keeps the id.
        if len(same_id_blocks) > 1:
            same_id_blocks[1].id = new_id
    return distinct_calls


async def mount_loop(coordinator: Any, loop: AgentLoop) -> AgentLoop:
    """Mount a loop and declare its events, on either host."""
    await coordinator.mount("orchestrator", loop)
    coordinator.register_contributor("observability.events", loop.name, lambda: [events.ORCHESTRATOR_COMPLETE])
    return loop
