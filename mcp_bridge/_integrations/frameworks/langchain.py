"""The adapter for tools of LangChain: `BaseTool` of langchain-core and its subclasses, and toolkits."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from mcp_bridge._contracts.content import Content, Text
from mcp_bridge._contracts.errors import InvalidArguments, SourceError
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.frameworks.common import (
    Json,
    get_description,
    get_tool_name,
    is_a,
    list_validation_errors,
    make_failure,
    to_json_schema,
)
from mcp_bridge._integrations.frameworks.content_blocks import from_mapping
from mcp_bridge._integrations.frameworks.toolboxes import Toolbox, Toolkit
from mcp_bridge._protocol.wire.values import to_plain_text
from mcp_bridge._runtime.asyncio_runner import run_on_asyncio
from mcp_bridge._runtime.signatures import get_signature

PACKAGE = "langchain_core"
ARTIFACT = "langchain/artifact"
"""The key in `_meta` for the artifact of a tool. The model does not read it."""
_JSON = (str, int, float, bool, list, dict)
# LangChain gives parameters with these names or types a value in every call, also without an agent.
_OWN_PARAMETERS = ("callbacks", "run_manager")
_OWN_TYPES = ("InjectedToolCallId", "RunnableConfig")


def build_entry(tool: Any) -> ToolEntry:
    """Build the entry of a tool. Raises SourceError if only an agent could call it, or if it has no usable schema."""
    name = get_tool_name(tool, "LangChain")
    missing = _list_injected_parameters(tool)
    if missing:
        raise SourceError(
            f"the LangChain tool '{name}' needs {', '.join(missing)}, which only an agent injects. "
            "Give the parameter a default, or publish a tool without it"
        )
    tags = [str(tag) for tag in tool.tags or ()]
    # A `Tool` without a schema takes one text, as `tool_input`.
    if tool.args_schema is None and is_a(tool, PACKAGE, "Tool"):
        schema: Json = {"type": "object", "properties": dict(tool.args), "required": list(tool.args)}
    else:
        schema = to_json_schema(tool.tool_call_schema)
    return ToolEntry(name, get_description(tool), _build_handler(tool), schema, {}, tags)


def build_toolbox(kit: Any) -> Toolbox:
    return Toolkit(kit.get_tools, build_entry)


def _build_handler(tool: Any) -> Any:
    """Return a handler for the event loop if the tool is asynchronous, else one for a thread.

    On the event loop, LangChain would run a synchronous tool in its own threads, beyond the limit of the server.
    """

    def run_in_thread(data: Json) -> Any:
        try:
            return _convert_returned(tool.invoke(_build_call(tool, data)))
        except Exception as error:
            return _convert_error(tool, error)

    async def run_on_loop(data: Json) -> Any:
        try:
            return _convert_returned(await run_on_asyncio(partial(tool.ainvoke, _build_call(tool, data))))
        except Exception as error:
            return _convert_error(tool, error)

    # A tool is asynchronous if it has a coroutine, or if its class overrides the documented method `_arun`.
    overrides_arun = not str(type(tool)._arun.__module__).startswith(f"{PACKAGE}.tools.")
    if overrides_arun or getattr(tool, "coroutine", None) is not None:
        return run_on_loop
    return run_in_thread


def _build_call(tool: Any, data: Json) -> Json:
    return {"type": "tool_call", "id": uuid4().hex, "name": tool.name, "args": dict(data or {})}


def _convert_error(tool: Any, error: Exception) -> ToolResult:
    """Return a failure for an error whose text is for the model. Raises any other error."""
    if is_a(error, PACKAGE, "ToolException"):
        return make_failure(str(error) or "Tool execution error")
    # The tool itself may validate other models. The title of an error is the name of its model.
    schema_name = getattr(tool.args_schema, "__name__", None)
    is_about_arguments = schema_name is not None and getattr(error, "title", None) == schema_name
    if is_about_arguments and is_a(error, "pydantic_core", "ValidationError"):
        raise InvalidArguments(list_validation_errors(error)) from error
    raise error


def _convert_returned(value: Any) -> Any:
    message = _find_message(value)
    if message is None:
        return value
    has_failed = message.status == "error"
    fields: Json = {"success": not has_failed}
    if has_failed:
        fields["code"] = "tool_error"
    if isinstance(message.artifact, _JSON):
        fields["meta"] = {ARTIFACT: message.artifact}
    if isinstance(message.content, str):
        fields["error" if has_failed else "output"] = message.content
    else:
        content: list[Content] = []
        for item in message.content:
            content.append(from_mapping(item) if isinstance(item, Mapping) else Text(to_plain_text(item)))
        fields["content"] = content
    return ToolResult(**fields)


def _find_message(value: Any) -> Any:
    """Return the ToolMessage in a value: the value itself, or the last one in a list or in a `Command`."""
    if is_a(value, PACKAGE, "ToolMessage"):
        return value
    update = getattr(value, "update", None)
    if not isinstance(value, list) and isinstance(update, Mapping):
        value = update.get("messages")
    if isinstance(value, list):
        for item in reversed(value):
            if is_a(item, PACKAGE, "ToolMessage"):
                return item
    return None


def _list_injected_parameters(tool: Any) -> list[str]:
    """List the required parameters without a value from the model or LangChain."""
    if isinstance(tool.args_schema, dict) or (tool.args_schema is None and is_a(tool, PACKAGE, "Tool")):
        return []
    fields = dict(getattr(tool.get_input_schema(), "model_fields", {}))
    hidden_names = fields.keys() - getattr(tool.tool_call_schema, "model_fields", {}).keys()
    names = set()
    for name in hidden_names:
        markers = [getattr(item, "__name__", type(item).__name__) for item in fields[name].metadata]
        if fields[name].is_required() and "InjectedToolCallId" not in markers:
            names.add(name)
    # The schema may lack parameters of the function.
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool._run
    for name, parameter in get_signature(function).parameters.items():
        if name not in fields and _is_missing(parameter):
            names.add(name)
    return sorted(f"'{name}'" for name in names)


def _is_missing(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter has neither a default nor a value from LangChain."""
    if parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return False
    annotation = str(parameter.annotation)
    return parameter.name not in _OWN_PARAMETERS and not any(name in annotation for name in _OWN_TYPES)
