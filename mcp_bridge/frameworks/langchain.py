"""LangChain tools: `BaseTool` of langchain-core and all that inherit from it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.errors import InvalidArguments, SourceError
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.blocks import of_mapping
from mcp_bridge.frameworks.shapes import Json, described, is_a, named, of_model
from mcp_bridge.runtime.asyncio_runner import on_asyncio
from mcp_bridge.wire.values import as_text

PACKAGE = "langchain_core"
ARTIFACT = "langchain/artifact"
"""The key in `_meta` for what a tool gives beside what the model is to read."""
_JSON = (str, int, float, bool, list, dict)


def fits(thing: object) -> bool:
    """Whether this is a tool of LangChain."""
    return is_a(thing, PACKAGE, "BaseTool")


def entry_of(thing: object) -> ToolEntry:
    """The tool. Raises SourceError for one that only a graph of LangGraph can call, or without a usable schema."""
    tool: Any = thing
    name = named(tool, "LangChain")
    missing = _out_of_reach(tool)
    if missing:
        raise SourceError(
            f"the LangChain tool '{name}' needs {', '.join(missing)}, which only an agent injects. "
            "Give the parameter a default, or publish a tool without it"
        )
    tags = [str(tag) for tag in tool.tags or ()]
    return ToolEntry(name, described(tool), _handler(tool), _schema(tool), {}, tags)


def _schema(tool: Any) -> Json:
    """What a model may give; a tool of one text without a schema takes it as `tool_input`."""
    if tool.args_schema is None and is_a(tool, PACKAGE, "Tool"):
        return {"type": "object", "properties": dict(tool.args), "required": list(tool.args)}
    return of_model(tool.tool_call_schema)


def _handler(tool: Any) -> Any:
    """Asynchronous where the tool is: LangChain would run any other in threads that nobody counts."""

    def in_thread(data: Json) -> Any:
        return _run(tool, data)

    async def on_loop(data: Json) -> Any:
        try:
            return _read(await on_asyncio(partial(tool.ainvoke, _call(tool, data))))
        except Exception as error:
            return _told(tool, error)

    return on_loop if _is_async(tool) else in_thread


def _run(tool: Any, data: Json) -> Any:
    try:
        return _read(tool.invoke(_call(tool, data)))
    except Exception as error:
        return _told(tool, error)


def _is_async(tool: Any) -> bool:
    """Whether it has a coroutine of its own, rather than LangChain's way around that."""
    own = str(type(tool)._arun.__module__).startswith(f"{PACKAGE}.tools.")
    return getattr(tool, "coroutine", None) is not None if own else True


def _call(tool: Any, data: Json) -> Json:
    return {"type": "tool_call", "id": uuid4().hex, "name": tool.name, "args": dict(data or {})}


def _told(tool: Any, error: Exception) -> ToolResult:
    """What an exception means for the model. Raises it again where it is not meant for one."""
    if is_a(error, PACKAGE, "ToolException"):
        return ToolResult(success=False, error=str(error) or "Tool execution error", code="tool_error")
    schema = tool.args_schema
    own = getattr(schema, "__name__", None)
    if is_a(error, "pydantic_core", "ValidationError") and own is not None and getattr(error, "title", None) == own:
        found: Any = error
        lines = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in found.errors()]
        raise InvalidArguments(lines, tool=tool.name) from error
    raise error


def _read(answer: Any) -> Any:
    """What was answered: the content of a message, and whether it is one of an error."""
    message = _message(answer)
    if message is None:
        return answer
    failed = message.status == "error"
    content = message.content
    if isinstance(content, str):
        said: Json = {"error" if failed else "output": content}
    else:
        said = {"content": [_block(item) for item in content]}
    artifact = message.artifact
    meta = {ARTIFACT: artifact} if isinstance(artifact, _JSON) else None
    return ToolResult(success=not failed, code="tool_error" if failed else None, meta=meta, **said)


def _message(answer: Any) -> Any:
    """The message of a tool in an answer: itself, the last of a list, or in what a `Command` adds to a graph."""
    if is_a(answer, PACKAGE, "ToolMessage"):
        return answer
    update = getattr(answer, "update", None)
    if not isinstance(answer, list) and isinstance(update, Mapping):
        answer = update.get("messages")
    if isinstance(answer, list):
        return next((item for item in reversed(answer) if is_a(item, PACKAGE, "ToolMessage")), None)
    return None


def _block(item: Any) -> Content:
    return of_mapping(item) if isinstance(item, Mapping) else Text(as_text(item))


def _out_of_reach(tool: Any) -> list[str]:
    """The parameters without a default that an agent would inject, apart from the id of the call."""
    if isinstance(tool.args_schema, dict) or (tool.args_schema is None and is_a(tool, PACKAGE, "Tool")):
        return []
    full, shown = tool.get_input_schema(), tool.tool_call_schema
    fields = dict(getattr(full, "model_fields", {}))
    hidden = [name for name in fields if name not in getattr(shown, "model_fields", {})]
    needed = {name for name in hidden if fields[name].is_required() and not _is_call_id(fields[name].metadata)}
    for name in getattr(tool, "_injected_args_keys", ()):
        if name not in fields and _is_required(tool, name):
            needed.add(name)
    return sorted(f"'{name}'" for name in needed)


def _is_call_id(metadata: Any) -> bool:
    return any(getattr(item, "__name__", type(item).__name__) == "InjectedToolCallId" for item in metadata)


def _is_required(tool: Any, name: str) -> bool:
    """Whether the function under the tool has this parameter, without a default, for anything but the call's id."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool._run
    found = inspect.signature(function).parameters.get(name)
    if found is None or found.default is not found.empty:
        return False
    return "InjectedToolCallId" not in str(found.annotation)
