"""Publishes whole agents as tools. They take a message and return the response with its attachments."""

from __future__ import annotations

import logging
import mimetypes
from contextlib import suppress
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from anyio import to_thread

from mcp_bridge._contracts.content import Content, EmbeddedResource, Text
from mcp_bridge._contracts.errors import CallError, SourceError, ToolError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.xaibo.source import agent_config
from mcp_bridge._integrations.xaibo.source.providers import make_redactor
from mcp_bridge._integrations.xaibo.source.running_call import RUNNING, ProviderCall
from mcp_bridge._protocol.wire.values import detect_mime_type, from_bytes
from mcp_bridge._runtime.python_import import report_errors
from mcp_bridge._runtime.third_party import describe_error

logger = logging.getLogger("mcp_bridge.sources.xaibo")

_BINARY = "application/octet-stream"
_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"BM", "image/bmp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"<svg", "image/svg+xml"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyphei", "image/heic"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (4, b"ftypM4A", "audio/mp4"),
    (0, b"\x1aE\xdf\xa3", "audio/webm"),
)
"""The first bytes of further formats, with their offset. Other data may begin with these few bytes, too.
Therefore they are used only if the agent calls the attachment an image or audio.
"""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "What to say to the agent."}},
    "required": ["message"],
    "additionalProperties": False,
}


def build_entries(config: Any, modules: dict[str, Any], wrap: agent_config.WrapProvider) -> list[ToolEntry]:
    """Build a tool for each entry point of an agent. Raises SourceError if the agent cannot be made, or takes no text.

    `modules` are shared by all calls. `wrap` replaces the providers of the agent.
    """
    points = agent_config.find_entry_points(config)
    if not points:
        raise SourceError(
            f"agent '{config.id}' has no entry point that takes text: none of its modules has handle_text"
        )
    with report_errors(f"agent '{config.id}' cannot be made"):
        agent_config.make_agent(config, modules, wrap)
    entries = []
    for name, module_id in points.items():
        caller = _AgentCaller(config, modules, module_id, wrap)
        title = config.id
        description = config.description or f"Sends a message to the agent '{config.id}' and returns its response."
        if name != agent_config.ENTRY:
            title += f".{name}"
            description += f" (entry point: {name})"
        entries.append(ToolEntry(title, description, caller.call, dict(_SCHEMA)))
    return entries


class _AgentCaller:
    """Calls one entry point of an agent. As in Xaibo, each call makes a new agent."""

    def __init__(self, config: Any, modules: dict[str, Any], module_id: str, wrap: agent_config.WrapProvider) -> None:
        self._config = config
        self._modules = modules
        self._module_id = module_id
        self._wrap = wrap
        self._redactor = make_redactor([module.config for module in config.modules])

    async def call(self, data: Any, ctx: RunningCall) -> ToolResult:
        token = RUNNING.set(ProviderCall(ctx))
        try:
            agent = agent_config.make_agent(self._config, self._modules, self._wrap)
            response = await agent.handle_text(data["message"], entry_point=self._module_id)
            return await self._convert_response(response)
        # The text of a CallError is for the model.
        except CallError:
            raise
        except Exception as error:
            logger.error("agent %r failed", self._config.id, exc_info=error)
            # The text helps the model. Secrets of the configuration are removed from it.
            text = self._redactor.redact_text(f"The agent '{self._config.id}' failed: {describe_error(error)}")
            return ToolResult(success=False, error=text, code=ToolError.code)
        finally:
            RUNNING.reset(token)

    async def _convert_response(self, response: Any) -> ToolResult:
        text, attachments = getattr(response, "text", None), list(getattr(response, "attachments", None) or ())
        if not attachments:
            return ToolResult(success=True, output=text)
        blocks: list[Content] = []
        if text:
            blocks.append(Text(text))
        for number, attachment in enumerate(attachments, 1):
            blocks.append(await to_thread.run_sync(convert_attachment, attachment, f"{self._config.id}/{number}"))
        return ToolResult(success=True, content=tuple(blocks))


def convert_attachment(attachment: Any, name: str) -> Content:
    """Convert an attachment to an image, audio, or a resource with `name` in its URI. It may block, as files do.

    An image or audio of an unknown media type becomes a resource.
    """
    content = getattr(attachment, "content", None)
    data, file_name = _read_bytes(content), getattr(content, "name", None)
    uri = f"xaibo://{quote(name)}"
    # A file that was opened by its descriptor has this number for its name.
    if isinstance(file_name, str) and PurePath(file_name).name:
        file_name = PurePath(file_name).name
        uri += f"/{quote(file_name)}"
    else:
        file_name = ""
    type_name = getattr(getattr(attachment, "type", None), "value", "file")
    mime_type = getattr(attachment, "mime_type", None)
    if not isinstance(mime_type, str) or not mime_type:
        mime_type = _detect_mime_type(data, type_name) or mimetypes.guess_type(file_name)[0] or _BINARY
    if mime_type.startswith("text/") or mime_type == _BINARY:
        with suppress(UnicodeDecodeError):
            return EmbeddedResource(uri, data.decode(), "text/plain" if mime_type == _BINARY else mime_type)
    if mime_type.startswith(f"{type_name}/"):
        return from_bytes(data, mime_type, uri)
    return EmbeddedResource(uri, data, mime_type)


def _read_bytes(content: Any) -> bytes:
    """Return the content of an attachment: text, bytes, or an open file.

    A file is read from its position. If it is at its end, because the agent has just written it, it is read from the
    start.
    """
    if isinstance(content, str):
        return content.encode(errors="replace")
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    data = content.read()
    if not data and content.seekable():
        content.seek(0)
        data = content.read()
    return data.encode(errors="replace") if isinstance(data, str) else bytes(data)


def _detect_mime_type(data: bytes, type_name: str) -> str:
    mime_type = detect_mime_type(data)
    if mime_type != _BINARY:
        return mime_type
    if type_name in ("image", "audio"):
        for offset, start, mime_type in _SIGNATURES:
            if data[offset:].startswith(start) and mime_type.startswith(type_name):
                return mime_type
    return ""
