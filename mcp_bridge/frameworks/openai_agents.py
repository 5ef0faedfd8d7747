"""Tools of the OpenAI Agents SDK: `FunctionTool`, which `function_tool`, `Agent.as_tool` and MCP servers make."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any

import orjson

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import Denied, InvalidArguments, SourceError, ToolTimeout, ToolUnavailable
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.blocks import of_base64, of_url
from mcp_bridge.frameworks.consent import agreed
from mcp_bridge.frameworks.shapes import Json, described, is_a, named, of_model
from mcp_bridge.runtime.asyncio_runner import on_asyncio
from mcp_bridge.wire.values import as_text, to_result

PACKAGE = "agents"
_OUTPUTS = ("ToolOutputText", "ToolOutputImage", "ToolOutputFileContent")
_KINDS = ("text", "image", "file")


def fits(thing: object) -> bool:
    """Whether this is a function tool of the OpenAI Agents SDK."""
    return is_a(thing, PACKAGE, "FunctionTool")


def entry_of(thing: object) -> ToolEntry:
    """The tool. Raises SourceError for one that is switched off."""
    tool: Any = thing
    name = named(tool, "the OpenAI Agents SDK")
    if tool.is_enabled is False:
        raise SourceError(
            f"the OpenAI Agents tool '{name}' is switched off (is_enabled=False). Leave it out, or enable it"
        )
    output = getattr(tool, "output_json_schema", None)
    return ToolEntry(name, described(tool), _Calls(tool).handler, of_model(tool.params_json_schema), dict(output or {}))


class _Calls:
    """Calls of one tool, outside of any run of an agent: as the SDK's runner makes them, with guardrails and all."""

    def __init__(self, tool: Any) -> None:
        self._tool = tool

    async def handler(self, data: Json, ctx: CallContext) -> ToolResult:
        """One call. The person is asked in the bridge's own loop, all else runs on asyncio."""
        arguments = dict(data or {})
        if await on_asyncio(partial(self._admitted, arguments)):
            await agreed(ctx, self._tool.name, arguments)
        return await on_asyncio(partial(self._run, arguments))

    async def _admitted(self, arguments: Json) -> bool:
        """Whether a person has to agree. Raises ToolUnavailable where the tool says that it is not for now."""
        tool, context = self._tool, self._context(arguments)
        if callable(tool.is_enabled) and not await _settled(tool.is_enabled(context, context.agent)):
            raise ToolUnavailable(f"The tool '{tool.name}' is not enabled now.")
        wanted = getattr(tool, "needs_approval", False)
        if not callable(wanted):
            return bool(wanted)
        if set(tool.params_json_schema.get("properties", ())) - set(arguments):
            return True  # as the SDK has it: the policy would not see what the defaults come to
        return bool(await _settled(wanted(context, arguments, context.tool_call_id)))

    def _context(self, arguments: Json) -> Any:
        made = import_module(f"{PACKAGE}.tool_context")
        agent = import_module(PACKAGE).Agent(name="mcp-bridge")
        text = orjson.dumps(arguments).decode()
        call = {"tool_name": self._tool.name, "tool_call_id": "call", "tool_arguments": text}
        return made.ToolContext(None, agent=agent, **call)

    async def _run(self, arguments: Json) -> ToolResult:
        context = self._context(arguments)
        failures: list[Exception] = []
        refused = await self._guarded("tool_input_guardrails", "ToolInputGuardrailData", context)
        if refused is not None:
            return _failed(refused, "denied")
        try:
            invoke = import_module(f"{PACKAGE}.tool").invoke_function_tool  # ends a call in the tool's own time
            tool = _watched(self._tool, failures)
            answer = await invoke(function_tool=tool, context=context, arguments=context.tool_arguments)
        except Exception as error:
            return await self._told(error, context)
        if failures:
            return _failed(as_text(answer))
        refused = await self._guarded("tool_output_guardrails", "ToolOutputGuardrailData", context, output=answer)
        return _read(self._tool, answer) if refused is None else _failed(refused, "denied")

    async def _told(self, error: Exception, context: Any) -> ToolResult:
        """What a raised error means for the model. Raises it again where it is not meant for one."""
        tool = self._tool
        if is_a(error, PACKAGE, "ToolTimeoutError"):
            speak = getattr(tool, "timeout_error_function", None)
            if speak is None or tool.timeout_behavior != "error_as_result":
                raise ToolTimeout(tool.name, float(tool.timeout_seconds)) from error
            return _failed(as_text(await _settled(speak(context, error))), "timeout")
        if is_a(error, PACKAGE, "ModelBehaviorError"):  # arguments that fit the schema, and yet not the function
            raise InvalidArguments(_lines(error), tool=tool.name) from error
        raise error

    async def _guarded(self, which: str, kind: str, context: Any, **seen: Any) -> str | None:
        """What a guardrail says instead of the tool. Raises Denied where it would end the agent's run."""
        for guardrail in getattr(self._tool, which, None) or ():
            data = getattr(import_module(f"{PACKAGE}.tool_guardrails"), kind)
            behavior = (await guardrail.run(data(context=context, agent=context.agent, **seen))).behavior
            if behavior["type"] == "reject_content":
                return str(behavior["message"])
            if behavior["type"] != "allow":
                raise Denied(f"A guardrail of the tool '{self._tool.name}' stops this call.")
        return None


def _watched(tool: Any, failures: list[Exception]) -> Any:
    """A copy of the tool that notes what its error function makes text of, which alone tells a failure from an answer.

    The SDK's own error function says nothing about the error: without it, the error comes out, for the log.
    """
    watched: Any = copy(tool)
    watched.timeout_behavior = "raise_exception"
    if not hasattr(tool, "_failure_error_function"):
        return watched
    speak: Any = None if tool._use_default_failure_error_function else tool._failure_error_function

    async def noted(context: Any, error: Exception) -> Any:
        failures.append(error)
        return await _settled(speak(context, error))

    watched._use_default_failure_error_function = False
    watched._failure_error_function = None if speak is None else noted
    return watched


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _lines(error: Exception) -> list[str]:
    cause: Any = error.__cause__
    if is_a(cause, "pydantic_core", "ValidationError"):
        return [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in cause.errors()]
    return [str(error)]


def _failed(text: str, code: str = "tool_error") -> ToolResult:
    return ToolResult(success=False, error=text, code=code)


def _read(tool: Any, answer: Any) -> ToolResult:
    """An answer as the SDK would send it: outputs as content, a structured one by its schema, all else as it is."""
    if getattr(tool, "output_json_schema", None):
        adapter = getattr(tool, "_output_type_adapter", None)
        if adapter is not None and not isinstance(answer, str):
            answer = adapter.dump_python(adapter.validate_python(answer), mode="json", by_alias=True)
        return ToolResult(success=True, output=orjson.loads(answer) if isinstance(answer, str) else answer)
    items = answer if isinstance(answer, list | tuple) else [answer]
    blocks = [_block(item) for item in items]
    if any(block is not None for block in blocks):
        pairs = zip(blocks, items, strict=True)
        return ToolResult(success=True, content=[block or Text(as_text(item)) for block, item in pairs])
    return to_result(answer)


def _block(item: Any) -> Content | None:
    """One of the SDK's outputs, its own class or a mapping of that form; None for anything else."""
    if is_a(item, PACKAGE, *_OUTPUTS):
        item = item.model_dump()
    if not isinstance(item, Mapping) or item.get("type") not in _KINDS:
        return None
    match item:
        case {"type": "text", "text": str() as text}:
            return Text(text)
        case {"type": "image", "image_url": str() as url}:
            return of_url(url)
        case {"type": "file", "file_data": str() as data}:
            return of_base64(data)
        case {"type": "file", "file_url": str() as url}:
            return of_url(url)
        case {"file_id": str() as name}:
            return Text(f"[a file that OpenAI keeps as {name}]")
    return None
