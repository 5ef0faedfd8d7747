"""The test doubles for the tests of module authors, on asyncio and trio (the sections "Testing" of the contracts).

The names are those of `amplifier_core.testing` and of the contracts. `mcp_bridge.amplifier.testing` publishes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier.coordinator import Completed, ModuleCoordinator
from mcp_bridge._integrations.amplifier.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall, Usage
from mcp_bridge._integrations.amplifier.models import HookResult, ModelInfo, ProviderInfo, ToolResult
from mcp_bridge._runtime.third_party import resolve_awaitable


class RecordedMethod:
    """An async method with a record of its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    @property
    def call_count(self) -> int:
        return len(self.calls)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return await resolve_awaitable(self._function(*args, **kwargs))


class TestCoordinator(ModuleCoordinator):
    """The coordinator of a session. It records mounts and messages, and approves every request.

    `approvals.answer` is the user's choice, `approvals.asked` has the requests, `display.shown` the messages.
    """

    # Pytest would collect a class of this name.
    __test__ = False

    def __init__(self, config: dict[str, Any] | None = None, session_id: str = "test-session") -> None:
        self.mount_history: list[dict[str, Any]] = []
        self.unmount_history: list[dict[str, Any]] = []
        self.approvals, self.display = MockApprovals(), MockDisplay()
        plan = config or {"session": {"orchestrator": "test-orchestrator", "context": "test-context"}}
        session = SimpleNamespace(session_id=session_id, parent_id=None, config=plan)
        super().__init__(session, self.approvals, self.display)

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Completed:
        self.mount_history.append({"mount_point": mount_point, "module": module, "name": name})
        return super().mount(mount_point, module, name)

    def unmount(self, mount_point: str, name: str | None = None) -> Completed:
        self.unmount_history.append({"mount_point": mount_point, "name": name})
        return super().unmount(mount_point, name)


MockCoordinator = TestCoordinator


class MockApprovals:
    """An approval system with the fixed choice `answer`."""

    def __init__(self, answer: str = "Allow") -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.asked.append({"prompt": prompt, "options": options, "timeout": timeout, "default": default})
        return self.answer


class MockDisplay:
    """Records messages."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, str]] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.shown.append((message, level, source))


class MockTool:
    """A tool with a fixed result. If the result is an exception, the tool raises it.

    The contracts call the result `return_value`, amplifier-core calls it `output`. `call_count`, `inputs`, `last_input`
    and `execute.calls` record the calls.
    """

    def __init__(
        self,
        name: str = "mock_tool",
        output: Any = "Success",
        *,
        description: str | None = None,
        return_value: Any = None,
        input_schema: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.description = description if description is not None else f"Mock tool: {name}"
        self.output = output if return_value is None else return_value
        self.input_schema = input_schema or {"type": "object", "properties": {}}
        self.inputs: list[dict[str, Any]] = []
        self.execute = RecordedMethod(self._record_call)

    @property
    def call_count(self) -> int:
        return len(self.inputs)

    @property
    def last_input(self) -> dict[str, Any] | None:
        return self.inputs[-1] if self.inputs else None

    @property
    def return_value(self) -> Any:
        return self.output

    def get_schema(self) -> dict[str, Any]:
        return self.input_schema

    def _record_call(self, input: dict[str, Any]) -> ToolResult:
        # The caller may change its arguments later.
        self.inputs.append(deepcopy(input))
        if isinstance(self.output, BaseException):
            raise self.output
        return self.output if isinstance(self.output, ToolResult) else ToolResult(output=self.output)


class MockContextManager:
    """Stores messages in `messages`, and never compacts them."""

    def __init__(self, messages: Sequence[dict[str, Any]] = ()) -> None:
        self.messages = list(messages)

    async def add_message(self, message: dict[str, Any]) -> None:
        """Add a message. Raises ValueError for one without a role, as every context does."""
        if "role" not in message:
            raise ValueError("Message must have 'role' field")
        self.messages.append(message)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        return list(self.messages)

    async def get_messages(self) -> list[dict[str, Any]]:
        return list(self.messages)

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages = list(messages)

    async def clear(self) -> None:
        self.messages = []


class MockProvider:
    """A language model with fixed `responses`, used in turn, then the last one again. An exception is raised.

    `requests` records its calls.
    """

    def __init__(
        self, responses: Sequence[str | ChatResponse | Exception] = ("Mock response",), name: str = "mock"
    ) -> None:
        self.name = name
        self.responses = list(responses)
        self.requests: list[ChatRequest] = []

    @property
    def call_count(self) -> int:
        return len(self.requests)

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(
            id=self.name, display_name=self.name, defaults={"context_window": 8192, "max_output_tokens": 1024}
        )

    async def list_models(self) -> list[ModelInfo]:
        return [ModelInfo(id="mock-1", display_name="Mock", context_window=8192, max_output_tokens=1024)]

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        response = self.responses[min(self.call_count, len(self.responses)) - 1]
        if isinstance(response, Exception):
            raise response
        if isinstance(response, ChatResponse):
            return response
        usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        return ChatResponse(content=[TextBlock(text=response)], usage=usage, finish_reason="stop")

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])


class EventRecorder:
    """Records events as `(event, data)`. It is a hook handler, and can replace the registry of an orchestrator."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        return await self.emit(event, data)

    async def emit(self, event: str, data: dict[str, Any] | None = None) -> HookResult:
        """Record an event and return `continue`."""
        self.events.append((event, dict(data or {})))
        return HookResult()

    record = emit

    def get_events(self, event_type: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        return [entry for entry in self.events if event_type in (None, entry[0])]

    def clear(self) -> None:
        self.events.clear()


class ScriptedOrchestrator:
    """An orchestrator with fixed `responses`, used in turn, then DONE. It calls neither the model nor tools."""

    def __init__(self, responses: Sequence[str]) -> None:
        self.responses = list(responses)
        self.call_count = 0

    async def execute(
        self, prompt: str, context: Any, providers: dict[str, Any], tools: dict[str, Any], hooks: Any, **kwargs: Any
    ) -> str:
        """Return the next response. Emit the events of an execution, and store its messages."""
        response = self.responses[self.call_count] if self.call_count < len(self.responses) else "DONE"
        self.call_count += 1
        await hooks.emit("session:start", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        await context.add_message({"role": "assistant", "content": response})
        await hooks.emit("session:end", {"response": response})
        return response


def create_test_coordinator() -> TestCoordinator:
    """Return a coordinator with two tools, `echo` and `fail`, and a context."""
    coordinator = TestCoordinator()
    coordinator.mount_points["tools"]["echo"] = MockTool("echo", "Echo response")
    coordinator.mount_points["tools"]["fail"] = MockTool("fail", ToolResult(success=False, error={"message": "failed"}))
    coordinator.mount_points["context"] = MockContextManager()
    return coordinator


async def wait_for(condition: Callable[[], bool], timeout: float = 1.0) -> bool:
    """Poll a condition for up to `timeout` seconds; return whether it became true."""
    with anyio.move_on_after(timeout):
        while not condition():  # noqa: ASYNC110 a condition has no event to wait on
            await anyio.sleep(0.01)
        return True
    return condition()
