"""CallContext: what a running call can do, such as report progress, ask the user and call other tools."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from mcp_bridge._contracts.call_services import CallServices
from mcp_bridge._contracts.errors import MissingCapability
from mcp_bridge._contracts.hold import Hold
from mcp_bridge._contracts.log_levels import Level, check_level
from mcp_bridge._contracts.session_state import SessionState, StateValues
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult

if TYPE_CHECKING:  # questions are imported when the first one is asked, content for the first call
    from mcp_bridge._contracts.content import InjectedText
    from mcp_bridge._contracts.handlers import NeedsInput
    from mcp_bridge._contracts.observation import ClientInfo, ObservedCall
    from mcp_bridge._contracts.question import Answer, PendingAnswer, Question, Root, Sampled

NO_FALLBACK: Any = object()
"""The default of `fallback`: there is none, so the method raises."""


class Caller(Protocol):
    """Runs the calls that a call makes. The registry is one.

    Attributes:
        lifespan: The value of the lifespan of the server; None if there is none.
    """

    lifespan: Any

    def list(self) -> Sequence[ToolEntry]:
        """Return all published tools."""

    async def dispatch(self, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Run one call through the pipeline."""

    async def dispatch_entry(self, entry: ToolEntry, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Run a call to an unpublished tool through the pipeline."""

    async def dispatch_resource(self, uri: str, call_id: str, ctx: CallContext) -> ToolResult:
        """Read a resource through the pipeline. Raises ResourceNotFound."""

    def resource_updated(self, uri: str) -> None:
        """Notify subscribed clients that a resource has changed."""


class CallContext(CallServices):
    """The running call, as its handler and its middleware see it.

    A tool, prompt or resource receives it through a parameter annotated `CallContext`. This base class has no client:
    `ToolRegistry.invoke` uses it, and tests can. Progress and log messages go nowhere and questions raise
    MissingCapability; everything else works.

    Attributes:
        protocol_version: The MCP version of the client; empty in process.
        principal: The authenticated caller, or None.
        client: Whose quotas the call counts against; None if the server has only one client.
        session: The key of the client's session; empty if there is none (see `on_session_end`).
        answers: The answers to a `NeedsInput` of this call.
        state: The state of that `NeedsInput`.
        since: When another instance asked the questions that this call continues from, in seconds since 1970.
        pipeline: The pipeline of the call, which also applies to calls that it makes.
        is_in_thread: Whether the handler has a thread. Calls that it makes count against no client, because they would
            wait for the threads of its other calls. Set by the pipeline.
        started: Whether the handler has begun. Set by the pipeline, as are `needs` and `holds`.
        needs: The `NeedsInput` that the call waits for between two runs of its handler.
        holds: What the call releases while it waits for the user.
        check: Raises InvalidArguments for a call to this tool with invalid arguments. Set during the stage DECIDE.
        check_output: Raises InvalidOutput for an invalid output of this tool, with the name of the policy that has
            changed it. Set during the stage DECIDE if the tool has an output schema.
        approved_call: The call that the user was asked to approve, as they saw it.
        is_interactive: Whether the call has used more than its arguments: its client, by progress, log messages or
            questions, or the state of its session.
        injected: What policies have injected for the model into the results of calls that this call made, by text.
        decisions: What policies have decided about the call, in order.
        observation: The call as its observer sees it; None without one. Set by the pipeline.
    """

    __slots__ = (
        "_asked", "_call_id", "_calls", "_capabilities", "_ids", "_lifespan", "_paused", "_session_state", "answers",
        "approved_call", "caller", "check", "check_output", "client", "holds", "injected", "is_in_thread",
        "meta", "needs", "observation", "pipeline", "principal", "protocol_version", "request_id", "session", "since",
        "started", "state",
    )  # fmt: skip

    def __init__(
        self,
        *,
        caller: Caller | None = None,
        protocol_version: str = "",
        principal: str | None = None,
        session: str = "",
        request_id: str = "",
        meta: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        self.caller = caller
        self.protocol_version = protocol_version
        self.principal = principal
        self.client: str | None = None
        self.session = session
        self.request_id = request_id
        self.meta: Mapping[str, Any] = meta if meta is not None else {}
        self._capabilities = capabilities
        self.answers: Mapping[str, Any] = {}
        self.state: Any = None
        self.since: float | None = None
        self.pipeline: Any = None
        self.is_in_thread = self.is_interactive = self.started = False
        self.needs: NeedsInput | None = None
        self.holds: list[Hold] = []
        self.check: Callable[[ToolCall], None] | None = None
        self.check_output: Callable[[Any, str], None] | None = None
        self.approved_call: ToolCall | None = None
        self.injected: dict[str, InjectedText] = {}
        self.decisions = ()
        self._filters: tuple[Callable[[Any], Any], ...] = ()
        self._call_id = request_id  # which does not change with the requests of a suspended call
        self.observation: ObservedCall | None = None
        self._asked = self._calls = self._ids = 0
        self._paused: Sequence[Hold] = ()
        self._session_state: StateValues | None = None
        self._lifespan: Any = None

    @property
    def lifespan(self) -> Any:
        """The value of the lifespan of the tool's file, or of the server; None if there is none."""
        if self._lifespan is None and self.caller is not None:
            return self.caller.lifespan
        return self._lifespan

    @lifespan.setter
    def lifespan(self, value: Any) -> None:
        self._lifespan = value

    def tools(self) -> Sequence[ToolEntry]:
        """Return the published tools, sorted by name; empty if the call runs outside a registry."""
        return self.caller.list() if self.caller is not None else ()

    def resource_updated(self, uri: str) -> None:
        """Notify subscribed clients that a resource has changed. May be called from any thread."""
        if self.caller is not None:
            self.caller.resource_updated(uri)

    @property
    def deadline(self) -> float | None:
        """When the call must end, in seconds of the event loop's clock; None if it has no limit or is paused."""
        nearest = math.inf
        for hold in self.holds:  # a generator expression would cost more than the rest
            nearest = min(nearest, hold.deadline)
        return nearest if nearest < math.inf else None

    @property
    def state_key(self) -> str:
        """The key of what is kept for the caller: the session, else this call; empty if there is only one client."""
        return self.session

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client, if the client requested it.

        Args:
            progress: The progress so far, which must increase with every report.
            total: The value of `progress` at completion, if known.
            message: What the call is doing, for the user.
        """
        message = self.filter_message(message)
        if self.observation is not None:
            self.observation.report_progress(progress, total, message)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send the client a log message, if the client requested messages of this level.

        Args:
            level: The severity, such as `warning`.
            data: The message: text or any JSON value.
            logger: The name of the logger that the client sees.

        Raises:
            ValueError: The level is unknown.
        """
        check_level(level)
        self.is_interactive = True

    def ask(
        self,
        message: str,
        schema: Any = None,
        *,
        url: str | None = None,
        key: str | None = None,
        fallback: Any = NO_FALLBACK,
    ) -> PendingAnswer:
        """Ask the user to fill in a form or, with `url`, to open a page. The deadline pauses while the call waits.

        Args:
            message: The question, as the user reads it.
            schema: The fields of the form, see `Form`. None asks the user to confirm.
            url: The page to open, see `Link`.
            key: A name of the question for clients.
            fallback: Returned if the client cannot ask the user.

        Raises:
            MissingCapability: The client cannot ask the user, and there is no fallback.
            QuestionExpired: The user did not answer in time.
            InvalidAnswer: The client's answers were not valid.
            ValueError: The schema cannot be shown as a form.
        """
        from mcp_bridge._contracts.question import Form, Link, PendingAnswer

        question: Question = Link(message, url) if url is not None else Form(message, schema)
        return PendingAnswer(self._ask_one(question, key, fallback))

    async def sample(
        self,
        messages: Any,
        *,
        max_tokens: int = 1024,
        key: str | None = None,
        fallback: Any = NO_FALLBACK,
        **options: Any,
    ) -> Sampled:
        """Request a message from the client's model.

        Args:
            messages: The conversation, see `Sampling`.
            max_tokens: The maximum number of tokens that the model may write.
            key: A name of the request for clients.
            fallback: Returned if the client does not support sampling.
            options: Further fields of `Sampling`.

        Raises the same errors as `ask`.
        """
        from mcp_bridge._contracts.question import Sampling

        sampled: Sampled = await self._ask_one(Sampling(messages, max_tokens, **options), key, fallback)
        return sampled

    async def roots(self, *, key: str | None = None, fallback: Any = NO_FALLBACK) -> Sequence[Root]:
        """Return the folders that the client allows servers to work in. Raises the same errors as `ask`."""
        from mcp_bridge._contracts.question import Roots

        roots: Sequence[Root] = await self._ask_one(Roots(), key, fallback)
        return roots

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask several questions at once, by key, and return the answers by the same keys.

        Raises the same errors as `ask`.
        """
        self.is_interactive = True
        raise MissingCapability({question.capability: {} for question in questions.values()})

    async def wait_for_late_answer(self, message: str, schema: Any = None) -> Answer | None:
        """Wait until a request of the client is open; return its answer to a question that `ask` no longer waits for.

        Returns None if the client sends no answer, or cannot send one later. Between two requests, another instance may
        continue the call. Raises InvalidAnswer.
        """
        return None

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        """Call another published tool through the same pipeline.

        Args:
            name: The tool's name.
            arguments: Its arguments; None for none.

        Returns:
            The result. Errors of the tool are in it.

        Raises:
            ToolNotFound: No tool of this name is published.
            RuntimeError: This call runs outside a registry.
        """
        return await self._get_caller().dispatch(self.create_call(name, arguments), self)

    async def invoke_entry(self, entry: ToolEntry, arguments: Any = None, known_as: str = "") -> ToolResult:
        """Call the tool of an agent through the same pipeline, with the handler of this entry.

        Policies see the entry as they see a published one; hooks see the name `known_as`, if there is one. Raises
        RuntimeError if this call runs outside a registry.
        """
        call = self.create_call(entry.name, arguments, known_as)
        return await self._get_caller().dispatch_entry(entry, call, self)

    async def fetch_resource(self, uri: str) -> ToolResult:
        """Read a resource through the same pipeline; errors are in the result, whose content is its contents.

        Raises ResourceNotFound, and RuntimeError if this call runs outside a registry.
        """
        return await self._get_caller().dispatch_resource(uri, self.create_call(uri).id, self)

    @property
    def session_state(self) -> StateValues:
        """The values behind `get_state`: those of the session, or of this call if it has none."""
        self.is_interactive = True
        if self._session_state is None:
            self._session_state = self.open_session_state()
        return self._session_state

    def open_session_state(self) -> StateValues:
        """Return the values behind `get_state`; called once, when the call first uses them."""
        return SessionState()

    def create_call(self, name: str, arguments: Any = None, known_as: str = "") -> ToolCall:
        """Return a nested call. Its id is that of this call with a number: `7.1`, `7.2`, `7.2.1`."""
        self._ids += 1
        given = {} if arguments is None else arguments
        return ToolCall(id=f"{self._call_id}.{self._ids}", name=name, arguments=given, known_as=known_as)

    def create_nested(self, call_id: str = "") -> CallContext:
        """Return the context of a nested call with this id."""
        self._calls += 1
        return NestedContext(self, call_id)

    def _get_caller(self) -> Caller:
        if self.caller is None:
            raise RuntimeError("this call runs outside a registry, so it cannot call other tools")
        return self.caller

    def pass_injections(self, texts: Iterable[InjectedText]) -> None:
        """Pass texts that policies inject into the result of this call to the call that made it, if there is one."""

    @property
    def has_begun(self) -> bool:
        """Whether a handler has begun, this call's or that of a nested call. Its effects must not happen twice."""
        return self.started or self._calls > 0

    @contextmanager
    def release_holds(self) -> Iterator[None]:
        """Release what the call holds while it waits for the user. After the last of several questions, resume it."""
        if not self._asked:
            self._paused = list(self.holds)
            for hold in reversed(self._paused):
                hold.pause()
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1
            if not self._asked:
                for hold in self._paused:
                    if hold in self.holds:  # a thread may still ask after its call has ended
                        hold.resume()

    async def _ask_one(self, question: Question, key: str | None, fallback: Any) -> Any:
        name = key or ""
        try:
            return (await self.put({name: question}))[name]
        except MissingCapability:
            if fallback is NO_FALLBACK:
                raise
            return fallback


class NestedContext(CallContext):
    """The context of a nested call: with its own deadline, answers and state, and the client of the outer call."""

    __slots__ = ("_outer",)

    def __init__(self, outer: CallContext, call_id: str = "") -> None:
        super().__init__(
            caller=outer.caller,
            protocol_version=outer.protocol_version,
            principal=outer.principal,
            session=outer.session,
            request_id=call_id or outer.request_id,
            meta=outer.meta,
        )
        self._outer = outer
        self.client = None if outer.is_in_thread else outer.client
        self.pipeline, self.started = outer.pipeline, True

    @property
    def parent_id(self) -> str:
        return self._outer._call_id

    @property
    def state_key(self) -> str:
        return self._outer.state_key

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self._outer.capabilities

    @property
    def client_info(self) -> ClientInfo:
        return self._outer.client_info

    @property
    def deadline(self) -> float | None:
        """The nearest deadline of this call and its outer calls."""
        nearest = min(each for each in (super().deadline, self._outer.deadline, math.inf) if each is not None)
        return nearest if nearest < math.inf else None

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        message = self.filter_message(message)
        await super().progress(progress, total, message)
        await self._outer.progress(progress, total, message)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        await self._outer.log(level, self.filter_message(data), self.filter_message(logger))

    def open_session_state(self) -> StateValues:
        """Return the values of the outer call."""
        return self._outer.session_state

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask several questions at once; the deadlines of the outer calls pause too."""
        self.is_interactive = True
        with self.release_holds():
            return await self._outer.put(questions)

    async def wait_for_late_answer(self, message: str, schema: Any = None) -> Answer | None:
        """Wait as the outer call does. The deadlines of the outer calls pause."""
        with self.release_holds():
            return await self._outer.wait_for_late_answer(message, schema)

    async def wait_until_owned(self) -> None:
        await self._outer.wait_until_owned()

    @contextmanager
    def release_holds(self) -> Iterator[None]:
        """Release what this call and its outer calls hold."""
        with self._outer.release_holds(), super().release_holds():
            yield

    def pass_injections(self, texts: Iterable[InjectedText]) -> None:
        self._outer.injected.update((each.text, each) for each in texts)

    def on_session_end(self, callback: Callable[[], None]) -> None:
        self._outer.on_session_end(callback)

    async def close_stream(self) -> None:
        await self._outer.close_stream()
