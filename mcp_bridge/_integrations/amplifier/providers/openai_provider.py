"""`provider-openai`: models of OpenAI, and endpoints that speak its Chat Completions API (extra `openai`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import openai

from mcp_bridge._integrations.amplifier.llm_errors import ContentFilterError, InvalidToolCallError, LLMError
from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.providers.common import (
    ProviderConfig,
    SdkProvider,
    TextListener,
    build_response,
    find_key,
    mount_sdk_provider,
    to_llm_error,
)
from mcp_bridge._integrations.amplifier.providers.history import (
    list_calls,
    list_results,
    pair_results,
    split_output,
)
from mcp_bridge._integrations.amplifier.results import encode_json
from mcp_bridge._runtime.exact_json import load_json

__amplifier_module_type__ = "provider"

_IMAGES = "The images in the results of the tools:"
_IMAGES_FOLLOW = "The images follow after the results."
_ROLES = {"system": "system", "developer": "developer", "assistant": "assistant"}


class OpenAIConfig(ProviderConfig):
    """The configuration of `provider-openai`.

    Attributes:
        reasoning_effort: How much a reasoning model thinks, such as `low`.
        legacy_max_tokens: Send `max_tokens`, for endpoints that do not know `max_completion_tokens`.
    """

    default_model: str = "gpt-5.5"
    reasoning_effort: str | None = None
    legacy_max_tokens: bool = False


class OpenAIProvider(SdkProvider):
    """Models over the Chat Completions API."""

    name = "openai"
    display_name = "OpenAI"
    key_variable = "OPENAI_API_KEY"

    def __init__(self, config: OpenAIConfig, api_key: str) -> None:
        client = openai.AsyncOpenAI(
            api_key=api_key, base_url=config.base_url, timeout=config.timeout, max_retries=config.max_retries
        )
        super().__init__(config, client)

    async def _complete(
        self, request: ChatRequest, model: str, on_text: TextListener | None, options: Mapping[str, Any]
    ) -> ChatResponse:
        params = self._build_params(request, model)
        try:
            if on_text is None:
                completion: Any = await self._client.chat.completions.create(**params)
            else:
                completion = await self._stream(params, on_text)
            return self._read_response(completion, model)
        except LLMError:
            raise
        except Exception as error:  # the SDK raises what its parsing raises
            raise to_llm_error(error, self.name, model) from error

    async def _stream(self, params: dict[str, Any], on_text: TextListener) -> Any:
        options: dict[str, Any] = {**params, "stream_options": {"include_usage": True}}
        try:
            async with self._client.chat.completions.stream(**options) as stream:
                async for event in stream:
                    if event.type == "content.delta":
                        await on_text(event.delta)
                return await stream.get_final_completion()
        except openai.LengthFinishReasonError as error:
            return error.completion
        except openai.ContentFilterFinishReasonError as error:
            text = f"{self.name}: the content was filtered"
            raise ContentFilterError(text, provider=self.name, model=params["model"]) from error

    def _build_params(self, request: ChatRequest, model: str) -> dict[str, Any]:
        config = self._config
        limit = "max_tokens" if config.legacy_max_tokens else "max_completion_tokens"
        params: dict[str, Any] = {
            "model": model,
            limit: self.limit_tokens(request),
            "messages": build_messages(request.messages),
        }
        if request.tools:
            params["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description or "",
                        "parameters": tool.parameters,
                    },
                }
                for tool in request.tools
            ]
        optional = {
            "temperature": request.temperature,
            "top_p": request.top_p,
            "stop": request.stop,
            "reasoning_effort": request.reasoning_effort or config.reasoning_effort,
            "timeout": request.timeout,
        }
        return params | {key: value for key, value in optional.items() if value is not None}

    def _read_response(self, completion: Any, model: str) -> ChatResponse:
        choice = completion.choices[0]
        message = choice.message
        details: dict[str, Any] = {"provider": self.name, "model": model}
        if choice.finish_reason == "content_filter" or message.refusal:
            raise ContentFilterError(f"{self.name}: {message.refusal or 'the content was filtered'}", **details)
        content: list[Block] = [TextBlock(text=message.content)] if message.content else []
        is_truncated = choice.finish_reason == "length"
        for call in message.tool_calls or ():
            arguments = _parse_arguments(call.function.arguments)
            if arguments is not None:
                content.append(ToolCallBlock(id=call.id, name=call.function.name, input=arguments))
            elif not is_truncated:
                raise _report_arguments(call.function, details)
        return build_response(content, usage=_read_usage(completion.usage), finish_reason=choice.finish_reason)


def build_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages in the form of the API.

    Messages of tools can only have text there. Their images follow all results of a response, in a message of the user.
    """
    built: list[dict[str, Any]] = []
    pending: list[ImageBlock] = []
    for message in pair_results(messages):
        if message.role in ("tool", "function"):
            for result in list_results(message):
                text, images = split_output(result.output)
                content = text or (_IMAGES_FOLLOW if images else "")
                built.append({"role": "tool", "tool_call_id": result.tool_call_id, "content": content})
                pending += images
            continue
        built += _build_images(pending)
        pending = []
        entry: dict[str, Any] = {"role": _ROLES.get(message.role, "user"), "content": _build_content(message)}
        if message.role == "assistant" and (calls := list_calls(message)):
            entry["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": encode_json(call.input).decode()},
                }
                for call in calls
            ]
            entry["content"] = entry["content"] or None
        built.append(entry)
    return built + _build_images(pending)


def _build_images(images: Sequence[ImageBlock]) -> list[dict[str, Any]]:
    parts = [{"type": "image_url", "image_url": {"url": _find_url(image.source)}} for image in images]
    return [{"role": "user", "content": [{"type": "text", "text": _IMAGES}, *parts]}] if parts else []


def _build_content(message: Message) -> Any:
    """Return text, or parts if there are images. Reasoning stays with the provider that wrote it."""
    if isinstance(message.content, str):
        return message.content
    blocks = [block for block in message.content if isinstance(block, TextBlock | ImageBlock)]
    if all(isinstance(block, TextBlock) for block in blocks) or message.role != "user":
        return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, TextBlock)
        else {"type": "image_url", "image_url": {"url": _find_url(block.source)}}
        for block in blocks
    ]


def _find_url(source: dict[str, Any]) -> str:
    if source.get("type") == "url":
        return str(source["url"])
    return f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"


def _parse_arguments(text: str) -> dict[str, Any] | None:
    try:
        arguments = load_json(text or "{}")
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def _report_arguments(function: Any, details: dict[str, Any]) -> LLMError:
    message = f"The arguments of the call to '{function.name}' are not a JSON object. Repeat the call with valid JSON."
    return InvalidToolCallError(message, tool_name=function.name, raw_arguments=function.arguments, **details)


def _read_usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    cached = getattr(usage.prompt_tokens_details, "cached_tokens", None)
    reasoning = getattr(usage.completion_tokens_details, "reasoning_tokens", None)
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=cached,
        reasoning_tokens=reasoning,
    )


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider, and return its cleanup; None without an API key."""
    options = OpenAIConfig(**(config or {}))
    key = find_key(options, OpenAIProvider.key_variable)
    return None if key is None else await mount_sdk_provider(coordinator, OpenAIProvider(options, key))
