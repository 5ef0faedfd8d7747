"""Modules from pieces of the documents, and the parts left to the reader."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from mcp_bridge.amplifier import HookResult, ModuleCoordinator
from mcp_bridge.amplifier.testing import EventRecorder, MockProvider
from tests.kits.amplifier.documents_reading import Example, examples
from tests.kits.amplifier.documents_running import run

TOOL, MODULES, SUMMARY = "tool_contract.txt", "module_contracts.txt", "tool_contract_summary.txt"
DOCUMENTS = (TOOL, MODULES, SUMMARY)


def titled(title: str, document: str = MODULES, nth: int = 0) -> Example:
    """An example by its title."""
    return [example for example in examples(document) if example.title == title][nth]


async def my_tool(document: str = TOOL) -> type:
    """MyTool of the Tool contract: its name, `execute` and `get_schema`; the reader's `_do_work`."""
    tool: Any = (await run(titled("class MyTool:", document)))["MyTool"]
    execute = titled("async def execute(self, input: dict[str, Any]) -> ToolResult:", document)
    tool.execute = (await run(execute))["execute"]
    tool.get_schema = (await run(titled("def get_schema(self) -> dict:", document)))["get_schema"]

    def init(self: Any, config: dict[str, Any]) -> None:
        self.config = config

    async def work(self: Any, param: str) -> str:
        if param == "broken":
            raise RuntimeError("no such thing")
        return f"did {param}"

    tool.__init__, tool._do_work = init, work
    return tool


async def my_context() -> type:
    """MyContextManager of the Context contract: its methods; the reader's constructor and estimate of tokens."""
    members: dict[str, Any] = {}
    for title in (
        "async def add_message(self, message: dict[str, Any]) -> None:",
        "async def get_messages_for_request(",
        "async def get_messages(self) -> list[dict[str, Any]]:",
        "async def set_messages(self, messages: list[dict[str, Any]]) -> None:",
        "async def clear(self) -> None:",
        "async def _compact_internal(self) -> None:",
    ):
        names = await run(titled(title))
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
    """The part of the Hook contract left to the reader: no writing to /etc."""
    if str(data.get("tool_input", {}).get("file_path", "")).startswith("/etc"):
        return HookResult(action="deny", reason="Access denied")
    return HookResult()


async def my_feedback_hook(event: str, data: dict[str, Any]) -> HookResult:
    """Give the model a hint. The Hook contract leaves this hook to the reader."""
    return HookResult(action="inject_context", context_injection="Found 3 linting errors...")


async def hook_mount() -> Any:
    """`mount` of the Hook contract."""
    title = "async def mount(coordinator: ModuleCoordinator, config: dict) -> Callable | None:"
    hooks = {"my_validation_hook": my_validation_hook, "my_feedback_hook": my_feedback_hook}
    return (await run(titled(title), **hooks))["mount"]


async def provider_mount() -> Any:
    """`mount` of the Provider contract."""
    title = "async def mount(coordinator: ModuleCoordinator, config: dict) -> Provider | Callable | None:"
    return (await run(titled(title), MyProvider=MyProvider))["mount"]


async def contributed(coordinator: ModuleCoordinator) -> list[str]:
    """Return the declared events of modules."""
    contributions = await coordinator.collect_contributions("observability.events")
    return [event for events in contributions for event in events]
