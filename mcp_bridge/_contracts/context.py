"""Defines CallContext. Through it, the code of authors reports progress, asks the user and calls other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from mcp_bridge._contracts.errors import MissingCapability
from mcp_bridge._contracts.log_levels import Level, check_level
from mcp_bridge._contracts.observation import ClientInfo
from mcp_bridge._contracts.session_state import SessionState, StateValues
from mcp_bridge._contracts.tool import ToolEntry, ToolResult

# Only calls need these modules, so a start does not import them.
if TYPE_CHECKING:
    from typing import Never

    from typing_extensions import TypeForm, TypeVar

    from mcp_bridge._contracts.content import EmbeddedResource
    from mcp_bridge._contracts.question import Answer, PendingAnswer, Question, Root, Sampled

    T = TypeVar("T")
    Fallback = TypeVar("Fallback", default=Never)

NO_FALLBACK: Any = object()
"""The default of `fallback`. It means that there is no fallback, so the method raises."""
OUTSIDE_REGISTRY = "this call runs outside a registry, so it cannot call other tools"


class CallContext:
    """The running call, for the code of an author: a handler, a dependency or a middleware.

    A tool, prompt or resource receives it through a parameter annotated `CallContext`. While a server runs the call,
    the object is a `RunningCall`, which also has the state of the pipeline.

    A `CallContext` that you create describes the caller, for tests and for `ToolRegistry.dispatch`. It has no client:
    progress and log messages go nowhere, and questions raise MissingCapability.

    >>> CallContext(principal="ann").principal
    'ann'

    Attributes:
        protocol_version: The MCP version of the client; empty in process.
        principal: The authenticated caller, or None.
        session: The key of the client's session; empty if there is none.
        request_id: The id of the client's request.
        meta: The `_meta` of the client's request.
        answers: The answers to a `NeedsInput` of this call.
        state: The state of that `NeedsInput`.
    """

    __slots__ = (
        *("_capabilities", "_session_state", "answers", "meta", "principal", "protocol_version", "request_id"),
        *("session", "state"),
    )

    def __init__(
        self,
        *,
        protocol_version: str = "",
        principal: str | None = None,
        session: str = "",
        request_id: str = "",
        meta: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        self.protocol_version = protocol_version
        self.principal = principal
        self.session = session
        self.request_id = request_id
        self.meta: Mapping[str, Any] = meta if meta is not None else {}
        self._capabilities = capabilities
        self.answers: Mapping[str, Any] = {}
        self.state: Any = None
        self._session_state: StateValues | None = None

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The declared capabilities of the client, in the form of MCP: `elicitation`, `sampling`, `roots` …"""
        return self._capabilities or {}

    @property
    def client_info(self) -> ClientInfo:
        """How the client describes itself. The values are empty if the call has no client."""
        return ClientInfo()

    @property
    def lifespan(self) -> Any:
        """The value of the lifespan of the tool's file, or of the server; None if there is none."""
        return None

    @property
    def deadline(self) -> float | None:
        """When the call must end, in seconds of the event loop's clock; None if it has no limit or is paused."""
        return None

    @property
    def attempt(self) -> int:
        """The number of this run of the call, from 1. Only tasks run again, see `idempotency_key`."""
        return 1

    @property
    def idempotency_key(self) -> str | None:
        """A key for requests that must not be repeated: it is the same in each run of a task. None outside of tasks.

        A task runs again after a failure, if its tool allows that, and in Redis also if its process ends.
        """
        return None

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client, if the client requested it.

        Args:
            progress: The progress so far, which must increase with every report.
            total: The value of `progress` at completion, if known.
            message: The current step, for the user.
        """

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send the client a log message, if the client requested messages of this level.

        Args:
            level: The severity, such as `warning`.
            data: The message: text or any JSON value.
            logger: The name of the logger, for the client.

        Raises:
            ValueError: The level is unknown.
        """
        check_level(level)

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

    @overload
    def ask(
        self, message: str, schema: None = None, *, key: str | None = None, fallback: Fallback = NO_FALLBACK
    ) -> PendingAnswer[Answer[dict[str, Any]] | Fallback]: ...

    @overload
    def ask(
        self, message: str, schema: TypeForm[T], *, key: str | None = None, fallback: Fallback = NO_FALLBACK
    ) -> PendingAnswer[Answer[T] | Fallback]: ...

    @overload
    def ask(
        self, message: str, schema: Mapping[str, Any], *, key: str | None = None, fallback: Fallback = NO_FALLBACK
    ) -> PendingAnswer[Answer[dict[str, Any]] | Fallback]: ...

    @overload
    def ask(
        self, message: str, *, url: str, key: str | None = None, fallback: Fallback = NO_FALLBACK
    ) -> PendingAnswer[Answer[None] | Fallback]: ...

    def ask(
        self,
        message: str,
        schema: Any = None,
        *,
        url: str | None = None,
        key: str | None = None,
        fallback: Any = NO_FALLBACK,
    ) -> PendingAnswer[Any]:
        """Ask the user to fill in a form or, with `url`, to open a page. The deadline pauses while the call waits.

        Args:
            message: The question, as the user reads it.
            schema: The fields of the form, see `Form`. None asks the user to confirm.
            url: The page to open, see `Link`.
            key: A name of the question. With it, a client may answer before it is asked.
            fallback: The value to return if the client cannot ask the user.

        Raises:
            MissingCapability: The client cannot ask the user, and there is no fallback.
            QuestionExpired: The user did not answer in time.
            InvalidAnswer: The client's answers were not valid.
            ValueError: The schema cannot be shown as a form.
        """
        from mcp_bridge._contracts.question import Form, Link, PendingAnswer

        question: Question = Form(message, schema)
        if url is not None:
            question = Link(message, url)
        return PendingAnswer(self._ask_one(question, key, fallback))

    async def sample(
        self,
        messages: Any,
        *,
        max_tokens: int = 1024,
        key: str | None = None,
        fallback: Fallback = NO_FALLBACK,
        **options: Any,
    ) -> Sampled | Fallback:
        """Request a message from the client's model.

        Args:
            messages: The conversation, see `Sampling`.
            max_tokens: The maximum number of tokens in the message.
            key: A name of the request, as for `ask`.
            fallback: The value to return if the client does not support sampling.
            options: Further fields of `Sampling`.

        Raises the same errors as `ask`.
        """
        from mcp_bridge._contracts.question import Sampling

        message: Sampled | Fallback = await self._ask_one(Sampling(messages, max_tokens, **options), key, fallback)
        return message

    async def roots(self, *, key: str | None = None, fallback: Fallback = NO_FALLBACK) -> Sequence[Root] | Fallback:
        """Return the folders of the client for servers to work in. Raises the same errors as `ask`."""
        from mcp_bridge._contracts.question import Roots

        roots: Sequence[Root] | Fallback = await self._ask_one(Roots(), key, fallback)
        return roots

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask several questions together, by key, and return the answers by the same keys.

        Raises the same errors as `ask`.
        """
        raise MissingCapability({question.capability: {} for question in questions.values()})

    def tools(self) -> Sequence[ToolEntry]:
        """Return the published tools, sorted by name; empty if the call runs outside a registry."""
        return ()

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        """Call another published tool through the same pipeline.

        Args:
            name: The tool's name.
            arguments: Its arguments; None for none.

        Returns:
            The result. It also reports errors of the tool.

        Raises:
            ToolNotFound: No tool of this name is published.
            RuntimeError: This call runs outside a registry.
        """
        raise RuntimeError(OUTSIDE_REGISTRY)

    async def read_resource(self, uri: str) -> Sequence[EmbeddedResource]:
        """Read a published resource through the same pipeline.

        Args:
            uri: The URI of a resource, or one that matches a template.

        Returns:
            Its contents, usually one item: text or bytes in `content`, the media type in `mime_type`.

        Raises:
            ResourceNotFound: No resource has this URI.
            ToolError: The resource could not be read. The error has the text and the code of the failure.
            RuntimeError: This call runs outside a registry.
        """
        raise RuntimeError(OUTSIDE_REGISTRY)

    def resource_updated(self, uri: str) -> None:
        """Notify subscribed clients that a resource has changed. May be called from any thread."""

    async def get_state(self, key: str, default: Any = None) -> Any:
        """Return a stored value of this session, or `default`."""
        value = await self._use_state().read_value(key)
        return default if value is None else value

    async def set_state(self, key: str, value: Any) -> None:
        """Store a JSON value for the later calls of this session. Without a session, only this call has the value.

        A value expires after a day, and a full store evicts the least recently used values. Raises TypeError for a
        value that is not JSON, and ValueError for more than 1 MiB.
        """
        await self._use_state().write_value(key, value)

    async def delete_state(self, key: str) -> None:
        """Delete a value of this session, if it exists."""
        await self._use_state().delete_value(key)

    def _use_state(self) -> StateValues:
        if self._session_state is None:
            self._session_state = SessionState()
        return self._session_state

    async def _ask_one(self, question: Question, key: str | None, fallback: Any) -> Any:
        """Ask a single question. Return the fallback, if there is one, if the client cannot be asked."""
        name = key or ""
        try:
            return (await self.put({name: question}))[name]
        except MissingCapability:
            if fallback is NO_FALLBACK:
                raise
            return fallback


def _join_data(message: str, data: Any) -> Any:
    if data is None:
        return message
    return {"message": message, "data": data}
