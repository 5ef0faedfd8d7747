"""Built-in tools for resources and prompts, for clients without support for these: `list_resources` and others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image, Text
from mcp_bridge._contracts.errors import InvalidArguments, PromptNotFound, ResourceNotFound
from mcp_bridge._contracts.listing import GET_PROMPT, LIST_PROMPTS, LIST_RESOURCES, READ_RESOURCE
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire.messages import render_messages
from mcp_bridge._protocol.wire.tools import WireTool
from mcp_bridge._server.pages import BadCursor
from mcp_bridge._server.prompts import PromptMethods
from mcp_bridge._server.requests import Request, truncate_text
from mcp_bridge._server.resources import ResourceMethods
from mcp_bridge._server.tools.methods import TEXT, BuiltInTool, Target, build_tool, read_reference
from mcp_bridge._server.truncation import ResultTruncator

_CURSOR = {"cursor": {**TEXT, "description": "The nextCursor of the previous page."}}
_SHOWN_FIELDS = ("uri", "uriTemplate", "name", "title", "description", "mimeType", "size", "arguments")


class ResourceTools:
    """The tools `list_resources` and `read_resource`."""

    def __init__(self, registry: ToolRegistry, methods: ResourceMethods, truncator: ResultTruncator) -> None:
        self._registry = registry
        self._methods = methods
        self._truncator = truncator

    def build_tools(self) -> list[BuiltInTool]:
        """Build the tools."""
        return [
            build_tool(
                self._list_resources,
                LIST_RESOURCES,
                "List the resources of this server: files, records and other data to read. A URI template describes "
                f"many resources: replace its variables. Read them with {READ_RESOURCE}.",
                _CURSOR,
            ),
            build_tool(
                self._read_page,
                READ_RESOURCE,
                f"Read a resource of this server, which {LIST_RESOURCES} or the result of a tool names.",
                {"uri": TEXT},
                ["uri"],
                find_target=self._find_target,
            ),
        ]

    async def _list_resources(self, data: Any, ctx: RunningCall) -> dict[str, Any]:
        try:
            return _select_fields(self._methods.render_lists(ctx.protocol_version, data.get("cursor")))
        except BadCursor as error:
            raise _make_cursor_error(LIST_RESOURCES) from error

    def _find_target(self, arguments: Mapping[str, Any], request: Request, tool: WireTool) -> Target | None:
        uri = arguments.get("uri")
        if not isinstance(uri, str) or len(arguments) != 1:
            return None
        try:
            match = self._registry.finder.find_resource(uri)
        except ResourceNotFound:
            return None
        return Target(match.prepared, tool, call=match.make_call(str(request.id)), convert=_convert_contents)

    async def _read_page(self, data: Any, ctx: RunningCall) -> str:
        """Read a page of a truncated result, which is not a published resource.

        `_find_target` finds published ones, so this also reports an unknown URI.
        """
        page = await self._truncator.read_page(data["uri"], ctx.principal)
        if page is None:
            self._registry.finder.find_resource(data["uri"])
            raise ResourceNotFound(f"Resource not found: {truncate_text(data['uri'])}")
        return str(page["text"])


class PromptTools:
    """The tools `list_prompts` and `get_prompt`."""

    def __init__(self, methods: PromptMethods) -> None:
        self._methods = methods

    def build_tools(self) -> list[BuiltInTool]:
        """Build the tools."""
        arguments = {"type": "object", "additionalProperties": TEXT, "description": "Its arguments, all of them text."}
        return [
            build_tool(
                self._list_prompts,
                LIST_PROMPTS,
                "List the prompts of this server: prepared instructions for a task, with their arguments. Get them "
                f"with {GET_PROMPT}.",
                _CURSOR,
            ),
            build_tool(
                self._report_unknown_prompt,
                GET_PROMPT,
                f"Get the messages of a prompt that {LIST_PROMPTS} names.",
                {"name": TEXT, "arguments": arguments},
                ["name"],
                find_target=self._find_target,
            ),
        ]

    async def _list_prompts(self, data: Any, ctx: RunningCall) -> dict[str, Any]:
        try:
            return _select_fields(self._methods.render_list(ctx.protocol_version, data.get("cursor")))
        except BadCursor as error:
            raise _make_cursor_error(LIST_PROMPTS) from error

    def _find_target(self, arguments: Mapping[str, Any], request: Request, tool: WireTool) -> Target | None:
        reference = read_reference(arguments, "name")
        if reference is None:
            return None
        name, prompt_arguments = reference
        prompt = self._methods.find_prompt(name)
        if prompt is None:
            return None
        call = ToolCall(id=str(request.id), name=name, arguments=prompt_arguments, kind="prompt", root="$.arguments")
        return Target(prompt, tool, call=call, convert=partial(_convert_messages, request.version))

    async def _report_unknown_prompt(self, data: Any) -> None:
        raise PromptNotFound(f"Unknown prompt: {truncate_text(data['name'])}. Call {LIST_PROMPTS} for their names.")


def _select_fields(page: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of a list with only the useful fields for a model."""
    result: dict[str, Any] = {}
    for key, value in page.items():
        if isinstance(value, list):
            result[key] = [{name: item[name] for name in _SHOWN_FIELDS if name in item} for item in value]
        else:
            result[key] = value
    return result


def _make_cursor_error(tool: str) -> InvalidArguments:
    return InvalidArguments(["$.cursor: not a cursor of this list. Start again without a cursor"], tool=tool)


def _convert_contents(result: ToolResult) -> ToolResult:
    """Return the contents of a resource as blocks of text, images and audio, which every client shows to its model.

    Other contents stay embedded resources.
    """
    if result.content is None or result.is_error:
        return result
    return replace(result, content=[_to_block(item) for item in result.content])


def _to_block(item: Content) -> Content:
    if not isinstance(item, EmbeddedResource):
        return item
    if isinstance(item.content, str):
        return Text(item.content, annotations=item.annotations, meta=item.meta)
    mime_type = item.mime_type or ""
    if mime_type.startswith("image/"):
        return Image(item.content, mime_type, annotations=item.annotations, meta=item.meta)
    if mime_type.startswith("audio/"):
        return Audio(item.content, mime_type, annotations=item.annotations, meta=item.meta)
    return item


def _convert_messages(version: str, result: ToolResult) -> ToolResult:
    if result.is_error:
        return result
    content: Iterable[Any] = result.content or ()
    return replace(result, output={"messages": render_messages(content, version)}, content=None)
