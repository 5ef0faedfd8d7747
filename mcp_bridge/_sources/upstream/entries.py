"""Builds entries from the items of a server's lists, with handlers that forward each call to the server.

It also reads the results of the server: they become ToolResults, further questions (NeedsInput) or errors of the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_bridge._contracts.content import Content, EmbeddedResource, Message, Text
from mcp_bridge._contracts.errors import (
    CallError,
    InvalidArguments,
    MissingCapability,
    ResourceNotFound,
    ToolError,
    ToolUnavailable,
)
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, INVALID_PARAMS, MISSING_CAPABILITY, RpcError
from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._json_schema.uri_templates import check_template, expand_template, parse_template_variables
from mcp_bridge._protocol.wire import questions
from mcp_bridge._protocol.wire.content_reader import from_block
from mcp_bridge._protocol.wire.meta_keys import SERVER_INFO
from mcp_bridge._protocol.wire.outcomes import REQUIRED
from mcp_bridge._protocol.wire.tools import ERROR_CODE, META, join_texts
from mcp_bridge._protocol.wire.values import to_plain_text
from mcp_bridge._upstream.trust.screening import find_hidden_text, screen_question, shorten_text

Json = Mapping[str, Any]
MAX_NAME = 8 * 1024
"""The maximum number of characters of a name or a URI."""
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CLIENT_CAPABILITIES = {"elicitation": ("form", "url"), "sampling": ("tools", "context"), "roots": ()}
"""The capabilities, with their options, that a server may require of a client. Others cannot be relayed."""
_RESOURCE_NOT_FOUND = -32002
"""The error code of handshake servers for an unknown resource."""


class Forwarder(Protocol):
    """Sends requests to the server."""

    name: str

    async def forward(self, method: str, params: dict[str, Any], ctx: RunningCall) -> Json:
        """Send the request of a call. Raises RpcError and ToolUnavailable."""

    async def request_completion(self, params: dict[str, Any]) -> Json:
        """Send completion/complete. Raises RpcError and ToolUnavailable."""


@dataclass(frozen=True, slots=True)
class EntryBuilder:
    """Builds the entries of one server. `completes` means that the server suggests values of arguments."""

    forwarder: Forwarder
    completes: bool = False

    def build_tool(self, tool: Json) -> ToolEntry:
        """Build a tool. Raises KeyError and TypeError for an invalid listing."""
        name = _read_text(tool, "name")

        async def call_tool(data: Any, ctx: RunningCall) -> ToolResult | NeedsInput:
            params = {"name": name, "arguments": data if data is not None else {}}
            result: ToolResult | NeedsInput = await self._forward("tools/call", params, ctx, read_tool_result)
            return result

        return ToolEntry(
            name,
            str(tool.get("description") or ""),
            call_tool,
            _read_mapping(tool, "inputSchema") or {"type": "object"},
            _read_mapping(tool, "outputSchema"),
            annotations=_read_mapping(tool, "annotations"),
            **_read_presentation(tool),
        )

    def build_resource(self, resource: Json) -> ResourceEntry:
        """Build a resource. Raises KeyError and TypeError for an invalid listing."""
        uri = _read_text(resource, "uri")

        async def read_listed(data: Any, ctx: RunningCall) -> Any:
            return await self._forward("resources/read", {"uri": uri}, ctx, _read_resource_result)

        size = resource.get("size")
        return ResourceEntry(
            uri, read_listed, size=size if isinstance(size, int) else None, **_read_resource_fields(resource)
        )

    def build_template(self, template: Json) -> ResourceTemplate:
        """Build a resource template. Raises KeyError and TypeError for an invalid listing."""
        text = _read_text(template, "uriTemplate")

        # Our parser supports only a part of RFC 6570. With another template, calls pass the URI as a whole, and the
        # server finds the variables in it.
        is_opaque = bool(check_template(text.replace(" ", "%20")))

        async def read_expanded(data: Any, ctx: RunningCall) -> Any:
            uri = data["uri"] if is_opaque else expand_template(text, data)
            return await self._forward("resources/read", {"uri": uri}, ctx, _read_resource_result)

        names = [] if is_opaque else [variable.name for variable in parse_template_variables(text)]
        completions = self._build_completions({"type": "ref/resource", "uri": text}, names)
        return ResourceTemplate(
            text, read_expanded, completions=completions, is_opaque=is_opaque, **_read_resource_fields(template)
        )

    def build_prompt(self, prompt: Json) -> PromptEntry:
        """Build a prompt. Raises KeyError and TypeError for an invalid listing."""
        name = _read_text(prompt, "name")
        arguments = [
            PromptArgument(
                _read_text(item, "name"),
                str(item.get("description") or ""),
                bool(item.get("required")),
                item.get("title"),
            )
            for item in prompt.get("arguments") or ()
        ]

        async def get_prompt(data: Any, ctx: RunningCall) -> Any:
            params = {"name": name, "arguments": dict(data or {})}
            return await self._forward("prompts/get", params, ctx, _read_messages)

        completions = self._build_completions({"type": "ref/prompt", "name": name}, [item.name for item in arguments])
        description = str(prompt.get("description") or "")
        return PromptEntry(
            name, get_prompt, description, arguments, completions=completions, **_read_presentation(prompt)
        )

    async def _forward(
        self, method: str, params: dict[str, Any], ctx: RunningCall, read_result: Callable[[Json], Any]
    ) -> Any:
        # A stateless server has asked the user before, and gets the answers with the repeated request.
        if ctx.answers or ctx.state is not None:
            params |= questions.render_continuation(ctx.answers, ctx.state)
        try:
            result = await self.forwarder.forward(method, params, ctx)
        except RpcError as error:
            raise describe_failure(error, method, self.forwarder.name) from error
        try:
            if result.get("resultType") == "input_required":
                needs = questions.read_needs(result.get("inputRequests") or {}, result.get("requestState"))
                screened_questions = {}
                for key, question in needs.questions.items():
                    screened_questions[key] = screen_question(question, self.forwarder.name)
                return NeedsInput(screened_questions, needs.state)
            return read_result(result)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"The server '{self.forwarder.name}' returned a result that is malformed: {shorten_text(str(error))}"
            raise ToolError(text, code="server_error") from error

    def _build_completions(self, reference: Json, names: Sequence[str]) -> dict[str, Callable[..., Any]]:
        """Return a completion function for each of these arguments, if the server has completions."""

        def build_function(argument: str) -> Callable[..., Any]:
            async def suggest_values(value: str, arguments: Mapping[str, str]) -> Any:
                params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
                if arguments:
                    params["context"] = {"arguments": dict(arguments)}
                result = await self.forwarder.request_completion(params)
                return result.get("completion") or ()

            return suggest_values

        if not self.completes:
            return {}
        return {name: build_function(name) for name in names}


def read_tool_result(result: Json) -> ToolResult:
    """Return the ToolResult for a result of tools/call on the wire."""
    content = result.get("content", [])
    if not isinstance(content, list):
        raise TypeError("its content is not a list")
    blocks = [_read_block(block) for block in content]
    meta = _read_meta(result)
    if not result.get("isError"):
        return ToolResult(success=True, output=result.get("structuredContent"), content=blocks, meta=meta)
    error, code = join_texts(blocks), (meta or {}).get(ERROR_CODE)
    return ToolResult(
        success=False,
        output=result.get("structuredContent"),
        error=error,
        content=blocks or None,
        code=code if isinstance(code, str) and code else ToolError.code,
        meta=meta,
    )


def describe_failure(error: RpcError, method: str, name: str) -> CallError:
    """Return the error of a call for an error response of the server `name`."""
    if error.code == CONNECTION_CLOSED:
        return ToolUnavailable(f"The server '{name}' ended during the call. Retry the call.")
    if error.code == MISSING_CAPABILITY and (capabilities := _read_required_capabilities(error.data)):
        return MissingCapability(capabilities)
    if method == "resources/read" and error.code in (INVALID_PARAMS, _RESOURCE_NOT_FOUND):
        return ToolError(error.message, code=ResourceNotFound.code)
    if method == "prompts/get" and error.code == INVALID_PARAMS:
        return ToolError(error.message, code=InvalidArguments.code)
    return ToolError(error.message, code="server_error")


def _read_required_capabilities(data: Any) -> dict[str, Any]:
    """Return the capabilities that a server requires of clients, if they can be relayed."""
    capabilities = _read_mapping(data, REQUIRED) if isinstance(data, Mapping) else {}
    required: dict[str, Any] = {}
    for name, options in _CLIENT_CAPABILITIES.items():
        if name in capabilities:
            required_options = _read_mapping(capabilities, name)
            required[name] = {option: {} for option in options if option in required_options}
    return required


def _read_block(block: Any) -> Content:
    content = from_block(block) if isinstance(block, dict) else block
    return content if isinstance(content, Content) else Text(to_plain_text(content))


def _read_meta(result: Json) -> Json | None:
    """Return the `_meta` of a result without the name of the server, or None. The bridge names itself instead."""
    meta = result.get("_meta") or {}
    return {key: value for key, value in meta.items() if key != SERVER_INFO} or None


def _read_resource_result(result: Json) -> ToolResult:
    # Each item has the form of the resource in an embedded resource.
    blocks = [
        from_block({"type": "resource", "resource": item, "_meta": item.get("_meta")})
        for item in result.get("contents") or ()
    ]
    resources = [block for block in blocks if isinstance(block, EmbeddedResource)]
    if not resources:
        raise ResourceNotFound("The server returned no contents for this resource.")
    return ToolResult(success=True, content=resources, meta=_read_meta(result))


def _read_messages(result: Json) -> ToolResult:
    messages = [Message(_read_block(item.get("content")), item.get("role")) for item in result.get("messages") or ()]
    return ToolResult(success=True, content=messages, meta=_read_meta(result))


def _read_text(item: Any, key: str) -> str:
    value = item[key]
    if not isinstance(value, str) or not value:
        raise TypeError(f"its {key} is not text")
    if len(value) > MAX_NAME:
        raise ValueError(f"its {key} has more than {MAX_NAME} characters")
    if find_hidden_text(value) is not None or _CONTROLS.search(value):
        raise ValueError(f"its {key} has invisible characters: {value[:100]!a}")
    return value


def _read_mapping(item: Json, key: str) -> dict[str, Any]:
    value = item.get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def _read_presentation(item: Json) -> dict[str, Any]:
    """Return the fields of an entry for clients. The bridge's own keys of `_meta` are left out."""
    title, icons = item.get("title"), item.get("icons")
    return {
        "title": title if isinstance(title, str) else None,
        "icons": icons if isinstance(icons, list) else [],
        "meta": {key: value for key, value in _read_mapping(item, "_meta").items() if not key.startswith(META)},
    }


def _read_resource_fields(item: Json) -> dict[str, Any]:
    media_type = item.get("mimeType")
    is_valid = isinstance(media_type, str) and media_type.isprintable() and media_type.isascii()
    return {
        "name": str(item.get("name") or ""),
        "description": str(item.get("description") or ""),
        "mime_type": media_type if is_valid else None,
        "annotations": _read_mapping(item, "annotations"),
        **_read_presentation(item),
    }
