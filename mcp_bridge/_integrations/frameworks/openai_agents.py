"""The adapter for tools of the OpenAI Agents SDK: `FunctionTool`, as functions, agents and MCP servers make it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any

from pydantic_core import to_jsonable_python

from mcp_bridge._contracts.content import Content, Text
from mcp_bridge._contracts.errors import Denied, InvalidArguments, SourceError, ToolTimeout, ToolUnavailable
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.frameworks.common import (
    Json,
    find_published_name,
    get_description,
    get_tool_name,
    is_a,
    list_validation_errors,
    make_failure,
    require_approval,
    to_json_schema,
)
from mcp_bridge._integrations.frameworks.content_blocks import from_base64, from_url
from mcp_bridge._protocol.wire.values import to_plain_text, to_result
from mcp_bridge._runtime.asyncio_runner import run_on_asyncio
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._runtime.third_party import resolve_awaitable

PACKAGE = "agents"
_OUTPUTS = ("ToolOutputText", "ToolOutputImage", "ToolOutputFileContent")
_KINDS = ("text", "image", "file")


def build_entry(tool: Any) -> ToolEntry:
    """Build the entry of a tool. Raises SourceError if it is disabled."""
    name = get_tool_name(tool, "the OpenAI Agents SDK")
    if tool.is_enabled is False:
        raise SourceError(f"the OpenAI Agents tool '{name}' is disabled (is_enabled=False). Enable it, or leave it out")
    output = dict(getattr(tool, "output_json_schema", None) or {})
    schema = to_json_schema(tool.params_json_schema)
    return ToolEntry(name, get_description(tool), _ToolCaller(tool).call, schema, output)


class _ToolCaller:
    """Calls one tool outside of a run of an agent, with the steps of the SDK: approval, guardrails and timeout."""

    def __init__(self, tool: Any) -> None:
        self._tool = tool

    async def call(self, data: Json, ctx: RunningCall) -> ToolResult:
        """Handle one call. The SDK runs on asyncio, and the question to the user on the server's own event loop."""
        arguments = dict(data or {})
        if await run_on_asyncio(partial(self._needs_approval, arguments)):
            await require_approval(ctx, find_published_name(ctx, self.call, self._tool.name), arguments)
        return await run_on_asyncio(partial(self._run, arguments))

    async def _needs_approval(self, arguments: Json) -> bool:
        """Return whether the user has to approve the call. Raises ToolUnavailable if the tool is not enabled for it."""
        tool, context = self._tool, self._build_context(arguments)
        if callable(tool.is_enabled) and not await resolve_awaitable(tool.is_enabled(context, context.agent)):
            raise ToolUnavailable("This tool is not enabled now.")
        policy = getattr(tool, "needs_approval", False)
        if not callable(policy):
            return bool(policy)
        # As in the SDK, a call without all arguments needs approval: the policy would not see the default values.
        if set(tool.params_json_schema.get("properties", ())) - set(arguments):
            return True
        return bool(await resolve_awaitable(policy(context, arguments, context.tool_call_id)))

    def _build_context(self, arguments: Json) -> Any:
        agent = import_module(PACKAGE).Agent(name="mcp-bridge")
        text = dump_json(arguments).decode()
        call = {"tool_name": self._tool.name, "tool_call_id": "call", "tool_arguments": text}
        return import_module(f"{PACKAGE}.tool_context").ToolContext(None, agent=agent, **call)

    async def _run(self, arguments: Json) -> ToolResult:
        context = self._build_context(arguments)
        failures: list[Exception] = []
        rejection = await self._run_guardrails("tool_input_guardrails", "ToolInputGuardrailData", context)
        if rejection is not None:
            return make_failure(rejection, "denied")
        try:
            # Do not call the tool itself, because this function also applies its timeout.
            invoke = import_module(f"{PACKAGE}.tool").invoke_function_tool
            tool = _make_recording_tool(self._tool, failures)
            value = await invoke(function_tool=tool, context=context, arguments=context.tool_arguments)
        except Exception as error:
            return await self._convert_error(error, context)
        if failures:
            return make_failure(to_plain_text(value))
        rejection = await self._run_guardrails(
            "tool_output_guardrails", "ToolOutputGuardrailData", context, output=value
        )
        if rejection is not None:
            return make_failure(rejection, "denied")
        return _convert_returned(self._tool, value)

    async def _convert_error(self, error: Exception, context: Any) -> ToolResult:
        """Return a failure for an error whose text is for the model. Raises any other error."""
        tool = self._tool
        if is_a(error, PACKAGE, "ToolTimeoutError"):
            format_timeout = getattr(tool, "timeout_error_function", None)
            if format_timeout is None or tool.timeout_behavior != "error_as_result":
                text = f"The tool did not finish within {float(tool.timeout_seconds):g} seconds and was stopped."
                return make_failure(text, ToolTimeout.code)
            return make_failure(to_plain_text(await resolve_awaitable(format_timeout(context, error))), "timeout")
        # The arguments are valid by the schema, but the function of the tool rejects them.
        if is_a(error, PACKAGE, "ModelBehaviorError"):
            lines = [str(error)]
            if is_a(error.__cause__, "pydantic_core", "ValidationError"):
                lines = list_validation_errors(error.__cause__)
            raise InvalidArguments(lines) from error
        raise error

    async def _run_guardrails(self, attribute: str, data_class: str, context: Any, **fields: Any) -> str | None:
        """Return the text of a rejecting guardrail, or None. Raises Denied if a guardrail ends the run."""
        for guardrail in getattr(self._tool, attribute, None) or ():
            data = getattr(import_module(f"{PACKAGE}.tool_guardrails"), data_class)
            behavior = (await guardrail.run(data(context=context, agent=context.agent, **fields))).behavior
            if behavior["type"] == "reject_content":
                return str(behavior["message"])
            if behavior["type"] != "allow":
                raise Denied(f"A guardrail of the tool '{self._tool.name}' stopped this call.")
        return None


def _make_recording_tool(tool: Any, failures: list[Exception]) -> Any:
    """Return a copy of a tool that adds its errors to `failures`.

    The error function of a tool converts an error to a text, which cannot be distinguished from a result. The SDK's
    default function would hide the error. Without it, the error is raised, and the pipeline logs it.
    """
    new_tool: Any = copy(tool)
    new_tool.timeout_behavior = "raise_exception"
    module = import_module(f"{PACKAGE}.tool")
    format_error = module.resolve_function_tool_failure_error_function(tool)
    if format_error is module.default_tool_error_function:
        format_error = None

    async def record_failure(context: Any, error: Exception) -> Any:
        failures.append(error)
        return await resolve_awaitable(format_error(context, error))

    return module.set_function_tool_failure_error_function(new_tool, record_failure if format_error else None)


def _convert_returned(tool: Any, value: Any) -> ToolResult:
    """Return a value as the SDK would send it: its output classes as content, structured output as JSON."""
    if getattr(tool, "output_json_schema", None):
        output = load_json(value) if isinstance(value, str) else to_jsonable_python(value, by_alias=True)
        return ToolResult(success=True, output=output)
    items = value if isinstance(value, list | tuple) else [value]
    blocks = [_convert_block(item) for item in items]
    if all(block is None for block in blocks):
        return to_result(value)
    content: list[Content] = []
    for block, item in zip(blocks, items, strict=True):
        content.append(Text(to_plain_text(item)) if block is None else block)
    return ToolResult(success=True, content=content)


def _convert_block(item: Any) -> Content | None:
    """Return an output class of the SDK, or a mapping of that form, as content; None for anything else."""
    if is_a(item, PACKAGE, *_OUTPUTS):
        item = item.model_dump()
    if not isinstance(item, Mapping) or item.get("type") not in _KINDS:
        return None
    match item:
        case {"type": "text", "text": str() as text}:
            return Text(text)
        case {"type": "image", "image_url": str() as url}:
            return from_url(url)
        case {"type": "file", "file_data": str() as data}:
            return from_base64(data)
        case {"type": "file", "file_url": str() as url}:
            return from_url(url)
        case {"file_id": str() as name}:
            return Text(f"[a file stored at OpenAI as {name}]")
    return None
