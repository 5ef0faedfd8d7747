"""The suite of tests for providers (PROVIDER_CONTRACT 1.0.0)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier import message_models
from mcp_bridge._integrations.amplifier.behavior.module_tests import (
    ModuleBehaviorTests,
    call_cleanup,
    limit_time,
    open_task_group,
    require,
    require_async_method,
    skip_rule,
)
from mcp_bridge._integrations.amplifier.module_import import CORE_PACKAGE
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._runtime.third_party import describe_error

_TOOLS = [
    {
        "name": "measure",
        "description": "Measure it.",
        "parameters": {"type": "object", "properties": {"unit": {"type": "string"}}},
    }
]
_QUESTION = [{"role": "user", "content": "How large is it?"}]
_CALL = {"id": "call_1", "name": "measure", "arguments": {"unit": "cm"}}
_CONVERSATION = [
    {"role": "system", "content": "You are a sample."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "How large is it?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "A ruler helps.", "signature": "c2lnbmF0dXJl"},
            {"type": "text", "text": "I look."},
            {"type": "tool_call", "id": "call_0", "name": "measure", "input": {"unit": "cm"}},
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "call_0",
        "content": [{"type": "tool_result", "tool_call_id": "call_0", "output": "3"}],
    },
    {"role": "assistant", "content": "", "tool_calls": [{**_CALL, "tool": "measure"}]},
    {"role": "tool", "tool_call_id": "call_1", "name": "measure", "content": "3"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_2", "type": "function", "function": {"name": "measure", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "call_2", "content": "4"},
    {"role": "user", "content": "And in inches?"},
]
_FIELDS = {
    "text": ("text",),
    "thinking": ("thinking",),
    "redacted_thinking": ("data",),
    "reasoning": ("content", "summary"),
    "tool_call": ("id", "name", "input"),
    "tool_result": ("tool_call_id", "output"),
    "image": ("source",),
}
"""The fields of each type of content block."""
# How long a request without a response runs before it is cancelled.
_PENDING_SECONDS = 0.2


class ProviderBehaviorTests(ModuleBehaviorTests):
    """The rules that every provider must follow.

    A provider does not control what a model responds. Rules about particular responses therefore need a configuration,
    or an override of `open_situation`, that causes such a response. Without one they are skipped.

    Attributes:
        situations: Further keys of the configuration for each of these situations:

            - `text`: the response is a text,
            - `models`: `list_models` works,
            - `tool_call`: the response has a call of the tool `measure`,
            - `thinking`: the response has reasoning with a signature,
            - `error`: the API reports an error,
            - `silence`: the API never responds.
        can_call_model: Whether the configuration alone causes the situations `text` and `models`.
    """

    mount_point = "providers"

    situations: Mapping[str, Mapping[str, Any]] = {}
    can_call_model: bool = True

    @asynccontextmanager
    async def open_situation(self, name: str) -> AsyncIterator[Any]:
        """Mount the provider with the configuration of a situation, and yield it. Without one, skip the rule."""
        needs_no_keys = self.can_call_model and name in ("text", "models")
        if name not in self.situations and not needs_no_keys:
            skip_rule(f"there is no configuration for the situation '{name}'")
        async with self.open_module(**self.situations.get(name, {})) as provider:
            yield provider

    @property
    def _models(self) -> Any:
        """The module with the classes of messages for modules on this host."""
        return message_models if self.host == "native" else import_module(f"{CORE_PACKAGE}.message_models")

    def build_request(self, messages: Any = _QUESTION, **fields: Any) -> Any:
        """Return a ChatRequest in the class of this host."""
        return self._models.ChatRequest.model_validate({"messages": messages, **fields})

    def build_response(self, *calls: Mapping[str, Any]) -> Any:
        """Return a ChatResponse in the class of this host, with tool calls."""
        content: list[dict[str, Any]] = [{"type": "text", "text": "I look."}]
        for call in calls:
            content.append({"type": "tool_call", "id": call["id"], "name": call["name"], "input": call["arguments"]})
        return self._models.ChatResponse.model_validate({"content": content, "tool_calls": list(calls) or None})

    async def test_it_has_the_members_of_the_contract(self) -> None:
        async with self.open_module() as provider:
            name = getattr(provider, "name", None)
            require(isinstance(name, str) and name, f"`name` is {name!r}")
            for method in ("get_info", "parse_tool_calls"):
                require(callable(getattr(provider, method, None)), f"there is no method `{method}`")
            require_async_method(provider, "list_models")
            require_async_method(provider, "complete", "request")
            parameters = get_signature(provider.complete).parameters.values()
            takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
            require(takes_any, "`complete` does not take further keyword arguments")

    async def test_get_info_describes_the_provider(self) -> None:
        async with self.open_module() as provider:
            info = provider.get_info()
        for field in ("id", "display_name"):
            value = getattr(info, field, None)
            require(isinstance(value, str) and value, f"`{field}` of the ProviderInfo is {value!r}")
        for field in ("credential_env_vars", "capabilities"):
            value = getattr(info, field, None)
            is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
            require(is_list, f"`{field}` of the ProviderInfo is {value!r}, not a list of strings")
        require(isinstance(getattr(info, "defaults", None), dict), "the ProviderInfo has no `defaults`")

    async def test_get_info_returns_a_provider_info_of_amplifier_core(self) -> None:
        if self.host != "core":
            skip_rule("the native host accepts everything with the fields of a ProviderInfo")
        async with self.open_module() as provider:
            model = type(provider.get_info())
        is_own = issubclass(model, import_module(f"{CORE_PACKAGE}.models").ProviderInfo)
        require(is_own, f"`get_info` returned a {model.__module__}.{model.__name__}, which amplifier-core rejects")

    async def test_the_window_in_its_defaults_leaves_room_for_a_request(self) -> None:
        async with self.open_module() as provider:
            defaults = provider.get_info().defaults
        window, longest = defaults.get("context_window"), defaults.get("max_output_tokens")
        is_known = isinstance(window, int) and isinstance(longest, int)
        require(is_known, f"context_window is {window!r} and max_output_tokens is {longest!r}: contexts need both")
        require(window - longest > 1000, f"a window of {window} tokens leaves no room beside a response of {longest}")

    async def test_list_models_describes_models(self) -> None:
        async with self.open_situation("models") as provider:
            models = await provider.list_models()
        require(isinstance(models, list), f"`list_models` returned a {type(models).__name__}")
        types = {"id": str, "display_name": str, "context_window": int, "max_output_tokens": int}
        for model in models:
            for field, expected_type in types.items():
                value = getattr(model, field, None)
                require(isinstance(value, expected_type) and value, f"`{field}` of a model is {value!r}")

    async def test_complete_returns_a_chat_response(self) -> None:
        async with self.open_situation("text") as provider:
            response = await provider.complete(self.build_request())
        require_response(response)
        require(render_blocks(response).strip(), "the response has no text")

    async def test_complete_reports_usage(self) -> None:
        async with self.open_situation("text") as provider:
            usage = getattr(await provider.complete(self.build_request()), "usage", None)
        counts: list[Any] = [getattr(usage, f"{direction}_tokens", None) for direction in ("input", "output", "total")]
        are_counts = all(isinstance(count, int) and count >= 0 for count in counts)
        require(are_counts, f"the input, output and total tokens are {counts}")
        require(counts[2] == counts[0] + counts[1], f"{counts[0]} and {counts[1]} tokens are {counts[2]} in total")

    async def test_complete_accepts_every_role_and_type_of_content(self) -> None:
        fields = {"tools": _TOOLS, "temperature": 0.5, "max_output_tokens": 100, "metadata": {"sample": True}}
        async with self.open_situation("text") as provider:
            require_response(await provider.complete(self.build_request(_CONVERSATION, **fields)))

    async def test_complete_accepts_unknown_keyword_arguments(self) -> None:
        async with self.open_situation("text") as provider:
            require_response(await provider.complete(self.build_request(), sample_option=True))

    async def test_complete_does_not_change_the_request(self) -> None:
        request = self.build_request(_CONVERSATION, tools=_TOOLS)
        before = request.model_dump()
        async with self.open_situation("text") as provider:
            await provider.complete(request)
        require(request.model_dump() == before, "`complete` changes the request, which the caller may send again")

    async def test_concurrent_requests_are_independent(self) -> None:
        responses: list[Any] = []

        async def ask_model() -> None:
            responses.append(await provider.complete(self.build_request()))

        async with self.open_situation("text") as provider, open_task_group() as tasks:
            tasks.start_soon(ask_model)
            tasks.start_soon(ask_model)
        for response in responses:
            require_response(response)
        require(responses[0] is not responses[1], "two requests got the same object")

    async def test_text_is_reported_as_it_arrives(self) -> None:
        pieces: list[str] = []

        async def receive_piece(piece: str) -> None:
            pieces.append(piece)

        async with self.open_situation("text") as provider:
            if "on_text" not in get_signature(provider.complete).parameters:
                skip_rule("the provider does not stream")
            response = await provider.complete(self.build_request(), on_text=receive_piece)
        text = render_blocks(response)
        require("".join(pieces) == text, f"on_text received {pieces!r:.200}, and the response has {text!r:.200}")

    async def test_parse_tool_calls_returns_exactly_the_calls_of_a_response(self) -> None:
        second = {**_CALL, "id": "call_2", "arguments": {}}
        async with self.open_module() as provider:
            for calls in ([], [_CALL], [_CALL, second]):
                parsed_calls = provider.parse_tool_calls(self.build_response(*calls))
                require(isinstance(parsed_calls, list), f"`parse_tool_calls` returned a {type(parsed_calls).__name__}")
                dumps = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in parsed_calls]
                require(dumps == calls, f"of the calls {calls}, `parse_tool_calls` returned {dumps}")

    async def test_a_tool_call_is_in_the_response_and_in_its_content(self) -> None:
        async with self.open_situation("tool_call") as provider:
            response = await provider.complete(self.build_request(tools=_TOOLS))
            require_response(response)
            calls = provider.parse_tool_calls(response)
        require(calls and calls[0].name == "measure", f"the calls are {calls} instead of one of `measure`")
        for call in calls:
            require(isinstance(call.id, str) and call.id, f"the id of a call is {call.id!r}")
            require(isinstance(call.arguments, dict), f"the arguments of a call are a {type(call.arguments).__name__}")
        blocks = [block.id for block in response.content if _get_type(block) == "tool_call"]
        ids = [call.id for call in calls]
        require(blocks == ids, f"the content has the calls {blocks}, and `parse_tool_calls` returned {ids}")

    async def test_the_signature_of_reasoning_is_kept(self) -> None:
        async with self.open_situation("thinking") as provider:
            response = await provider.complete(self.build_request())
        require_response(response)
        signatures = [block.signature for block in response.content if _get_type(block) == "thinking"]
        require(signatures, "the content has no block of reasoning")
        require(all(signatures), "a block of reasoning has no signature")

    async def test_errors_are_those_of_llm_errors(self) -> None:
        async with self.open_situation("error") as provider:
            try:
                response = await provider.complete(self.build_request())
            except Exception as error:
                # Each host has its own LLMError, so the name of the class decides.
                names = [base.__name__ for base in type(error).__mro__]
                require("LLMError" in names, f"`complete` raised a {names[0]}, not an LLMError")
                require(getattr(error, "provider", None) == provider.name, "the error does not name the provider")
            else:
                raise AssertionError(f"`complete` returned {response!r:.200} instead of raising an LLMError")

    async def test_cancellation_stops_a_request(self) -> None:
        async with self.open_situation("silence") as provider:
            with anyio.move_on_after(_PENDING_SECONDS) as scope:
                await provider.complete(self.build_request())
            require(scope.cancelled_caught, "`complete` returns, although it was cancelled before there was a response")

    async def test_mounting_without_a_configuration_raises_nothing(self) -> None:
        coordinator = self.create_coordinator()
        with limit_time(self.timeout):
            async with AsyncExitStack() as cleanups:
                cleanups.push_async_callback(coordinator.cleanup)
                try:
                    result = await self.module.mount(coordinator, {})
                except Exception as error:
                    raise AssertionError(f"`mount` raised {describe_error(error)}") from error
                cleanups.push_async_callback(call_cleanup, result)


def require_response(response: Any) -> None:
    """Raise AssertionError unless a response has the fields of a ChatResponse and the blocks of the contract."""
    content = getattr(response, "content", None)
    require(isinstance(content, list) and content, f"the content of the response is {content!r:.200}")
    for block in content or ():
        fields = _FIELDS.get(_get_type(block))
        require(fields is not None, f"there is no content block of the type {_get_type(block)!r}")
        missing = [field for field in fields or () if not hasattr(block, field)]
        require(not missing, f"a block of the type {_get_type(block)!r} has no {', '.join(missing)}")
    reason = getattr(response, "finish_reason", None)
    require(reason is None or isinstance(reason, str), f"the finish_reason is a {type(reason).__name__}")


def render_blocks(response: Any) -> str:
    """Return the text of a response."""
    return "".join(block.text for block in response.content if _get_type(block) == "text")


def _get_type(block: Any) -> str:
    """Return the type of a block. In some blocks of amplifier-core, the type is a member of an enum."""
    block_type = getattr(block, "type", None)
    return str(getattr(block_type, "value", block_type))
