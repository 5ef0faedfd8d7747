"""Runs the tool calls of a model, under the decisions of hooks.

Each call passes `tool:pre`, the tool and `tool:post`; a hook may deny it or change it at both events. The calls of one
response run concurrently. Every call has a result, also if it is denied, unknown, repeated too often, or raises: the
APIs of models require one result for each call.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import anyio

from mcp_bridge._contracts.content import Image
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._integrations.amplifier.events import TOOL_ERROR, TOOL_POST, TOOL_PRE
from mcp_bridge._integrations.amplifier.hook_decisions import get_injections
from mcp_bridge._integrations.amplifier.message_models import ToolCall
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._integrations.amplifier.results import (
    from_hook_data,
    list_images,
    render_content,
    to_hook_data,
    to_result,
)
from mcp_bridge._protocol.wire import values
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation, resolve_awaitable

logger = logging.getLogger("mcp_bridge.amplifier")


class HookEmitter:
    """Emits events and applies the decisions of hooks, through the coordinator if the loop has one.

    `pending_messages` are for the next request only, and are not added to the history.
    """

    def __init__(self, hooks: Any, coordinator: Any, name: str) -> None:
        self._hooks = hooks
        self._coordinator = coordinator
        self._name = name
        self.pending_messages: list[dict[str, Any]] = []

    def take_messages(self) -> list[dict[str, Any]]:
        """Return the pending messages, and forget them."""
        messages = self.pending_messages
        self.pending_messages = []
        return messages

    async def emit(self, event: str, data: Mapping[str, Any]) -> HookResult:
        """Emit an event, and return the decision of the hooks. If a hook asks the user, the user decides.

        Injected texts are added to the history or, if they are ephemeral, to the next request.
        """
        decision = await self._hooks.emit(event, dict(data))
        result = decision if isinstance(decision, HookResult) else HookResult.model_validate(decision.model_dump())
        for injection in get_injections(result):
            if injection.append_to_last_tool_result and event == TOOL_POST:
                # `ToolRunner` appends the text to the result.
                continue
            if injection.ephemeral or self._coordinator is None:
                self.pending_messages.append({"role": injection.role, "content": injection.content})
        if self._coordinator is not None:
            outcome = await self._coordinator.process_hook_result(decision, event, self._name)
            return result.model_copy(update={"action": outcome.action, "reason": outcome.reason})
        if result.action == "ask_user":
            reason = "This call needs approval, but no user can be asked."
            return result.model_copy(update={"action": "deny", "reason": reason})
        return result


class ToolRunner:
    """Runs the calls of one execution; those of one response run concurrently.

    After `max_repeats` calls with the same arguments, the same call does not run again.
    """

    def __init__(self, tools: Mapping[str, Any], emitter: HookEmitter, coordinator: Any, *, max_repeats: int) -> None:
        self._tools = tools
        self._emitter = emitter
        self._cancellation = getattr(coordinator, "cancellation", None)
        self._max_repeats = max_repeats
        self._counts: Counter[str] = Counter()

    async def run_calls(self, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
        """Return the results as messages, in the order of the calls. Only a cancellation raises."""
        group = uuid4().hex
        replies: dict[int, _Reply] = {}

        async def run_call(index: int, call: ToolCall) -> None:
            replies[index] = await self._handle_call(call, group)

        async with anyio.create_task_group() as tasks:
            for index, call in enumerate(calls):
                tasks.start_soon(run_call, index, call)
        return [replies[index].build_message(call) for index, call in enumerate(calls)]

    async def _handle_call(self, call: ToolCall, group: str) -> _Reply:
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(self._tools)) or "none"
            return _Reply(f"Error: there is no tool '{call.name}'. The tools are: {names}.", is_error=True)
        key = json.dumps([call.name, call.arguments], default=str, sort_keys=True)
        self._counts[key] += 1
        limit = self._max_repeats
        if self._counts[key] > limit:
            text = f"Error: this call was already made {limit} times with the same arguments. Do something else."
            return _Reply(text, is_error=True)
        data = {
            "tool_name": call.name,
            "tool_input": call.arguments,
            "tool_call_id": call.id,
            "parallel_group_id": group,
        }
        decision = await self._emitter.emit(TOOL_PRE, data)
        if decision.action == "deny":
            await self._emitter.emit(TOOL_ERROR, {**data, "error": {"type": "denied", "message": decision.reason}})
            return _Reply(f"Denied: {decision.reason or 'a hook denied this call'}", is_error=True)
        arguments = (decision.data or {}).get("tool_input", call.arguments)
        data["tool_input"] = arguments if isinstance(arguments, dict) else call.arguments
        result = await self._execute(tool, call, data)
        return await self._report_result(result, data)

    async def _execute(self, tool: Any, call: ToolCall, data: Mapping[str, Any]) -> ToolResult:
        if self._cancellation is not None:
            self._cancellation.register_tool_start(call.id, call.name)
        try:
            value = await resolve_awaitable(tool.execute(data["tool_input"]))
            # Amplifier has two forms of results. Anything else that a tool returns is its output.
            return values.to_result(to_result(value, call.id))
        except BaseException as error:
            if is_own_cancellation(error):
                raise
            logger.warning("tool '%s' raised", call.name, exc_info=error)
            message = f"'{call.name}' failed: {describe_error(error)}"
            return ToolResult(success=False, error={"type": type(error).__name__, "message": message})
        finally:
            if self._cancellation is not None:
                self._cancellation.register_tool_complete(call.id)

    async def _report_result(self, result: ToolResult, data: Mapping[str, Any]) -> _Reply:
        """Emit the events of the result. Return the reply to the model as hooks leave it."""
        if result.is_error:
            await self._emitter.emit(TOOL_ERROR, {**data, "error": {"message": result.error_text}})
        result_data = to_hook_data(result)
        decision = await self._emitter.emit(TOOL_POST, {**data, "result": result_data, "tool_result": result_data})
        if decision.action == "deny":
            return _Reply(f"Denied: {decision.reason or 'a hook denied the result'}", is_error=True)
        new_data = (decision.data or {}).get("result", result_data)
        if new_data != result_data:
            result = from_hook_data(new_data, result, result_data)
        text = render_result(result)
        for injection in get_injections(decision):
            if injection.append_to_last_tool_result:
                text += f"\n\n{injection.content}"
        return _Reply(text, is_error=bool(result.is_error), images=list_images(result.content))


@dataclass(frozen=True, slots=True)
class _Reply:
    """The result of a call for the model."""

    text: str
    is_error: bool = False
    images: Sequence[dict[str, Any]] = ()

    def build_message(self, call: ToolCall) -> dict[str, Any]:
        content = [{"type": "text", "text": self.text}, *self.images] if self.images else self.text
        message = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}
        return {**message, "is_error": True} if self.is_error else message


def render_result(result: ToolResult) -> str:
    """Return a result as text for a model: the error, the output, and the content blocks."""
    texts = []
    if result.is_error:
        texts.append(f"Error: {result.error_text}")
    if result.output is not None:
        output = values.get_output_text(replace(result, content=None))
        if output != result.error_text:
            texts.append(output)
    blocks = list(result.content or ())
    if result.output is not None:
        # The message has the images themselves. Only a result of images alone describes them in words.
        blocks = [block for block in blocks if not isinstance(block, Image)]
    if blocks:
        content = render_content(blocks)
        # The content of a failure is often its error.
        if not result.is_error or content != result.error_text:
            texts.append(content)
    return "\n".join(texts) or "Success"
