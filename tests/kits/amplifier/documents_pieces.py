"""Builds the classes that the documents show in pieces, and supplies the parts that they leave to the reader."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from mcp_bridge.amplifier import HookResult, ModuleCoordinator
from mcp_bridge.amplifier.testing import EventRecorder, MockProvider
from tests.kits.amplifier.documents_reading import Example, read_examples
from tests.kits.amplifier.documents_running import run_example

TOOL, MODULES, SUMMARY = "tool_contract.txt", "module_contracts.txt", "tool_contract_summary.txt"
DOCUMENTS = (TOOL, MODULES, SUMMARY)


def find_example(title: str, document: str = MODULES, nth: int = 0) -> Example:
    """Return the n-th example with this title."""
    return [example for example in read_examples(document) if example.title == title][nth]


async def build_tool_class(document: str = TOOL) -> type:
    """Build MyTool of the Tool contract: its name, `execute` and `get_schema`, with our constructor and `_do_work`."""
    tool: Any = (await run_example(find_example("class MyTool:", document)))["MyTool"]
    execute = find_example("async def execute(self, input: dict[str, Any]) -> ToolResult:", document)
    tool.execute = (await run_example(execute))["execute"]
    tool.get_schema = (await run_example(find_example("def get_schema(self) -> dict:", document)))["get_schema"]

    def init(self: Any, config: dict[str, Any]) -> None:
        self.config = config

    async def work(self: Any, param: str) -> str:
        if param == "broken":
            raise RuntimeError("no such thing")
        return f"did {param}"

    tool.__init__, tool._do_work = init, work
    return tool


async def build_context_class() -> type:
    """Build MyContextManager of the Context contract: its methods, with our constructor and estimate of tokens."""
    members: dict[str, Any] = {}
    for title in (
        "async def add_message(self, message: dict[str, Any]) -> None:",
        "async def get_messages_for_request(",
        "async def get_messages(self) -> list[dict[str, Any]]:",
        "async def set_messages(self, messages: list[dict[str, Any]]) -> None:",
        "async def clear(self) -> None:",
        "async def _compact_internal(self) -> None:",
    ):
        names = await run_example(find_example(title))
        members |= {name: value for name, value in names.items() if getattr(value, "__module__", "") == "example"}

    def init(self: Any, max_tokens: int = 100_000, compaction_threshold: float = 0.8) -> None:
        self._messages, self._token_count, self._keep_recent = [], 0, 10
        self._max_tokens, self._compaction_threshold = max_tokens, compaction_threshold
        self._hooks = EventRecorder()

    return type("MyContextManager", (), {**members, "__init__": init, "_estimate_tokens": _estimate})


def _estimate(self: Any, message: dict[str, Any]) -> int:
    return len(json.dumps(message, default=str)) // 4


class MyProvider(MockProvider):
    """A provider with a client to close. The Provider contract leaves it to the reader."""

    def __init__(self, api_key: str, config: dict[str, Any]) -> None:
        super().__init__()
        self.api_key, self.closed = api_key, False
        self.client = SimpleNamespace(close=self._close)

    async def _close(self) -> None:
        self.closed = True


class MyOrchestrator:
    """A loop of one turn. The Orchestrator contract leaves it to the reader."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    async def execute(self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any) -> str:
        """Ask the first provider."""
        await context.add_message({"role": "user", "content": prompt})
        response = await next(iter(providers.values())).complete(await context.get_messages_for_request())
        return str(response.content[0].text)


async def my_validation_hook(event: str, data: dict[str, Any]) -> HookResult:
    """Deny writing to /etc. The Hook contract leaves this hook to the reader."""
    if str(data.get("tool_input", {}).get("file_path", "")).startswith("/etc"):
        return HookResult(action="deny", reason="Access denied")
    return HookResult()


async def my_feedback_hook(event: str, data: dict[str, Any]) -> HookResult:
    """Give the model a hint. The Hook contract leaves this hook to the reader."""
    return HookResult(action="inject_context", context_injection="Found 3 linting errors...")


async def get_hook_mount() -> Any:
    """Return `mount` of the Hook contract."""
    title = "async def mount(coordinator: ModuleCoordinator, config: dict) -> Callable | None:"
    hooks = {"my_validation_hook": my_validation_hook, "my_feedback_hook": my_feedback_hook}
    return (await run_example(find_example(title), **hooks))["mount"]


async def get_provider_mount() -> Any:
    """Return `mount` of the Provider contract."""
    title = "async def mount(coordinator: ModuleCoordinator, config: dict) -> Provider | Callable | None:"
    return (await run_example(find_example(title), MyProvider=MyProvider))["mount"]


async def list_declared_events(coordinator: ModuleCoordinator) -> list[str]:
    """Return the declared events of modules."""
    contributions = await coordinator.collect_contributions("observability.events")
    return [event for events in contributions for event in events]
