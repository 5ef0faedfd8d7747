"""The adapter for tools and toolsets of pydantic-ai.

They are called outside of a run of an agent, so their dependencies (`ctx.deps`) are None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, Self

import anyio

from mcp_bridge._contracts.content import Content, Text
from mcp_bridge._contracts.errors import InvalidArguments, SourceError, ToolUnavailable
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.frameworks.common import (
    Json,
    find_published_name,
    is_a,
    list_validation_errors,
    make_failure,
    require_approval,
)
from mcp_bridge._integrations.frameworks.content_blocks import from_url
from mcp_bridge._integrations.frameworks.toolboxes import CLOSE_TIMEOUT, Toolbox
from mcp_bridge._json_schema.inlining import inline_definitions
from mcp_bridge._protocol.wire.values import from_bytes, to_plain_text, to_result
from mcp_bridge._runtime.event_loop import is_on_asyncio
from mcp_bridge._runtime.third_party import resolve_awaitable

PACKAGE = "pydantic_ai"
METADATA = "pydantic_ai/metadata"
"""The key in `_meta` for the metadata of a `ToolReturn`. The model does not read it."""
_UNSUPPORTED = {"external": "its result is made elsewhere", "output": "its call would end the run of an agent"}
"""The kinds of tools for agents only, and the reasons."""
_MEDIA = ("BinaryContent", "FileUrl", "TextContent", "UploadedFile")
_KINDS = ("audio-url", "binary", "document-url", "image-url", "text-content", "uploaded-file", "video-url")
_JSON = (str, int, float, bool, list, dict)


def build_entry(tool: Any) -> ToolEntry:
    """Build the entry of a tool without preparing it. Raises SourceError if it cannot be called here."""
    problem = _find_problem(tool.tool_def)
    if problem is not None:
        raise SourceError(problem)
    toolset = import_module(f"{PACKAGE}.toolsets").FunctionToolset(tools=[tool])
    return _build_entry(tool.tool_def, toolset)


def build_toolbox(toolset: Any) -> Toolbox:
    """Build a toolbox over a toolset."""
    return _ToolsetToolbox(toolset)


class _ToolsetToolbox(Toolbox):
    """Keeps a toolset open. For the toolset, all calls belong to one run of an agent."""

    def __init__(self, toolset: Any) -> None:
        self._original = toolset
        self._toolset: Any = None

    async def __aenter__(self) -> Self:
        context = _build_context()
        toolset = self._original
        # Newer versions make a toolset for each run.
        for_run = getattr(toolset, "for_run", None)
        if for_run is not None:
            toolset = await for_run(context)
        await toolset.__aenter__()
        self._toolset = toolset
        if for_run is not None:
            self._toolset = await toolset.for_run_step(context)
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
            await self._toolset.__aexit__(*exc_info)

    async def list_entries(self) -> Sequence[ToolEntry]:
        tools = await self._toolset.get_tools(_build_context())
        entries, problems = [], []
        for tool in tools.values():
            problem = _find_problem(tool.tool_def)
            if problem is None:
                entries.append(_build_entry(tool.tool_def, self._toolset))
            else:
                problems.append(problem)
        self.problems = problems
        return entries


def _build_context() -> Any:
    model = import_module(f"{PACKAGE}.models.test").TestModel(call_tools=[])
    usage = import_module(f"{PACKAGE}.usage").RunUsage()
    return import_module(PACKAGE).RunContext(deps=None, model=model, usage=usage)


def _find_problem(definition: Any) -> str | None:
    if definition.kind not in _UNSUPPORTED:
        return None
    return f"the pydantic-ai tool '{definition.name}' cannot be called here: {_UNSUPPORTED[definition.kind]}"


def _build_entry(definition: Any, toolset: Any) -> ToolEntry:
    output = getattr(definition, "return_schema", None) or {}
    if output.get("type") != "object" or _is_media(output):
        output = {}
    # A tool of an MCP server has the annotations of that server.
    annotations = definition.metadata.get("annotations") if isinstance(definition.metadata, dict) else None
    return ToolEntry(
        definition.name,
        definition.description or "",
        _ToolsetCaller(toolset, definition.name).call,
        inline_definitions(dict(definition.parameters_json_schema)),
        inline_definitions(dict(output)),
        annotations=dict(annotations) if isinstance(annotations, dict) else {},
    )


def _is_media(schema: Json) -> bool:
    """Return whether a schema belongs to a file class of pydantic-ai. A file becomes content, not structured output."""
    kind_schema = (schema.get("properties") or {}).get("kind")
    return isinstance(kind_schema, dict) and kind_schema.get("const") in _KINDS


class _ToolsetCaller:
    """Calls one tool. Each call looks it up again, because a toolset may prepare or remove tools for each step."""

    def __init__(self, toolset: Any, name: str) -> None:
        self._toolset = toolset
        self._name = name

    async def call(self, data: Json, ctx: RunningCall) -> ToolResult:
        context = replace(_build_context(), tool_name=self._name, tool_call_id=ctx.request_id or "call")
        tool = (await self._toolset.get_tools(context)).get(self._name)
        if tool is None:
            raise ToolUnavailable("This tool is not offered now.")
        if tool.tool_def.kind == "unapproved":
            context = await self._ask_approval(context, data, ctx)
        try:
            try:
                return await self._run(tool, data, context)
            except Exception as error:
                if not is_a(error, PACKAGE, "ApprovalRequired"):
                    raise
            # The tool itself has required an approval of this call. Run it again when the user has approved.
            return await self._run(tool, data, await self._ask_approval(context, data, ctx))
        except Exception as error:
            return self._convert_error(error)

    async def _ask_approval(self, context: Any, data: Json, ctx: RunningCall) -> Any:
        await require_approval(ctx, find_published_name(ctx, self.call, self._name), data)
        return replace(context, tool_call_approved=True)

    async def _run(self, tool: Any, data: Json, context: Any) -> ToolResult:
        try:
            arguments = tool.args_validator.validate_python(dict(data or {}))
        except Exception as error:
            if not is_a(error, "pydantic_core", "ValidationError"):
                raise
            raise InvalidArguments(list_validation_errors(error)) from error
        check = getattr(tool, "args_validator_func", None)
        if check is not None:
            await resolve_awaitable(check(context, **arguments))
        with _run_in_own_threads():
            value = await self._toolset.call_tool(self._name, arguments, context, tool)
        return _wrap_output(_convert_returned(value), getattr(tool.tool_def, "return_schema", None) or {})

    def _convert_error(self, error: Exception) -> ToolResult:
        """Return a failure for an error whose text is for the model. Raises any other error."""
        if is_a(error, PACKAGE, "ModelRetry", "ToolFailed"):
            return make_failure(to_plain_text(getattr(error, "message", "")))
        if is_a(error, PACKAGE, "CallDeferred"):
            raise ToolUnavailable("This tool defers its result, which only an agent can wait for.")
        raise error


@contextmanager
def _run_in_own_threads() -> Iterator[None]:
    """Run synchronous functions in a new executor, so that a cancelled call does not wait for them.

    pydantic-ai takes an executor only on asyncio. On other event loops a cancelled call waits for its thread.
    """
    if not is_on_asyncio():
        yield
        return
    executor = ThreadPoolExecutor(thread_name_prefix="pydantic-ai")
    try:
        with import_module(PACKAGE).Agent.using_thread_executor(executor):
            yield
    finally:
        executor.shutdown(wait=False)


def _wrap_output(result: ToolResult, schema: Json) -> ToolResult:
    """Make a result match its schema. Toolsets of MCP servers unwrap `{"result": ...}`, but keep the schema."""
    output = result.output
    needs_wrapper = list(schema.get("properties") or ()) == ["result"]
    has_wrapper = isinstance(output, dict) and "result" in output
    if not needs_wrapper or has_wrapper:
        return result
    content = result.content if result.content is not None else [Text(to_plain_text(output))]
    return replace(result, output={"result": output}, content=content)


def _convert_returned(value: Any) -> ToolResult:
    """Return a value as a result: files as content, followed by the additional content of a `ToolReturn`."""
    extra_content: list[Content] = []
    meta = None
    if is_a(value, PACKAGE, "ToolReturn"):
        items = [value.content] if isinstance(value.content, str) else value.content or []
        extra_content = [_convert_block(item) for item in items]
        if isinstance(value.metadata, _JSON):
            meta = {METADATA: value.metadata}
        value = value.return_value
    items = list(value) if isinstance(value, list | tuple) else [value]
    if any(is_a(item, PACKAGE, *_MEDIA) for item in items):
        blocks = [_convert_block(item) for item in items]
        return ToolResult(success=True, content=blocks + extra_content, meta=meta)
    result = to_result(value)
    if not extra_content:
        return replace(result, meta=meta)
    if value is None:
        return replace(result, content=extra_content, meta=meta)
    # With content, the output would not be shown to the model, so it is the first block.
    output_content = result.content or [Text(to_plain_text(result.output))]
    return replace(result, content=[*output_content, *extra_content], meta=meta)


def _convert_block(item: Any) -> Content:
    if is_a(item, PACKAGE, "BinaryContent"):
        return from_bytes(item.data, item.media_type)
    if is_a(item, PACKAGE, "FileUrl"):
        return from_url(item.url)
    if is_a(item, PACKAGE, "TextContent"):
        return Text(item.content)
    if is_a(item, PACKAGE, "UploadedFile"):
        return Text(f"[a file stored at {item.provider_name} as {item.file_id}]")
    return Text(to_plain_text(item))
