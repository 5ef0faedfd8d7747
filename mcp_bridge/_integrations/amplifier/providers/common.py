"""The base of the included providers: their events, how they are mounted, and their responses."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import ProviderInfo
from mcp_bridge._integrations.amplifier.module_import import CORE_PACKAGE
from mcp_bridge._integrations.amplifier.providers.history import list_repairs

PROVIDER_EVENTS = (events.LLM_REQUEST, events.LLM_RESPONSE, events.PROVIDER_TOOL_SEQUENCE_REPAIRED)
TextListener = Callable[[str], Awaitable[object]]
"""Receives the text of a response piece by piece."""


class CompletionReport:
    """The data of llm:response about a completion; `usage` is None until there is a response."""

    usage: Usage | None = None


class ProviderEvents:
    """Emits the events of a provider: llm:request, llm:response and provider:tool_sequence_repaired."""

    def __init__(self, hooks: Any = None) -> None:
        self._hooks = hooks

    @asynccontextmanager
    async def report_completion(
        self, provider: str, model: str | None, request: ChatRequest
    ) -> AsyncIterator[CompletionReport]:
        """Emit the events of the request before the block, and llm:response after it."""
        report = CompletionReport()
        if self._hooks is None:
            yield report
            return
        head = {"provider": provider, "model": model}
        repairs = list_repairs(request.messages)
        if repairs:
            data = {**head, "repair_count": len(repairs), "repairs": repairs}
            await self._hooks.emit(events.PROVIDER_TOOL_SEQUENCE_REPAIRED, data)
        await self._hooks.emit(events.LLM_REQUEST, {**head, "message_count": len(request.messages)})
        began = time.monotonic()
        try:
            yield report
        except Exception as error:
            failure = {"status": "error", "error": str(error), "error_type": type(error).__name__}
            duration = round((time.monotonic() - began) * 1000)
            await self._hooks.emit(events.LLM_RESPONSE, {**head, **failure, "duration_ms": duration})
            raise
        usage = report.usage.model_dump(mode="json", exclude_none=True) if report.usage is not None else None
        duration = round((time.monotonic() - began) * 1000)
        await self._hooks.emit(events.LLM_RESPONSE, {**head, "status": "ok", "usage": usage, "duration_ms": duration})


class IncludedProvider:
    """A provider of this package. A subclass responds to requests, and this class emits their events.

    `info_model` is the class of its ProviderInfo, because amplifier-core requires another one.
    """

    name: str
    model: str | None = None

    def __init__(self) -> None:
        self.info_model = ProviderInfo
        self.events = ProviderEvents()

    async def create_response(self, request: ChatRequest) -> ChatResponse:
        """Return the response to a request. Raises LLMError."""
        raise NotImplementedError

    async def complete(
        self, request: ChatRequest, *, on_text: TextListener | None = None, **kwargs: Any
    ) -> ChatResponse:
        """Return the response to a request, and pass its text to `on_text` as one piece. Raises LLMError."""
        chat_request = read_request(request)
        async with self.events.report_completion(self.name, self.model, chat_request) as report:
            response = await self.create_response(chat_request)
            report.usage = response.usage
        text = "".join(block.text for block in response.content if isinstance(block, TextBlock))
        if on_text is not None and text:
            await on_text(text)
        return response

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return parse_tool_calls(response)


async def mount_provider(coordinator: Any, provider: Any) -> None:
    """Mount a provider, and emit its events to the hooks of the coordinator.

    The validators of amplifier-core require that `get_info` returns the model of that package.
    """
    core = sys.modules.get(CORE_PACKAGE)
    if core is not None and isinstance(coordinator, core.ModuleCoordinator):
        provider.info_model = core.models.ProviderInfo
    provider.events = ProviderEvents(coordinator.hooks)
    await coordinator.mount("providers", provider, name=provider.name)
    coordinator.register_contributor("observability.events", f"provider-{provider.name}", lambda: list(PROVIDER_EVENTS))


def read_request(request: Any) -> ChatRequest:
    """Return a request in the models of this package. The models of amplifier-core have the same fields."""
    return request if isinstance(request, ChatRequest) else ChatRequest.model_validate(request.model_dump())


def parse_tool_calls(response: ChatResponse) -> list[ToolCall]:
    """Return the tool calls of a response."""
    return list(response.tool_calls or ())


def build_response(content: list[Block], **fields: Any) -> ChatResponse:
    """Return a response, with the tool calls of its content."""
    calls = [
        ToolCall(id=block.id, name=block.name, arguments=block.input)
        for block in content
        if isinstance(block, ToolCallBlock)
    ]
    return ChatResponse(content=content, tool_calls=calls or None, **fields)
