"""The protocols of Amplifier's contracts. Modules are matched by their shape, so they need not inherit from these."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from mcp_bridge._integrations.amplifier.message_models import ChatRequest, ChatResponse, ToolCall
from mcp_bridge._integrations.amplifier.models import HookResult, ModelInfo, ProviderInfo, ToolResult

if TYPE_CHECKING:
    from mcp_bridge._integrations.amplifier.hooks import HookRegistry


@runtime_checkable
class Tool(Protocol):
    """A tool. It may also have `input_schema` or `get_schema()`; without either it accepts any object."""

    @property
    def name(self) -> str:
        """The name for callers."""

    @property
    def description(self) -> str:
        """What the tool does, for models and users."""

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Run the tool. Never raises: a failure is a result."""


@runtime_checkable
class Provider(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """The name in plans."""

    def get_info(self) -> ProviderInfo: ...

    async def list_models(self) -> list[ModelInfo]:
        """Return the models, or an empty list if the provider cannot list them."""

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse: ...

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls of a completion."""


@runtime_checkable
class ContextManager(Protocol):
    """The message store of an agent."""

    async def add_message(self, message: dict[str, Any]) -> None: ...

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages for a request, compacted to fit; stored messages are not changed."""

    async def get_messages(self) -> list[dict[str, Any]]: ...

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace all messages, for example when a session is resumed."""

    async def clear(self) -> None: ...


@runtime_checkable
class ResumableContext(Protocol):
    """A context that stores its history, so that another process can continue the session."""

    async def has_history(self, session_id: str) -> bool:
        """Return whether the context has stored a history of this session."""


@runtime_checkable
class HookHandler(Protocol):
    """A hook: receives an event and returns a decision."""

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult: ...


@runtime_checkable
class Orchestrator(Protocol):
    """The loop of an agent."""

    async def execute(
        self,
        prompt: str,
        context: ContextManager,
        providers: dict[str, Provider],
        tools: dict[str, Tool],
        hooks: HookRegistry,
    ) -> str:
        """Return the response to a prompt, after as many model and tool calls as it takes."""


class ApprovalRequest(BaseModel):
    """A module's request for the user's approval; `timeout` is in seconds."""

    tool_name: str
    action: str
    details: dict[str, Any] = Field(default_factory=dict)
    risk_level: str
    timeout: float | None = Field(default=None, gt=0)


class ApprovalResponse(BaseModel):
    """The user's decision; `remember` extends it to identical calls."""

    approved: bool
    reason: str | None = None
    remember: bool = False


@runtime_checkable
class ApprovalProvider(Protocol):
    """Asks the user on behalf of a module.

    >>> class DenyDeletion:
    ...     async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
    ...         return ApprovalResponse(approved=request.action != "delete")
    >>> isinstance(DenyDeletion(), ApprovalProvider)
    True
    """

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Ask the user and wait. Raises TimeoutError."""


@runtime_checkable
class ApprovalSystem(Protocol):
    """Asks the user if hooks return `ask_user`."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return the chosen option. Raises ApprovalTimeoutError."""


@runtime_checkable
class ModuleSource(Protocol):
    """The location of one module (Module Source Protocol 1.0.0)."""

    def resolve(self) -> Path:
        """Return the folder of the importable module. Raises ModuleNotFoundError of this package, or OSError."""


@runtime_checkable
class ModuleSourceResolver(Protocol):
    """Finds the sources of modules (Module Source Protocol 1.0.0).

    >>> from mcp_bridge.amplifier import FileSource
    >>> class Folder:
    ...     def resolve(self, module_id, source_hint=None, profile_hint=None) -> ModuleSource:
    ...         return FileSource(f"modules/{module_id}")
    >>> isinstance(Folder(), ModuleSourceResolver)
    True
    """

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> ModuleSource:
        """Return the source of a module. Raises ModuleNotFoundError of this package for an unknown module."""
