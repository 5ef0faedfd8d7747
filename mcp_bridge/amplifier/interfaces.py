"""Amplifier's protocols, told by their shape: nobody inherits from them (the contracts of each kind of module)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from mcp_bridge.amplifier.message_models import ChatRequest, ChatResponse, ToolCall
from mcp_bridge.amplifier.models import HookResult, ModelInfo, ProviderInfo, ToolResult

if TYPE_CHECKING:
    from mcp_bridge.amplifier.hooks import HookRegistry


@runtime_checkable
class Tool(Protocol):
    """A tool. It may also have `input_schema` or `get_schema()`; without either its arguments are any object."""

    @property
    def name(self) -> str:
        """What it is called by."""
        ...

    @property
    def description(self) -> str:
        """What it does, for people and models."""
        ...

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Do it. Never raises; a failure is a result that says so."""
        ...


@runtime_checkable
class Provider(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """What it is called by."""
        ...

    def get_info(self) -> ProviderInfo:
        """What it says about itself."""
        ...

    async def list_models(self) -> list[ModelInfo]:
        """Its models; empty where it cannot tell."""
        ...

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Complete a conversation."""
        ...

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """The calls that a completion asks for."""
        ...


@runtime_checkable
class ContextManager(Protocol):
    """What an agent remembers."""

    async def add_message(self, message: dict[str, Any]) -> None:
        """Remember a message."""
        ...

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """The messages for a request, compacted where they are too many; what is stored stays as it is."""
        ...

    async def get_messages(self) -> list[dict[str, Any]]:
        """Every message."""
        ...

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Remember these messages, as when a session goes on."""
        ...

    async def clear(self) -> None:
        """Forget everything."""
        ...


@runtime_checkable
class HookHandler(Protocol):
    """A hook: it hears an event and decides."""

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Decide about one event."""
        ...


@runtime_checkable
class Orchestrator(Protocol):
    """An agent's loop."""

    async def execute(
        self,
        prompt: str,
        context: ContextManager,
        providers: dict[str, Provider],
        tools: dict[str, Tool],
        hooks: HookRegistry,
    ) -> str:
        """Answer a prompt, with as many calls as that takes."""
        ...


class ApprovalRequest(BaseModel):
    """What a module wants a person to allow; `timeout` is in seconds."""

    tool_name: str
    action: str
    details: dict[str, Any] = Field(default_factory=dict)
    risk_level: str
    timeout: float | None = Field(default=None, gt=0)


class ApprovalResponse(BaseModel):
    """What the person said; `remember` is for calls like it."""

    approved: bool
    reason: str | None = None
    remember: bool = False


@runtime_checkable
class ApprovalProvider(Protocol):
    """Whoever asks the person."""

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Ask, and wait. Raises TimeoutError when nobody answers in time."""
        ...


@runtime_checkable
class ApprovalSystem(Protocol):
    """Whoever asks the person for hooks that answer `ask_user`."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """The option that was chosen. Raises ApprovalTimeoutError when nobody answers in time."""
        ...


@runtime_checkable
class ModuleSource(Protocol):
    """Where one module is (Module Source Protocol 1.0.0)."""

    def resolve(self) -> Path:
        """The folder that has the importable module. Raises ModuleNotFoundError of this package, or OSError."""
        ...


@runtime_checkable
class ModuleSourceResolver(Protocol):
    """Who knows where modules are (Module Source Protocol 1.0.0)."""

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> ModuleSource:
        """Where the module is. Raises ModuleNotFoundError of this package when this resolver does not know."""
        ...
