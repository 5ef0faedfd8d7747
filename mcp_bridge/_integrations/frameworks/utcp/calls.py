"""Builds a toolbox of a manual. Its tools run as programs without a shell, or through the packages of UTCP."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from mcp_bridge._contracts.errors import InvalidArguments, SourceError, ToolUnavailable
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.frameworks.common import Json, is_a, list_validation_errors, make_failure
from mcp_bridge._integrations.frameworks.toolboxes import Toolbox
from mcp_bridge._integrations.frameworks.utcp.commands import (
    ProgramCall,
    add_working_dir,
    check_declared,
    check_shell_values,
    split_command,
    split_shell_commands,
)
from mcp_bridge._integrations.frameworks.utcp.manual import Manual, ManualTool, convert_manual
from mcp_bridge._protocol.wire.values import to_plain_text, to_result
from mcp_bridge._runtime.asyncio_runner import run_on_asyncio
from mcp_bridge._version import DISTRIBUTION

KINDS = ("http", "streamable_http", "sse", "cli")
_SHELL_KEY = "commands"
"""The key of a call template with text for a shell. Variables in it are left to the shell."""
# A parameter in the path of a URL.
_PATH = re.compile(r"\{([^}]+)\}")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def build_toolbox(manual: Any) -> Toolbox:
    """Build a toolbox over a Manual, a manual of the package utcp, or a mapping. Raises SourceError."""
    return _ManualToolbox(manual if isinstance(manual, Manual) else convert_manual(manual))


class _ManualToolbox(Toolbox):
    def __init__(self, manual: Manual) -> None:
        self._manual = manual

    async def list_entries(self) -> Sequence[ToolEntry]:
        entries, problems = [], list(self._manual.problems)
        for tool in self._manual.tools:
            try:
                entries.append(_build_entry(tool, self._manual))
            except SourceError as error:
                problems.append(f"the UTCP tool '{tool.name}': {error}")
        self.problems = problems
        return entries


def _build_entry(tool: ManualTool, manual: Manual) -> ToolEntry:
    outputs: Json = {}
    if tool.outputs.get("type") == "object" and tool.outputs.get("properties"):
        outputs = tool.outputs
    inputs = {"type": "object", **tool.inputs}
    return ToolEntry(tool.name, tool.description, _build_handler(tool, manual), inputs, outputs, list(tool.tags))


def _build_handler(tool: ManualTool, manual: Manual) -> Any:
    if tool.kind not in KINDS:
        raise SourceError(f"calls of type '{tool.kind}' are not supported, only {', '.join(KINDS)}")
    template = _replace_variables(tool.template, manual.name)
    if tool.kind == "cli":
        template = add_working_dir(template, manual.folder)
        words = split_command(template)
        if words is not None:
            return ProgramCall(words, template, _list_inputs(tool)).run
    else:
        # The port may still be a placeholder, which `split_url` would reject.
        try:
            parts = urlsplit(str(template.get("url") or ""))
        except ValueError:
            parts = urlsplit("")
        # The packages of UTCP call no other URLs.
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise SourceError("its url must begin with https://, or lead to this machine (http://localhost)")
    return _UtcpCaller(tool, template).call


def _list_inputs(tool: ManualTool) -> Collection[str]:
    properties = tool.inputs.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def _replace_variables(value: Any, manual: str) -> Any:
    """Replace `${NAME}` by a variable of the environment. Raises SourceError if it is not set."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _get_variable(match[1], manual), value)
    if isinstance(value, dict):
        result = {}
        for key, item in value.items():
            result[key] = item if key == _SHELL_KEY else _replace_variables(item, manual)
        return result
    if isinstance(value, list):
        return [_replace_variables(item, manual) for item in value]
    return value


def _get_variable(name: str, manual: str) -> str:
    # UTCP reads a variable that belongs to one manual under this name.
    manual_name = f"{manual.replace('_', '__')}_{name}"
    value = os.environ.get(manual_name) or os.environ.get(name)
    if not value:
        raise SourceError(f"the variable ${{{name}}} is not set. Set {name}, or {manual_name} for this manual alone")
    return value


class _UtcpCaller:
    """Calls one tool with the packages of UTCP."""

    def __init__(self, tool: ManualTool, template: Json) -> None:
        self._name = tool.name
        self._url = str(template.get("url") or "")
        self._body = template.get("body_field", "body")
        self._inputs = _list_inputs(tool)
        self._commands = split_shell_commands(template) if tool.kind == "cli" else None
        self._protocol, self._template = _load_protocol(tool.kind, template)

    async def call(self, data: Json) -> ToolResult:
        arguments = dict(data or {})
        if self._commands is not None:
            check_declared(arguments, self._inputs)
            check_shell_values(self._commands, arguments)
        missing = [name for name in _PATH.findall(self._url) if name not in arguments]
        if missing:
            lines = [f"{name}: required, because it is a part of the URL" for name in missing]
            raise InvalidArguments(lines)
        if self._url:
            for name, value in dict(arguments).items():
                if value is None:
                    del arguments[name]
                elif name != self._body:
                    arguments[name] = _encode_value(value)
        call = partial(self._protocol.call_tool, None, self._name, arguments, self._template)
        try:
            return to_result(await run_on_asyncio(call))
        except Exception as error:
            return _convert_error(error, self._url)


def _encode_value(value: Any) -> Any:
    """Return a value for the path or the query of a URL. Booleans and objects become text."""
    if isinstance(value, list):
        return [_encode_value(item) for item in value]
    if isinstance(value, bool | Mapping):
        return to_plain_text(value)
    return value


def _convert_error(error: Exception, url: str) -> ToolResult:
    """Return a failure for an error of HTTP. Its text is left out, because it may have the URL with secrets.

    Raises any other error.
    """
    if is_a(error, "aiohttp", "ClientResponseError"):
        response: Any = error
        return make_failure(f"HTTP {response.status}: {response.message}")
    if is_a(error, "aiohttp", "ClientError") or isinstance(error, TimeoutError):
        host = urlsplit(url).hostname or "the program"
        raise ToolUnavailable(f"'{host}' does not respond ({type(error).__name__}). Retry later.") from error
    raise error


def _load_protocol(call_type: str, template: Json) -> tuple[Any, Any]:
    """Return the protocol of UTCP for a type of calls, and the template as UTCP's model.

    Raises SourceError if a package is missing or the template is not valid.
    """
    package = "utcp-cli" if call_type == "cli" else "utcp-http"
    install = f"it needs the packages utcp and {package}. Run: pip install '{DISTRIBUTION}[utcp]'"
    try:
        import_module("utcp.plugins.plugin_loader").ensure_plugins_initialized()
        protocols = import_module("utcp.interfaces.communication_protocol").CommunicationProtocol
        serializer = import_module("utcp.data.call_template").CallTemplateSerializer
    except ImportError as error:
        raise SourceError(install) from error
    if call_type not in serializer.call_template_serializers:
        raise SourceError(install)
    try:
        call_template = serializer().validate_dict({**template, "call_template_type": call_type})
    except Exception as error:
        raise SourceError(f"its call template is not valid: {_format_problem(error)}") from None
    # Only some versions of utcp have factories.
    factory = getattr(protocols, "communication_protocol_factories", {}).get(call_type)
    protocol = protocols.communication_protocols[call_type] if factory is None else factory()
    return protocol, call_template


def _format_problem(error: BaseException) -> str:
    """Return the errors of pydantic without the values, because these may be secrets."""
    cause: BaseException | None = error
    while cause is not None and not is_a(cause, "pydantic_core", "ValidationError"):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return type(error).__name__
    return "; ".join(list_validation_errors(cause))
