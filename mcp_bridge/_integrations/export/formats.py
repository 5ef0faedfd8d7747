"""The formats of the vendors of language models for tools, calls and results."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from mcp_bridge._integrations.export.calls import ModelCall, RawCall, get_field, list_items
from mcp_bridge._integrations.export.results import NOTHING, PDF, ModelResult, format_block, get_image, get_pdf
from mcp_bridge._integrations.export.tools import ExportedTool


class Format(ABC):
    """The base class of a vendor's format."""

    name: ClassVar[str]
    """The name of the format on the command line."""
    strict: ClassVar[bool] = False
    """Whether tools can be exported for a strict mode of this vendor."""
    needs_initial_letter: ClassVar[bool] = False
    """Whether a tool's name must begin with a letter or `_`."""

    @abstractmethod
    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """Return the `tools` of a request."""

    @abstractmethod
    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """Yield the calls in a model's response, in their order."""

    @abstractmethod
    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """Return one result: a message, or a block or item of a message."""

    def build_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages for all results of one response."""
        return list(results)


class OpenAIChat(Format):
    """OpenAI's chat completions, and APIs compatible with them: a message with the role `tool` for each result."""

    name = "openai"
    strict = True
    path: ClassVar[Sequence[str]] = ("choices", "message", "tool_calls")
    """The path of keys to the calls in a response (see `list_items`)."""

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        items = []
        for tool in tools:
            function: dict[str, Any] = {**tool.labels, "parameters": tool.schema}
            if tool.strict is not None:
                function["strict"] = tool.strict
            items.append({"type": "function", "function": function})
        return items

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """Yield the calls of the first choice. Calls of custom tools need a result, too, although none is exported."""
        for item in list_items(response, *self.path):
            function = get_field(item, "function", "custom")
            name = get_field(function, "name")
            if name is not None:
                arguments = get_field(function, "arguments", "input")
                yield RawCall(id=get_field(item, "id"), name=str(name), arguments=arguments)

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """Return a message. The format only has text, also for errors."""
        return {"role": "tool", "tool_call_id": call.id, "content": result.text}


class OpenAIResponses(Format):
    """OpenAI's Responses API: calls are items of the output, results are items of the next input."""

    name = "openai-responses"
    strict = True

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """Return the tools. `strict` is always set, because its default in this API is true."""
        items: list[dict[str, Any]] = []
        for tool in tools:
            items.append({"type": "function", **tool.labels, "parameters": tool.schema, "strict": bool(tool.strict)})
        return items

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        for item in list_items(response, "output"):
            if get_field(item, "type") == "function_call":
                name = str(get_field(item, "name") or "")
                yield RawCall(id=get_field(item, "call_id"), name=name, arguments=get_field(item, "arguments"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """Return an input item. The format has no field for errors."""
        has_media = any(get_image(block) or get_pdf(block) for block in result.blocks)
        output = [self._format_block(block) for block in result.blocks] if has_media else result.text
        return {"type": "function_call_output", "call_id": call.id, "output": output}

    @staticmethod
    def _format_block(block: dict[str, Any]) -> dict[str, Any]:
        image = get_image(block)
        if image is not None:
            mime_type, data = image
            return {"type": "input_image", "image_url": f"data:{mime_type};base64,{data}", "detail": "auto"}
        pdf = get_pdf(block)
        if pdf is not None:
            return {"type": "input_file", "filename": "document.pdf", "file_data": f"data:{PDF};base64,{pdf}"}
        return {"type": "input_text", "text": format_block(block)}


class Anthropic(Format):
    """Anthropic's messages: `tool_use` blocks, and `tool_result` blocks of one user message."""

    name = "anthropic"

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        return [{**tool.labels, "input_schema": tool.schema} for tool in tools]

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """Yield the `tool_use` blocks. Calls of Anthropic's server tools have blocks of another type."""
        for item in list_items(response, "content"):
            if get_field(item, "type") == "tool_use":
                name = str(get_field(item, "name") or "")
                yield RawCall(id=get_field(item, "id"), name=name, arguments=get_field(item, "input"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """Return a `tool_result` block. Blank text is dropped, because the API rejects it."""
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id}
        blocks = [self._format_block(item) for item in result.blocks]
        content = [item for item in blocks if item.get("text") is None or item["text"].strip()]
        if len(content) == 1 and content[0]["type"] == "text":
            block["content"] = content[0]["text"]
        elif content:
            block["content"] = content
        if result.failed:
            block["is_error"] = True
        return block

    def build_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return one message. This API expects all results of a response in the next message."""
        return [{"role": "user", "content": list(results)}] if results else []

    @staticmethod
    def _format_block(block: dict[str, Any]) -> dict[str, Any]:
        image = get_image(block)
        if image is not None:
            return {"type": "image", "source": {"type": "base64", "media_type": image[0], "data": image[1]}}
        pdf = get_pdf(block)
        if pdf is not None:
            return {"type": "document", "source": {"type": "base64", "media_type": PDF, "data": pdf}}
        return {"type": "text", "text": format_block(block)}


class Gemini(Format):
    """Gemini, through the Developer API and Vertex AI: one tool with many function declarations."""

    name = "gemini"
    needs_initial_letter = True

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """Return one tool with all functions. `parametersJsonSchema` accepts JSON Schema; `parameters` does not."""
        declarations = [{**tool.labels, "parametersJsonSchema": tool.schema} for tool in tools]
        return [{"functionDeclarations": declarations}] if declarations else []

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        """Yield the function calls of the first candidate. Some have no id."""
        for item in list_items(response, "candidates", "content", "parts"):
            call = get_field(item, "function_call", "functionCall")
            name = get_field(call, "name")
            if name is not None:
                yield RawCall(id=get_field(call, "id"), name=str(name), arguments=get_field(call, "args"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """Return a `functionResponse` part, with the id of the call if it has one."""
        if result.failed:
            response: dict[str, Any] = {"error": result.text}
        else:
            response = {"output": result.text if result.value is None else result.value}
        part: dict[str, Any] = {"name": call.exported, "response": response}
        if call.model_id is not None:
            part["id"] = call.model_id
        return {"functionResponse": part}

    def build_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return one content with all results. Gemini finds the call of a result without an id by their order."""
        return [{"role": "user", "parts": list(results)}] if results else []


class Bedrock(Format):
    """Amazon Bedrock's Converse API: `toolUse` blocks, and `toolResult` blocks of one user message."""

    name = "bedrock"

    def format_tools(self, tools: Sequence[ExportedTool]) -> list[dict[str, Any]]:
        """Return the `tools` of a request's `toolConfig`."""
        return [{"toolSpec": {**tool.labels, "inputSchema": {"json": tool.schema}}} for tool in tools]

    def find_calls(self, response: Any) -> Iterator[RawCall]:
        for item in list_items(response, "output", "message", "content"):
            call = get_field(item, "toolUse")
            name = get_field(call, "name")
            if name is not None:
                yield RawCall(id=get_field(call, "toolUseId"), name=str(name), arguments=get_field(call, "input"))

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """Return a `toolResult` block. Blank text is dropped, because the API rejects it."""
        content: list[dict[str, Any]] = []
        if result.value is not None:
            content.append({"json": result.value})
        else:
            for block in result.blocks:
                item = self._format_block(block)
                if "text" not in item or item["text"].strip():
                    content.append(item)
        status = "error" if result.failed else "success"
        return {"toolResult": {"toolUseId": call.id, "content": content or [{"text": NOTHING}], "status": status}}

    def build_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return one message. This API expects all results of a response in the next message."""
        return [{"role": "user", "content": list(results)}] if results else []

    @staticmethod
    def _format_block(block: dict[str, Any]) -> dict[str, Any]:
        """Return a block. Images and PDFs are bytes, because boto3 encodes them."""
        image = get_image(block)
        if image is not None:
            mime_type, data = image
            return {"image": {"format": mime_type.removeprefix("image/"), "source": {"bytes": base64.b64decode(data)}}}
        pdf = get_pdf(block)
        if pdf is not None:
            return {"document": {"format": "pdf", "name": "document", "source": {"bytes": base64.b64decode(pdf)}}}
        return {"text": format_block(block)}


class Ollama(OpenAIChat):
    """Ollama's chat API: functions have OpenAI's form, but calls have no ids, and their arguments are objects."""

    name = "ollama"
    strict = False
    path = ("message", "tool_calls")

    def format_result(self, call: ModelCall, result: ModelResult) -> dict[str, Any]:
        """Return a message. The format only has text, also for errors."""
        return {"role": "tool", "tool_name": call.exported, "content": result.text}


FORMATS: Mapping[str, Format] = {
    item.name: item for item in (OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini(), Bedrock(), Ollama())
}
"""The formats by their names on the command line."""
