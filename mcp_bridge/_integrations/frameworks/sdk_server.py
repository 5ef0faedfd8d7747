"""The base of the adapters for whole servers of the MCP SDK and of FastMCP.

It converts the tools, resources, templates and prompts of a server to an offer, and their results and errors to those
of the bridge.
"""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import anyio

from mcp_bridge._contracts.content import Content, EmbeddedResource, Message, Text
from mcp_bridge._contracts.errors import MissingCapability, PromptNotFound, ResourceNotFound
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, MISSING_CAPABILITY
from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.source import Offer
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.frameworks.common import Json, is_a, make_failure
from mcp_bridge._integrations.frameworks.sdk_calls import (
    RequestFactory,
    dump_json,
    find_call_error,
    is_protocol_error,
    read_needs,
    read_protocol_error,
)
from mcp_bridge._integrations.frameworks.toolboxes import Toolbox
from mcp_bridge._json_schema.uri_templates import check_template, parse_template_variables
from mcp_bridge._protocol.wire.content_reader import from_block
from mcp_bridge._protocol.wire.outcomes import REQUIRED
from mcp_bridge._protocol.wire.values import to_plain_text

Handler = Callable[..., Any]
# The names that FastMCP and the SDK give to a server without a name.
_GENERATED_NAME = re.compile(r"FastMCP-\w+|mcp-server")
# The errors whose texts their authors wrote for clients, except for those of crashes.
_FOR_MODEL = ("FastMCPError", "NotFoundError", "DisabledError", "ToolError", "ResourceError", "PromptError")
_CRASHES = ("UnexpectedToolError", "UnexpectedResourceError")
_NOT_FOUND = ("NotFoundError", "DisabledError", "ResourceNotFoundError")
_MISSING_CODES = (INVALID_PARAMS, -32002)
"""The codes of errors for resources and prompts that do not exist (2025-11-25 and later versions)."""
_WRAPPER_TEXT = re.compile(r"Error (calling tool|reading resource|rendering prompt) ['\"]")
"""The beginning of FastMCP's errors with the text of an unexpected exception."""
_BUSY = -32000
"""The code of the errors of FastMCP's rate limiters."""
_FIRST_DELAY, _LAST_DELAY = 0.05, 1.0
"""The seconds before a list is requested again from a busy server. Each delay is twice the one before."""
logger = logging.getLogger("mcp_bridge.frameworks")


class SdkServer(Toolbox):
    """A server in this process. A subclass opens it and calls it.

    `client` is a client of the server. It is open as long as the toolbox. It starts the server's lifespan, lists
    everything and completes arguments. Calls do not go through it, except those of an `MCPServer` with extensions.
    """

    package = ""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.client: Any = None
        self.requests: Any = None
        self._change = anyio.Event()

    @abstractmethod
    async def list_page_items(self, kind: str) -> Sequence[Any]:
        """List the server's `tools`, `resources`, `resource_templates` or `prompts`, as models of the SDK."""

    @abstractmethod
    async def build_handler(self, name: str) -> Handler:
        """Return the handler of a tool."""

    @abstractmethod
    async def fetch_contents(self, uri: str, ctx: RunningCall) -> Any:
        """Return the contents of a resource and the `_meta` of the result, or an `InputRequiredResult`.

        Each of the contents has `content`, `mime_type` and `meta`.
        """

    @abstractmethod
    async def get_prompt(self, name: str, arguments: Json, ctx: RunningCall) -> Any:
        """Return the messages of a prompt, as a model of the SDK."""

    @abstractmethod
    async def list_completions(self, reference: Any, argument: Json, arguments: Json | None) -> Any:
        """Return a completion, as a model of the SDK. `reference` is a model, too; `arguments` already have a value."""

    @abstractmethod
    def read_presentation(self) -> tuple[Any, str | None]:
        """Return the `Implementation` that the server sends to clients, and its instructions."""

    def open_requests(self, auth: Any) -> None:
        """Prepare for calls, and import the SDK. `auth` is the authentication of the server. It is not used."""
        self.requests = RequestFactory(self.report_change)
        if auth is not None:
            logger.warning(
                "the authentication of the server %r is not used. Instead, set http.token_env, http.tokens or http.jwt",
                self.server.name,
            )

    async def list_entries(self) -> Sequence[ToolEntry]:
        return [await self._build_tool(dump_json(tool)) for tool in await self._list_items("tools")]

    async def _list_items(self, kind: str) -> Sequence[Any]:
        """List the items of a kind. If the server is busy, try again, until the timeout for opening it cancels this."""
        delay = _FIRST_DELAY
        while True:
            try:
                return await self.list_page_items(kind)
            except Exception as error:
                if not is_protocol_error(error) or read_protocol_error(error)[0] != _BUSY:
                    raise
                logger.info("the server %r is busy, so its %s are listed again: %s", self.server.name, kind, error)
            await anyio.sleep(delay)
            delay = min(2 * delay, _LAST_DELAY)

    async def list_offer(self) -> Offer:
        """List tools, resources, templates and prompts."""
        completes = self.client.server_capabilities.completions is not None
        templates = await self._list_items("resource_templates")
        return Offer(
            tools=await self.list_entries(),
            resources=[self._build_resource(dump_json(item)) for item in await self._list_items("resources")],
            templates=[self._build_template(dump_json(item), completes) for item in templates],
            prompts=[self._build_prompt(dump_json(item), completes) for item in await self._list_items("prompts")],
            server=self._find_server_info(),
        )

    async def wait_for_change(self) -> None:
        await self._change.wait()
        self._change = anyio.Event()

    def report_change(self) -> None:
        """List everything again."""
        self._change.set()

    def _find_server_info(self) -> ServerInfo:
        """Return the author's description of the server, without generated names."""
        info, instructions = self.read_presentation()
        return ServerInfo(
            name=None if _GENERATED_NAME.fullmatch(info.name) else info.name,
            version=info.version or None,
            title=info.title,
            instructions=instructions or None,
            description=info.description,
            website_url=info.website_url,
            icons=[dump_json(icon) for icon in info.icons or ()] or None,
        )

    async def _build_tool(self, tool: Json) -> ToolEntry:
        meta = tool.get("_meta") or {}
        package_meta = meta.get(self.package)
        tags = package_meta.get("tags") if isinstance(package_meta, dict) else None
        return ToolEntry(
            tool["name"],
            tool.get("description") or "",
            await self.build_handler(tool["name"]),
            tool.get("inputSchema") or {},
            tool.get("outputSchema") or {},
            [str(tag) for tag in tags or ()],
            annotations=tool.get("annotations") or {},
            **_read_presentation(tool),
        )

    def _build_resource(self, resource: Json) -> ResourceEntry:
        async def read_contents(data: Json, ctx: RunningCall) -> Any:
            return await self._read_contents(resource["uri"], ctx)

        return ResourceEntry(resource["uri"], read_contents, **_read_resource_fields(resource))

    def _build_template(self, template: Json, completes: bool) -> ResourceTemplate:
        text = template["uriTemplate"]
        names = [variable.name for variable in parse_template_variables(text)]
        is_opaque = self.is_opaque(text)
        uri_template: Any = None
        if not is_opaque:
            uri_template = import_module("mcp.shared.uri_template").UriTemplate.parse(text)

        async def read_contents(data: Json, ctx: RunningCall) -> Any:
            uri = data["uri"] if is_opaque else uri_template.expand(data)
            return await self._read_contents(uri, ctx)

        return ResourceTemplate(
            text,
            read_contents,
            completions=self._build_completions({"type": "ref/resource", "uri": text}, names) if completes else {},
            is_opaque=is_opaque,
            **_read_resource_fields(template),
        )

    def is_opaque(self, template: str) -> bool:
        """Return whether only the server can read the variables of a URI with this template."""
        return bool(check_template(template))

    async def _read_contents(self, uri: str, ctx: RunningCall) -> Any:
        async def read_result() -> ToolResult | NeedsInput:
            result = await self.fetch_contents(uri, ctx)
            if is_a(result, "mcp_types", "InputRequiredResult"):
                return read_needs(result)
            contents, meta = result
            return ToolResult(success=True, content=[_to_embedded(uri, item) for item in contents], meta=meta)

        return await return_failure(read_result(), self.package, missing=ResourceNotFound.code)

    def _build_prompt(self, prompt: Json, completes: bool) -> PromptEntry:
        arguments = [
            PromptArgument(item["name"], item.get("description") or "", bool(item.get("required")), item.get("title"))
            for item in prompt.get("arguments") or ()
        ]

        async def build_messages(data: Json, ctx: RunningCall) -> ToolResult | NeedsInput:
            result = await self.get_prompt(prompt["name"], dict(data or {}), ctx)
            if is_a(result, "mcp_types", "InputRequiredResult"):
                return read_needs(result)
            messages = [Message(convert_block(message.content), message.role) for message in result.messages]
            return ToolResult(success=True, content=messages, meta=result.meta)

        async def get_messages(data: Json, ctx: RunningCall) -> Any:
            return await return_failure(build_messages(data, ctx), self.package, missing=PromptNotFound.code)

        reference = {"type": "ref/prompt", "name": prompt["name"]}
        names = [argument.name for argument in arguments]
        return PromptEntry(
            prompt["name"],
            get_messages,
            prompt.get("description") or "",
            arguments,
            completions=self._build_completions(reference, names) if completes else {},
            **_read_presentation(prompt),
        )

    def _build_completions(self, reference: Json, names: Sequence[str]) -> dict[str, Handler]:
        class_name = "PromptReference" if reference["type"] == "ref/prompt" else "ResourceTemplateReference"
        model = getattr(import_module("mcp_types"), class_name).model_validate(reference)

        def build_function(argument: str) -> Handler:
            async def list_values(value: str, known: Mapping[str, str]) -> Json:
                arguments = dict(known) or None
                return dump_json(await self.list_completions(model, {"name": argument, "value": value}, arguments))

            return list_values

        return {name: build_function(name) for name in names}


def convert_result(result: Any) -> ToolResult | NeedsInput:
    """Convert a result of the SDK (a model)."""
    if is_a(result, "mcp_types", "InputRequiredResult"):
        return read_needs(result)
    blocks = [convert_block(block) for block in result.content]
    output = result.structured_content
    if not result.is_error:
        return ToolResult(success=True, output=output, content=blocks, meta=result.meta)
    error = "\n".join(block.text for block in blocks if isinstance(block, Text))
    return ToolResult(success=False, output=output, error=error, content=blocks, code="tool_error", meta=result.meta)


def convert_block(block: Any) -> Content:
    """Convert a content block of the SDK (a model)."""
    if block.type == "text" and block.annotations is None and block.meta is None:
        return Text(block.text)
    content = from_block(dump_json(block))
    return content if isinstance(content, Content) else Text(to_plain_text(content))


async def return_failure(call: Awaitable[Any], package: str, *, missing: str | None = None) -> Any:
    """Return the result of a server's call, or its error in the form of `convert_error`."""
    try:
        return await call
    except Exception as error:
        failure = _unwrap_crash(error)
    # Raise outside of the block. Inside, Python would make the wrapper the context of its own cause.
    return convert_error(failure, package, missing=missing)


def convert_error(error: Exception, package: str, *, missing: str | None = None) -> ToolResult:
    """Return a failure for an error whose text is for the model. `missing` is its code if something was not found.

    If an error of the bridge has caused the error, raises its cause. Raises any other error, whose text stays on the
    server.
    """
    cause = find_call_error(error)
    # The error is an effect of its cause, so it must not become the cause's context.
    if cause is not None:
        raise cause from None
    if not is_for_model(error, package):
        raise error
    is_missing = is_a(error, package, *_NOT_FOUND)
    if is_protocol_error(error):
        code, data = read_protocol_error(error)
        is_missing = code in _MISSING_CODES
        if code == MISSING_CAPABILITY and isinstance(data, Mapping) and isinstance(data.get(REQUIRED), Mapping):
            raise MissingCapability(data[REQUIRED]) from None
    return make_failure(str(error), missing if is_missing else None)


def is_for_model(error: Exception, package: str) -> bool:
    """Return whether the text of an error is for the model. The text of a crash stays on the server."""
    return is_protocol_error(error) or (is_a(error, package, *_FOR_MODEL) and not is_a(error, package, *_CRASHES))


def _unwrap_crash(error: Exception) -> Exception:
    """Return the exception of the author's function inside an error of the package; else the error itself."""
    cause = error.__cause__
    is_wrapper = is_a(error, "fastmcp", "FastMCPError") and _WRAPPER_TEXT.match(str(error))
    if isinstance(cause, Exception) and (is_wrapper or is_a(error, "mcp", *_CRASHES)):
        return cause
    return error


def _to_embedded(uri: str, item: Any) -> EmbeddedResource:
    mime_type = item.mime_type or ("application/octet-stream" if isinstance(item.content, bytes) else "text/plain")
    return EmbeddedResource(uri, item.content, mime_type, meta=item.meta)


def _read_presentation(item: Json) -> dict[str, Any]:
    return {"title": item.get("title"), "icons": item.get("icons") or [], "meta": item.get("_meta") or {}}


def _read_resource_fields(item: Json) -> dict[str, Any]:
    fields = {
        "name": item.get("name") or "",
        "description": item.get("description") or "",
        "mime_type": item.get("mimeType"),
        "annotations": item.get("annotations") or {},
        **_read_presentation(item),
    }
    # Templates have no size.
    if item.get("size") is not None:
        fields["size"] = item["size"]
    return fields
