"""Every rule of the suite for providers finds a violation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcp_bridge._integrations.amplifier.behavior import ProviderBehaviorTests, find_violations
from mcp_bridge._integrations.amplifier.llm_errors import RateLimitError
from mcp_bridge._integrations.amplifier.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import ModelInfo, ProviderInfo
from tests.kits.amplifier.broken_modules import list_own_rules, run_rule

SITUATIONS: dict[str, Any] = {name: {"situation": name} for name in ("tool_call", "thinking", "error", "silence")}


class GoodProvider:
    """A provider for all situations."""

    name = "good"

    def __init__(self, situation: str) -> None:
        self.situation = situation

    def get_info(self) -> Any:
        return ProviderInfo(
            id="good", display_name="Good", defaults={"context_window": 8000, "max_output_tokens": 1000}
        )

    async def list_models(self) -> list[ModelInfo]:
        return [ModelInfo(id="one", display_name="One", context_window=8000, max_output_tokens=1000)]

    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        if self.situation == "error":
            raise RateLimitError("too many requests", provider=self.name)
        if self.situation == "silence":
            await anyio.sleep_forever()
        content: list[Any] = [TextBlock(text="It is large.")]
        if self.situation == "thinking":
            content.insert(0, ThinkingBlock(thinking="Hm.", signature="c2ln"))
        if on_text is not None:
            await on_text("It is ")
            await on_text("large.")
        usage = Usage(input_tokens=3, output_tokens=2, total_tokens=5)
        calls = [ToolCall(id="call_1", name="measure", arguments={})] if self.situation == "tool_call" else []
        content += [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in calls]
        return ChatResponse(content=content, tool_calls=calls or None, usage=usage, finish_reason="end_turn")

    def parse_tool_calls(self, response: ChatResponse) -> Any:
        return list(response.tool_calls or ())


class Nameless(GoodProvider):
    name = ""


class Undescribed(GoodProvider):
    def get_info(self) -> Any:
        return SimpleNamespace(id="x", display_name="", credential_env_vars=[], capabilities=[], defaults={})


class Foreign(GoodProvider):
    """Describes itself by a model of another host than amplifier-core."""


class Narrow(GoodProvider):
    def get_info(self) -> Any:
        return ProviderInfo(id="x", display_name="X", defaults={"context_window": 8000, "max_output_tokens": 8000})


class Listing(GoodProvider):
    async def list_models(self) -> Any:
        return ["one"]


class Edited(GoodProvider):
    """Changes each response."""

    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        return self.edit_response(await super().complete(request, on_text=on_text, **kwargs))

    def edit_response(self, response: ChatResponse) -> Any:
        raise NotImplementedError


class Plain(Edited):
    def edit_response(self, response: ChatResponse) -> Any:
        return "It is large."


class Free(Edited):
    def edit_response(self, response: ChatResponse) -> Any:
        return response.model_copy(update={"usage": None})


class Simple(GoodProvider):
    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        if any(message.role == "tool" for message in request.messages):
            return ChatResponse(content=[])
        return await super().complete(request, on_text=on_text, **kwargs)


class Strict(GoodProvider):
    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        response = await super().complete(request, on_text=on_text)
        return SimpleNamespace(content=None) if kwargs else response


class Editing(GoodProvider):
    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        request.messages.pop()
        return await super().complete(request, on_text=on_text, **kwargs)


class Reusing(GoodProvider):
    response: Any = None

    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        self.response = self.response or await super().complete(request, on_text=on_text, **kwargs)
        return self.response


class Mumbling(GoodProvider):
    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        if on_text is not None:
            await on_text("It is")
        return await super().complete(request, **kwargs)


class Overlooking(GoodProvider):
    def parse_tool_calls(self, response: ChatResponse) -> Any:
        return list(response.tool_calls or ())[:1]


class Hiding(Edited):
    def edit_response(self, response: ChatResponse) -> Any:
        response.content = [block for block in response.content if block.type != "tool_call"]
        return response


class Unsigned(Edited):
    def edit_response(self, response: ChatResponse) -> Any:
        for block in response.content:
            if block.type == "thinking":
                block.signature = None
        return response


class Crude(GoodProvider):
    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        try:
            return await super().complete(request, on_text=on_text, **kwargs)
        except RateLimitError as error:
            raise RuntimeError(str(error)) from error


class Deaf(GoodProvider):
    async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
        with anyio.move_on_after(0.05):
            return await super().complete(request, on_text=on_text, **kwargs)
        return ChatResponse(content=[TextBlock(text="I gave up.")])


class Demanding(GoodProvider):
    """Cannot be mounted without a configuration."""


BROKEN: dict[str, type[GoodProvider]] = {
    "it_has_the_members_of_the_contract": Nameless,
    "get_info_describes_the_provider": Undescribed,
    "get_info_returns_a_provider_info_of_amplifier_core": Foreign,
    "the_window_in_its_defaults_leaves_room_for_a_request": Narrow,
    "list_models_describes_models": Listing,
    "complete_returns_a_chat_response": Plain,
    "complete_reports_usage": Free,
    "complete_accepts_every_role_and_type_of_content": Simple,
    "complete_accepts_unknown_keyword_arguments": Strict,
    "complete_does_not_change_the_request": Editing,
    "concurrent_requests_are_independent": Reusing,
    "text_is_reported_as_it_arrives": Mumbling,
    "parse_tool_calls_returns_exactly_the_calls_of_a_response": Overlooking,
    "a_tool_call_is_in_the_response_and_in_its_content": Hiding,
    "the_signature_of_reasoning_is_kept": Unsigned,
    "errors_are_those_of_llm_errors": Crude,
    "cancellation_stops_a_request": Deaf,
    "mounting_without_a_configuration_raises_nothing": Demanding,
}
"""A provider that breaks the rule, by rule."""


def build_module(provider_type: type[GoodProvider], host: str) -> Any:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        if provider_type is Demanding:
            assert "api_key" in config, "there is no api_key"
        provider: Any = provider_type(config.get("situation", "text"))
        if host == "core" and provider_type is not Foreign:
            import amplifier_core

            fields = GoodProvider("text").get_info().model_dump()
            provider.get_info = lambda: amplifier_core.ProviderInfo(**fields)
        await coordinator.mount("providers", provider, name="mine")

    return SimpleNamespace(mount=mount)


def test_every_rule_has_an_example() -> None:
    assert list_own_rules(ProviderBehaviorTests) == set(BROKEN)


@pytest.mark.parametrize("rule", BROKEN)
async def test_a_rule_finds_a_provider_that_breaks_it(rule: str) -> None:
    host = "core" if BROKEN[rule] is Foreign else "native"
    attributes: dict[str, Any] = {"host": host, "situations": SITUATIONS}
    assert await run_rule(ProviderBehaviorTests, rule, build_module(GoodProvider, host), **attributes) == ""
    assert await run_rule(ProviderBehaviorTests, rule, build_module(BROKEN[rule], host), **attributes)


@pytest.mark.parametrize("error", [ValueError("there is no key"), TimeoutError("the API is slow")])
async def test_an_error_of_the_provider_is_reported_as_it_is(error: Exception) -> None:
    class Failing(GoodProvider):
        async def complete(self, request: ChatRequest, *, on_text: Any = None, **kwargs: Any) -> Any:
            raise error

    violations = await find_violations(ProviderBehaviorTests, build_module(Failing, "native"))
    for rule in ("complete_returns_a_chat_response", "concurrent_requests_are_independent"):
        assert violations[rule] == f"{type(error).__name__}: {error}"
