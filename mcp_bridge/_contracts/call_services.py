"""Services of a running call besides questions and other tools: log messages, resources and session state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_bridge._contracts.decision import PolicyDecision
from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._contracts.log_levels import Level
from mcp_bridge._contracts.observation import ClientInfo
from mcp_bridge._contracts.session_state import StateValues
from mcp_bridge._contracts.tool import ToolResult

if TYPE_CHECKING:
    from mcp_bridge._contracts.content import EmbeddedResource


class CallServices:
    """The part of `CallContext` that builds on its other methods."""

    __slots__ = ("_filters", "decisions", "is_interactive")

    is_interactive: bool
    _capabilities: Mapping[str, Any] | None
    decisions: Sequence[PolicyDecision]
    _filters: tuple[Callable[[Any], Any], ...]

    @property
    def parent_id(self) -> str:
        """The id of the call that made this one; empty if a client made it."""
        return ""

    def record_decision(self, decision: PolicyDecision) -> None:
        """Add a decision of a policy, for the audit trail."""
        self.decisions = (*self.decisions, decision)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the client has declared, in the form of MCP: `elicitation`, `sampling`, `roots` …"""
        return self._capabilities or {}

    def add_filter(self, change: Callable[[Any], Any]) -> None:
        """Change the texts of progress, and the data and loggers of log messages, before the client gets them."""
        self._filters = (*self._filters, change)

    def filter_message(self, data: Any) -> Any:
        """Return a text or data for the client as the filters change it, and record that the call is interactive."""
        self.is_interactive = True
        for change in self._filters:
            data = change(data)
        return data

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send the client a log message."""
        raise NotImplementedError

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client."""
        raise NotImplementedError

    async def fetch_resource(self, uri: str) -> ToolResult:
        """Read a resource and return the result, whose content is its contents."""
        raise NotImplementedError

    @property
    def session_state(self) -> StateValues:
        """The values behind `get_state`."""
        raise NotImplementedError

    @property
    def client_info(self) -> ClientInfo:
        """What the client has declared about itself; empty if the call has no client."""
        return ClientInfo()

    def on_session_end(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the event loop when this session ends, if the server can detect that."""

    async def close_stream(self) -> None:
        """Close the stream of this call if its client uses a handshake version and can resume the stream later."""

    async def wait_until_owned(self) -> None:
        """Wait until no other instance of the server can continue this call: only this one knows a decision."""

    @property
    def idempotency_key(self) -> str | None:
        """A key that is the same in each run of a task, for requests that must not be repeated. None outside of tasks.

        A task runs again after a failure, if its tool allows that, and in Redis also if its process ends.
        """
        return None

    @property
    def attempt(self) -> int:
        """Which run of the call this is, from 1. Only tasks run again, see `idempotency_key`."""
        return 1

    async def debug(self, message: str, data: Any = None) -> None:
        """Send the client a log message of the level `debug`; `data` is any JSON value to show with it."""
        await self.log("debug", _join_data(message, data))

    async def info(self, message: str, data: Any = None) -> None:
        """Send the client a log message of the level `info`; `data` is any JSON value to show with it."""
        await self.log("info", _join_data(message, data))

    async def warning(self, message: str, data: Any = None) -> None:
        """Send the client a log message of the level `warning`; `data` is any JSON value to show with it."""
        await self.log("warning", _join_data(message, data))

    async def error(self, message: str, data: Any = None) -> None:
        """Send the client a log message of the level `error`; `data` is any JSON value to show with it."""
        await self.log("error", _join_data(message, data))

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client, as `progress` does."""
        await self.progress(progress, total, message)

    async def read_resource(self, uri: str) -> Sequence[EmbeddedResource]:
        """Read a published resource through the same pipeline.

        Args:
            uri: The URI of a resource, or one that matches a template.

        Returns:
            Its contents, usually one item: text or bytes in `content`, the media type in `mime_type`.

        Raises:
            ResourceNotFound: No resource has this URI.
            ToolError: The resource could not be read; with the text and code of the failure.
            RuntimeError: This call runs outside a registry.
        """
        from mcp_bridge._contracts.content import EmbeddedResource

        result = await self.fetch_resource(uri)
        if result.is_error:
            raise ToolError(result.error_text, code=result.code or ToolError.code)
        return [item for item in result.content or () if isinstance(item, EmbeddedResource)]

    async def get_state(self, key: str, default: Any = None) -> Any:
        """Return the value that an earlier call of this session stored, or `default`."""
        value = await self.session_state.read_value(key)
        return default if value is None else value

    async def set_state(self, key: str, value: Any) -> None:
        """Store a JSON value for the later calls of this session; for this call only if it has no session.

        A value expires after a day, and a full store evicts the least recently used values.
        Raises TypeError for a value that is not JSON, and ValueError for more than 1 MiB.
        """
        await self.session_state.write_value(key, value)

    async def delete_state(self, key: str) -> None:
        """Delete a value of this session, if it exists."""
        await self.session_state.delete_value(key)


def _join_data(message: str, data: Any) -> Any:
    return message if data is None else {"message": message, "data": data}
