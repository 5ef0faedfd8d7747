"""Stand-ins for tests of modules, under any runner, on asyncio and trio (the sections "Testing" of the contracts)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import anyio

from mcp_bridge.amplifier.coordinator import ModuleCoordinator
from mcp_bridge.amplifier.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall, Usage
from mcp_bridge.amplifier.models import HookResult, ModelInfo, ProviderInfo, ToolResult
from mcp_bridge.amplifier.mounts import Done
from mcp_bridge.runtime.third_party import settled


class Recorded:
    """An async method that keeps what it was called with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    @property
    def call_count(self) -> int:
        """How often it was called."""
        return len(self.calls)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return await settled(self._function(*args, **kwargs))


class TestCoordinator(ModuleCoordinator):
    """A coordinator of a session `test-session` that keeps what was mounted and shown, and allows what is asked.

    `approvals.answer` is what a person says, `approvals.asked` what they were asked, `display.shown` what they saw.
    """

    __test__ = False  # pytest would take it for a test

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.mount_history: list[dict[str, Any]] = []
        self.unmount_history: list[dict[str, Any]] = []
        self.approvals, self.display = MockApprovals(), MockDisplay()
        plan = config or {"session": {"orchestrator": "test-orchestrator", "context": "test-context"}}
        session = SimpleNamespace(session_id="test-session", parent_id=None, config=plan)
        super().__init__(session, self.approvals, self.display)

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Done:
        """Mount a module, and keep that."""
        self.mount_history.append({"mount_point": mount_point, "module": module, "name": name})
        return super().mount(mount_point, module, name)

    def unmount(self, mount_point: str, name: str | None = None) -> Done:
        """Take a module away, and keep that."""
        self.unmount_history.append({"mount_point": mount_point, "name": name})
        return super().unmount(mount_point, name)


MockCoordinator = TestCoordinator


class MockApprovals:
    """A person who always says the same."""

    def __init__(self, answer: str = "Allow") -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        """The answer, whatever is asked."""
        self.asked.append({"prompt": prompt, "options": options, "timeout": timeout, "default": default})
        return self.answer


class MockDisplay:
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, str]] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        """Keep a message."""
        self.shown.append((message, level, source))


class MockTool:
    """A tool that answers `return_value`, which amplifier-core calls `output`.

    `call_count`, `inputs` and `last_input` say what it was called with; `execute.calls` too. A ToolResult is answered
    as it is, an exception is raised.
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
        self.execute = Recorded(self._execute)

    @property
    def call_count(self) -> int:
        """How often it was called."""
        return len(self.inputs)

    @property
    def last_input(self) -> dict[str, Any] | None:
        """What it was called with last; None before that."""
        return self.inputs[-1] if self.inputs else None

    @property
    def return_value(self) -> Any:
        """What it answers."""
        return self.output

    def get_schema(self) -> dict[str, Any]:
        """The schema of its input."""
        return self.input_schema

    def _execute(self, input: dict[str, Any]) -> ToolResult:
        self.inputs.append(deepcopy(input))
        if isinstance(self.output, BaseException):
            raise self.output
        return self.output if isinstance(self.output, ToolResult) else ToolResult(output=self.output)


class MockContextManager:
    """Remembers messages in `messages`, and never compacts them."""

    def __init__(self, messages: Sequence[dict[str, Any]] = ()) -> None:
        self.messages = list(messages)

    async def add_message(self, message: dict[str, Any]) -> None:
        """Remember a message."""
        self.messages.append(message)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Every message, in a list of its own."""
        return list(self.messages)

    async def get_messages(self) -> list[dict[str, Any]]:
        """Every message, in a list of its own."""
        return list(self.messages)

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Remember these alone."""
        self.messages = list(messages)

    async def clear(self) -> None:
        """Forget everything."""
        self.messages = []


class MockProvider:
    """A language model that answers `responses` in turn, then the last one again. `requests` has what it was asked."""

    def __init__(self, responses: Sequence[str | ChatResponse] = ("Mock response",), name: str = "mock") -> None:
        self.name = name
        self.responses = list(responses)
        self.requests: list[ChatRequest] = []

    @property
    def call_count(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    def get_info(self) -> ProviderInfo:
        """A model with small windows."""
        return ProviderInfo(
            id=self.name, display_name=self.name, defaults={"context_window": 8192, "max_output_tokens": 1024}
        )

    async def list_models(self) -> list[ModelInfo]:
        """Its one model."""
        return [ModelInfo(id="mock-1", display_name="Mock", context_window=8192, max_output_tokens=1024)]

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """The next response."""
        self.requests.append(request)
        response = self.responses[min(self.call_count, len(self.responses)) - 1]
        if isinstance(response, ChatResponse):
            return response
        usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        return ChatResponse(content=[TextBlock(text=response)], usage=usage, finish_reason="stop")

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """The calls that a response has."""
        return list(response.tool_calls or [])


class EventRecorder:
    """Keeps events as `(event, data)`. It is a handler, and what a loop can be given for its hooks."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Keep an event that a registry has emitted."""
        return await self.emit(event, data)

    async def emit(self, event: str, data: dict[str, Any] | None = None) -> HookResult:
        """Keep an event, and let it go on."""
        self.events.append((event, dict(data or {})))
        return HookResult()

    record = emit

    def get_events(self, event_type: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        """What was kept, all or of one name."""
        return [each for each in self.events if event_type in (None, each[0])]

    def clear(self) -> None:
        """Forget it."""
        self.events.clear()


class ScriptedOrchestrator:
    """A loop that answers `responses` in turn, then DONE, and calls neither model nor tools."""

    def __init__(self, responses: Sequence[str]) -> None:
        self.responses = list(responses)
        self.call_count = 0

    async def execute(
        self, prompt: str, context: Any, providers: dict[str, Any], tools: dict[str, Any], hooks: Any, **kwargs: Any
    ) -> str:
        """The next response, with the events and messages of a turn."""
        response = self.responses[self.call_count] if self.call_count < len(self.responses) else "DONE"
        self.call_count += 1
        await hooks.emit("session:start", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        await context.add_message({"role": "assistant", "content": response})
        await hooks.emit("session:end", {"response": response})
        return response


def create_test_coordinator() -> TestCoordinator:
    """A coordinator with two tools, `echo` and `fail`, and a context."""
    coordinator = TestCoordinator()
    coordinator.mount_points["tools"]["echo"] = MockTool("echo", "Echo response")
    coordinator.mount_points["tools"]["fail"] = MockTool("fail", ToolResult(success=False, error={"message": "failed"}))
    coordinator.mount_points["context"] = MockContextManager()
    return coordinator


async def wait_for(condition: Callable[[], bool], timeout: float = 1.0) -> bool:
    """Whether a condition has come true within `timeout` seconds."""
    with anyio.move_on_after(timeout):
        while not condition():  # noqa: ASYNC110 a stranger's condition tells nobody
            await anyio.sleep(0.01)
        return True
    return condition()
