"""Calls of pydantic-ai's tools outside of any run of an agent: what a tool and a set of tools share."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import InvalidArguments, ToolUnavailable
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.blocks import of_data, of_url
from mcp_bridge.frameworks.consent import agreed
from mcp_bridge.frameworks.shapes import Json, is_a
from mcp_bridge.wire.values import as_text, to_result

PACKAGE = "pydantic_ai"
METADATA = "pydantic_ai/metadata"
"""The key in `_meta` for what a tool gives beside what the model is to read."""
_ELSEWHERE = {"external": "its results are made elsewhere", "output": "its call would end an agent's run"}
"""Kinds of tools that cannot be called here, and why."""
_MEDIA = ("BinaryContent", "FileUrl", "TextContent", "UploadedFile")
_KINDS = ("audio-url", "binary", "document-url", "image-url", "text-content", "uploaded-file", "video-url")
_JSON = (str, int, float, bool, list, dict)


def run_context() -> Any:
    """A context without dependencies, as tools are listed and called with."""
    model = import_module(f"{PACKAGE}.models.test").TestModel(call_tools=[])
    usage = import_module(f"{PACKAGE}.usage").RunUsage()
    return import_module(PACKAGE).RunContext(deps=None, model=model, usage=usage)


def why_not(definition: Any) -> str | None:
    """Why a tool cannot be published; None for one that can."""
    reason = _ELSEWHERE.get(definition.kind)
    return f"the pydantic-ai tool '{definition.name}' cannot be called here: {reason}" if reason else None


def entry_of(definition: Any, toolset: Any) -> ToolEntry:
    """A tool of a toolset as an entry. Annotations are those that a server of MCP has said."""
    output = getattr(definition, "return_schema", None) or {}
    metadata = definition.metadata if isinstance(definition.metadata, dict) else {}
    annotations = metadata.get("annotations")
    return ToolEntry(
        definition.name,
        definition.description or "",
        _Calls(toolset, definition.name).handler,
        dict(definition.parameters_json_schema),
        dict(output) if output.get("type") == "object" and not _is_media(output) else {},
        annotations=dict(annotations) if isinstance(annotations, dict) else {},
    )


def _is_media(schema: Json) -> bool:
    """Whether this is the schema of one of pydantic-ai's own files, which become content and no structure."""
    kind = (schema.get("properties") or {}).get("kind")
    return isinstance(kind, dict) and kind.get("const") in _KINDS


class _Calls:
    """Calls of one tool. Each asks the toolset for it again: it may have gone, or be prepared for each run."""

    def __init__(self, toolset: Any, name: str) -> None:
        self._toolset = toolset
        self._name = name

    async def handler(self, data: Json, ctx: CallContext) -> ToolResult:
        context = replace(run_context(), tool_name=self._name, tool_call_id=ctx.request_id or "call")
        tool = (await self._toolset.get_tools(context)).get(self._name)
        if tool is None:
            raise ToolUnavailable(f"The tool '{self._name}' is not offered now.")
        if tool.tool_def.kind == "unapproved":
            context = await self._approved(context, data, ctx)
        try:
            try:
                return await self._run(tool, data, context)
            except Exception as error:
                if not is_a(error, PACKAGE, "ApprovalRequired"):
                    raise
            return await self._run(tool, data, await self._approved(context, data, ctx))
        except Exception as error:
            return self._told(error)

    async def _approved(self, context: Any, data: Json, ctx: CallContext) -> Any:
        await agreed(ctx, self._name, data)
        return replace(context, tool_call_approved=True)

    async def _run(self, tool: Any, data: Json, context: Any) -> ToolResult:
        try:
            arguments = tool.args_validator.validate_python(dict(data or {}))
        except Exception as error:
            if not is_a(error, "pydantic_core", "ValidationError"):
                raise
            raise InvalidArguments(_lines(error), tool=self._name) from error
        check = getattr(tool, "args_validator_func", None)
        said = check(context, **arguments) if check is not None else None
        if inspect.isawaitable(said):
            await said
        with _leaving_threads():
            answer = await self._toolset.call_tool(self._name, arguments, context, tool)
        return _wrapped(_read(answer), getattr(tool.tool_def, "return_schema", None) or {})

    def _told(self, error: Exception) -> ToolResult:
        """What a raised error means for the model. Raises it again where it is not meant for one."""
        if is_a(error, PACKAGE, "ModelRetry", "ToolFailed"):
            return ToolResult(success=False, error=as_text(getattr(error, "message", "")), code="tool_error")
        if is_a(error, PACKAGE, "CallDeferred"):
            raise ToolUnavailable(f"The tool '{self._name}' wants to answer later, which only an agent waits for.")
        raise error


def _leaving_threads() -> AbstractContextManager[None]:
    """A call that is ended does not wait for the thread that a synchronous function runs in."""
    leaving = getattr(import_module(f"{PACKAGE}._utils"), "abandon_threads_on_cancel", nullcontext)
    made: AbstractContextManager[None] = leaving()
    return made


def _wrapped(result: ToolResult, schema: Json) -> ToolResult:
    """A result as its schema has it: toolsets of MCP take the value out of `{"result": ...}`, and leave the schema."""
    given = result.output
    if list(schema.get("properties") or ()) != ["result"] or (isinstance(given, dict) and "result" in given):
        return result
    content = result.content if result.content is not None else [Text(as_text(given))]
    return replace(result, output={"result": given}, content=content)


def _lines(error: Any) -> list[str]:
    return [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()]


def _read(answer: Any) -> ToolResult:
    """An answer: its files as content, all else as it is; what a `ToolReturn` adds for the model comes after it."""
    added: list[Content] = []
    meta = None
    if is_a(answer, PACKAGE, "ToolReturn"):
        said = answer.content
        added = [_block(item) for item in ([said] if isinstance(said, str) else said or ())]
        meta = {METADATA: answer.metadata} if isinstance(answer.metadata, _JSON) else None
        answer = answer.return_value
    items = list(answer) if isinstance(answer, list | tuple) else [answer]
    if any(is_a(item, PACKAGE, *_MEDIA) for item in items):
        return ToolResult(success=True, content=[*map(_block, items), *added], meta=meta)
    made = to_result(answer)
    if not added:
        return replace(made, meta=meta)
    own = [] if answer is None else made.content or [Text(as_text(made.output))]
    return replace(made, content=[*own, *added], meta=meta)


def _block(item: Any) -> Content:
    if is_a(item, PACKAGE, "BinaryContent"):
        return of_data(item.data, item.media_type)
    if is_a(item, PACKAGE, "FileUrl"):
        return of_url(item.url)
    if is_a(item, PACKAGE, "TextContent"):
        return Text(item.content)
    if is_a(item, PACKAGE, "UploadedFile"):
        return Text(f"[a file that {item.provider_name} keeps as {item.file_id}]")
    return Text(as_text(item))
