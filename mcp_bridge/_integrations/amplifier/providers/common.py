"""The base of the included providers: it emits their events, mounts them, and builds their responses."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
)
from mcp_bridge._integrations.amplifier.models import ProviderInfo
from mcp_bridge._integrations.amplifier.module_import import CORE_PACKAGE
from mcp_bridge._integrations.amplifier.providers.history import list_repairs

TextListener = Callable[[str], Awaitable[object]]
"""Receives the text of a response piece by piece."""
_EVENTS = (events.LLM_REQUEST, events.LLM_RESPONSE, events.PROVIDER_TOOL_SEQUENCE_REPAIRED)


class IncludedProvider:
    """A provider of this package. A subclass responds to requests, and this class emits their events.

    `hooks` receive the events; None before the provider is mounted. `info_model` is the class of its ProviderInfo,
    because the validators of amplifier-core require their own class.
    """

    name: str
    model: str | None = None

    def __init__(self) -> None:
        self.info_model = ProviderInfo
        self.hooks: Any = None

    async def create_response(self, request: ChatRequest) -> ChatResponse:
        """Return the response to a request. Raises LLMError."""
        raise NotImplementedError

    async def complete(
        self, request: ChatRequest, *, on_text: TextListener | None = None, **kwargs: Any
    ) -> ChatResponse:
        """Return the response to a request, and pass its text to `on_text` as one piece. Raises LLMError."""
        chat_request = read_request(request)
        response = await self.report_completion(self.model, chat_request, partial(self.create_response, chat_request))
        text = "".join(block.text for block in response.content if isinstance(block, TextBlock))
        if on_text is not None and text:
            await on_text(text)
        return response

    async def report_completion(
        self, model: str | None, request: ChatRequest, create_response: Callable[[], Awaitable[ChatResponse]]
    ) -> ChatResponse:
        """Create and return a response. Emit the events of the request before, and llm:response after it."""
        if self.hooks is None:
            return await create_response()
        head = {"provider": self.name, "model": model}
        repairs = list_repairs(request.messages)
        if repairs:
            data = {**head, "repair_count": len(repairs), "repairs": repairs}
            await self.hooks.emit(events.PROVIDER_TOOL_SEQUENCE_REPAIRED, data)
        await self.hooks.emit(events.LLM_REQUEST, {**head, "message_count": len(request.messages)})
        began = time.monotonic()
        try:
            response = await create_response()
        except Exception as error:
            failure = {"status": "error", "error": str(error), "error_type": type(error).__name__}
            duration = round((time.monotonic() - began) * 1000)
            await self.hooks.emit(events.LLM_RESPONSE, {**head, **failure, "duration_ms": duration})
            raise
        usage = response.usage.model_dump(mode="json", exclude_none=True) if response.usage is not None else None
        duration = round((time.monotonic() - began) * 1000)
        await self.hooks.emit(events.LLM_RESPONSE, {**head, "status": "ok", "usage": usage, "duration_ms": duration})
        return response

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or ())


async def mount_provider(coordinator: Any, provider: IncludedProvider) -> None:
    """Mount a provider, and emit its events to the hooks of the coordinator."""
    core = sys.modules.get(CORE_PACKAGE)
    if core is not None and isinstance(coordinator, core.ModuleCoordinator):
        provider.info_model = core.models.ProviderInfo
    provider.hooks = coordinator.hooks
    await coordinator.mount("providers", provider, name=provider.name)
    coordinator.register_contributor("observability.events", f"provider-{provider.name}", lambda: list(_EVENTS))


def read_request(request: Any) -> ChatRequest:
    """Return a request in the class of this package. The class of amplifier-core has the same fields."""
    return request if isinstance(request, ChatRequest) else ChatRequest.model_validate(request.model_dump())


def build_response(content: list[Block], **fields: Any) -> ChatResponse:
    """Return a response, with the tool calls of its content."""
    calls = []
    for block in content:
        if isinstance(block, ToolCallBlock):
            calls.append(ToolCall(id=block.id, name=block.name, arguments=block.input))
    return ChatResponse(content=content, tool_calls=calls or None, **fields)
