"""The tools of a manual as a toolbox, and their calls by the packages of UTCP."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import anyio

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.contracts.errors import InvalidArguments, SourceError, ToolUnavailable
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.frameworks.shapes import Json, is_a
from mcp_bridge.frameworks.utcp.commands import (
    Command,
    check_declared,
    check_shell_values,
    shell_parts,
    with_working_dir,
    words_of,
)
from mcp_bridge.frameworks.utcp.manual import Manual, ManualTool
from mcp_bridge.frameworks.utcp.variables import substituted
from mcp_bridge.runtime.asyncio_runner import on_asyncio
from mcp_bridge.wire.values import as_text, to_result

KINDS = ("http", "streamable_http", "sse", "cli")
_PATH = re.compile(r"\{([^}]+)\}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ManualTools:
    """A toolbox over a manual. `problems` has a line for each tool of it that cannot be called here."""

    def __init__(self, manual: Manual) -> None:
        self._manual = manual
        self.problems: Sequence[str] = manual.problems

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def entries(self) -> Sequence[ToolEntry]:
        """The tools that can be called here; the others are `problems`."""
        entries, problems = [], list(self._manual.problems)
        for tool in self._manual.tools:
            try:
                entries.append(_entry(tool, self._manual))
            except SourceError as error:
                problems.append(f"the UTCP tool '{tool.name}': {error}")
        self.problems = problems
        return entries

    async def changed(self) -> None:
        """Wait for ever: a manual is read once."""
        await anyio.sleep_forever()


def _entry(tool: ManualTool, manual: Manual) -> ToolEntry:
    outputs = tool.outputs if tool.outputs.get("type") == "object" and tool.outputs.get("properties") else {}
    inputs = {"type": "object", **tool.inputs}
    return ToolEntry(tool.name, tool.description, _handler(tool, manual), inputs, outputs, list(tool.tags))


def _handler(tool: ManualTool, manual: Manual) -> Any:
    if tool.kind not in KINDS:
        raise SourceError(f"calls of type '{tool.kind}' are not made here, only {', '.join(KINDS)}")
    template = substituted(tool.template, manual.name)
    if tool.kind == "cli":
        template = with_working_dir(template, manual.folder)
        words = words_of(template)
        if words is not None:
            return Command(words, template, _declared(tool)).handler
    else:
        _check_address(str(template.get("url") or ""))
    return _Calls(tool, template).handler


def _declared(tool: ManualTool) -> Collection[str]:
    properties = tool.inputs.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def _check_address(url: str) -> None:
    """Raises SourceError for an address that UTCP would refuse to call: nothing but https, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise SourceError("its url has to begin with https://, or lead to this machine (http://localhost)")


class _Calls:
    """Calls of one tool by UTCP's own client code, on asyncio."""

    def __init__(self, tool: ManualTool, template: Json) -> None:
        self._name = tool.name
        self._stated = template
        self._declared = _declared(tool)
        self._parts = shell_parts(template) if tool.kind == "cli" else None
        self._protocol, self._template = _loaded(tool.kind, template)

    async def handler(self, data: Json) -> ToolResult:
        arguments = dict(data or {})
        if self._parts is not None:
            check_declared(arguments, self._declared, self._name)
            check_shell_values(self._parts, arguments, self._name)
        url = str(self._stated.get("url") or "")
        missing = [f"{name}: required, because it is a part of the address" for name in _PATH.findall(url)]
        missing = [line for line in missing if line.partition(":")[0] not in arguments]
        if missing:
            raise InvalidArguments(missing, tool=self._name)
        given = self._sent(arguments) if url else arguments
        call = partial(self._protocol.call_tool, None, self._name, given, self._template)
        try:
            return to_result(await on_asyncio(call))
        except Exception as error:
            return _told(error, url)

    def _sent(self, arguments: Json) -> Json:
        """Arguments as a query can have them; body and headers are left alone."""
        body = self._stated.get("body_field", "body")
        return {
            name: value if name == body else _in_query(value) for name, value in arguments.items() if value is not None
        }


def _in_query(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_query(item) for item in value]
    return as_text(value) if isinstance(value, bool | Mapping) else value


def _told(error: Exception, url: str) -> ToolResult:
    """What an error means for the model; its own text may have the address, and with it secrets."""
    if is_a(error, "aiohttp", "ClientResponseError"):
        answer: Any = error
        return ToolResult(success=False, error=f"HTTP {answer.status}: {answer.message}", code="tool_error")
    if is_a(error, "aiohttp", "ClientError") or isinstance(error, TimeoutError):
        host = urlsplit(url).hostname or "the program"
        raise ToolUnavailable(f"'{host}' does not answer ({type(error).__name__}). Try again later.") from error
    raise error


def _loaded(kind: str, template: Json) -> tuple[Any, Any]:
    """UTCP's protocol, and its own form of the template. Raises SourceError where a package is missing, or a value."""
    needed = "utcp-cli" if kind == "cli" else "utcp-http"
    install = f"it needs the packages utcp and {needed}. Run: pip install '{DISTRIBUTION}[utcp]'"
    try:
        import_module("utcp.plugins.plugin_loader").ensure_plugins_initialized()
        protocols = import_module("utcp.interfaces.communication_protocol").CommunicationProtocol
        serializer = import_module("utcp.data.call_template").CallTemplateSerializer
    except ImportError as error:
        raise SourceError(install) from error
    if kind not in serializer.call_template_serializers:
        raise SourceError(install)
    try:
        made = serializer().validate_dict({**template, "call_template_type": kind})
    except Exception as error:
        raise SourceError(f"its call template is not valid: {_why(error)}") from None
    factory = getattr(protocols, "communication_protocol_factories", {}).get(kind)
    return factory() if factory is not None else protocols.communication_protocols[kind], made


def _why(error: BaseException) -> str:
    """What pydantic has found, without the values, which may be secrets."""
    found: Any = error
    while found is not None and not is_a(found, "pydantic_core", "ValidationError"):
        found = found.__cause__ or found.__context__
    if found is None:
        return type(error).__name__
    return "; ".join(f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in found.errors())
