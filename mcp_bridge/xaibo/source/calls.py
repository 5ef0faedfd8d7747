"""Calls of one tool of a provider."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from mcp_bridge.contracts.callables import is_async
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.runtime.third_party import settled
from mcp_bridge.xaibo.results import raised, to_result
from mcp_bridge.xaibo.schemas import arguments_of

_GONE = re.compile(r"not found|could not find|unknown tool|no such tool|no tool", re.IGNORECASE)


class Calls:
    """Carries out calls of the tool `name`. `gone` is called, in any thread, when the provider says it has no such.

    What a provider raises is the pipeline's to catch, unless it is one of Xaibo's errors, whose text is for the model.
    """

    def __init__(self, provider: Any, name: str, parameters: Mapping[str, Any], gone: Callable[[], None]) -> None:
        self._provider = provider
        self._name = name
        self._parameters = parameters
        self._gone = gone

    @property
    def handler(self) -> Callable[[Any, CallContext], Any]:
        """What carries out one call: a synchronous `execute_tool` in a thread, where it holds up nobody."""
        return self._execute if is_async(self._provider.execute_tool) else self._execute_in_thread

    async def _execute(self, data: Any, ctx: CallContext) -> ToolResult:
        try:
            answer = await _whole(await settled(self._provider.execute_tool(self._name, self._given(data))))
        except Exception as error:
            return self._raised(error)
        return self._read(answer, ctx)

    def _execute_in_thread(self, data: Any, ctx: CallContext) -> Any:
        try:
            answer = self._provider.execute_tool(self._name, self._given(data))
        except Exception as error:
            return self._raised(error)
        if inspect.isawaitable(answer) or inspect.isawaitable(_result(answer)):
            return self._awaited(answer, ctx)
        return self._read(answer, ctx)

    async def _awaited(self, answer: Any, ctx: CallContext) -> ToolResult:
        try:
            answer = await _whole(await settled(answer))
        except Exception as error:
            return self._raised(error)
        return self._read(answer, ctx)

    def _given(self, data: Any) -> dict[str, Any]:
        return arguments_of(self._parameters, data or {})

    def _read(self, answer: Any, ctx: CallContext) -> ToolResult:
        result = to_result(answer, call_id=ctx.request_id)
        if result.is_error and self._name in result.error_text and _GONE.search(result.error_text):
            self._gone()
        return result

    def _raised(self, error: Exception) -> ToolResult:
        if any(kind.__name__ == "ToolNotFoundError" for kind in type(error).__mro__):
            self._gone()
        result = raised(error, self._name, True)
        if result is None:
            raise error
        return result


def _result(answer: Any) -> Any:
    return answer.get("result") if isinstance(answer, Mapping) else getattr(answer, "result", None)


async def _whole(answer: Any) -> Any:
    """An answer whose `result` is there: PythonToolProvider answers with the coroutine of an async function."""
    result = _result(answer)
    if not inspect.isawaitable(result):
        return answer
    found = await result
    if isinstance(answer, Mapping):
        return {**answer, "result": found}
    return SimpleNamespace(success=answer.success, result=found, error=getattr(answer, "error", None))
