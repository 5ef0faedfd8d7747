"""Defines RunningCall, a call in the pipeline with all its state.

One object accompanies a call through the pipeline, its policies and its handler. What it can do depends on its class:

- A `RunningCall` is a call without a client, such as one of the command line. Questions raise MissingCapability.
- A call of a client has a subclass in `_server/` to send progress, log messages and questions.
- A `NestedCall` is a call of a handler, such as with `invoke`. It asks the same client through the outer call, and also
  ends at the deadlines of its outer calls.

While a call waits for the user, it releases its holds: its deadlines pause, and other calls get its slots. So a slow
user neither ends a call nor blocks the server (`release_holds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from mcp_bridge._contracts.context import OUTSIDE_REGISTRY, CallContext
from mcp_bridge._contracts.errors import MissingCapability, ToolError
from mcp_bridge._contracts.log_levels import Level, check_level
from mcp_bridge._contracts.session_state import SessionState, StateValues
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult

# Content and questions are imported with the first call that needs them.
if TYPE_CHECKING:
    from mcp_bridge._contracts.content import EmbeddedResource, InjectedText
    from mcp_bridge._contracts.handlers import NeedsInput
    from mcp_bridge._contracts.observation import ClientInfo, ObservedCall
    from mcp_bridge._contracts.question import Answer, Question


class Caller(Protocol):
    """Runs nested calls. `ToolRegistry` implements it.

    Attributes:
        lifespan: The value of the lifespan of the server; None if there is none.
    """

    lifespan: Any

    def list(self) -> Sequence[ToolEntry]:
        """Return all published tools."""

    async def dispatch(self, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Run one call through the pipeline."""

    async def dispatch_entry(self, entry: ToolEntry, call: ToolCall, ctx: RunningCall) -> ToolResult:
        """Run a call to an unpublished tool through the pipeline."""

    async def dispatch_resource(self, uri: str, call_id: str, ctx: RunningCall) -> ToolResult:
        """Read a resource through the pipeline. Raises ResourceNotFound."""

    def resource_updated(self, uri: str) -> None:
        """Notify subscribed clients of a change of a resource."""


@runtime_checkable
class RegistryOwner(Protocol):
    """An object with a registry, such as a bridge."""

    @property
    def registry(self) -> Caller:
        """The registry, or another caller."""


def get_caller(tools: Caller | RegistryOwner) -> Caller:
    """Return a registry, or the registry of its owner."""
    if isinstance(tools, RegistryOwner):
        return tools.registry
    return tools


class Hold(Protocol):
    """A deadline or a slot of a limiter. A call releases it while it waits for the user."""

    @property
    def deadline(self) -> float:
        """When the call must end, in seconds of the event loop's clock; infinite without a deadline."""

    def pause(self) -> None:
        """Release the hold until `resume`."""

    def resume(self) -> None:
        """Take the hold back without waiting, because the call may be in the middle of its cancellation."""


class PolicyDecision(NamedTuple):
    """The decision of a policy to allow or deny a call, or to answer it in place of the tool.

    `by` names who has decided for the policy, such as a user at a terminal.

    >>> PolicyDecision("quota", "denied", reason="over the quota").to_json()
    {'policy': 'quota', 'decision': 'denied', 'reason': 'over the quota'}
    """

    policy: str
    decision: Literal["allowed", "denied", "answered"]
    by: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the non-empty members."""
        return {name: value for name, value in self._asdict().items() if value}


class RunningCall(CallContext):
    """A call in the pipeline. Handlers and third-party middleware know it as a `CallContext`.

    Attributes:
        caller: The registry for nested calls; None outside a registry.
        client: The key of the client for quotas; None if the server has only one client.
        since: When another instance of the server asked the questions from which this call continues, in seconds since
            1970; None if the call started here.
        pipeline: The pipeline of this call and of its nested calls. If it is None, the registry sets its own.
        is_in_thread: Whether the handler runs in a thread. Then its nested calls count against no client, because they
            would wait for the threads of other calls of the client. Set by the pipeline.
        started: Whether the handler has begun. Set by the pipeline.
        needs: The `NeedsInput` for which the call waits between two runs of its handler. Set by the pipeline.
        holds: The deadlines and slots of the call. Set by the pipeline.
        check: Raises InvalidArguments for a call to this tool with invalid arguments. Set before the stage DECIDE.
        check_output: Raises InvalidOutput for an invalid output of this tool, with the name of the policy that has
            changed the output. Set before the stage DECIDE if the tool has an output schema.
        approved_call: The call as the user was asked to approve it.
        is_interactive: Whether the call has used more than its arguments: its client, by progress, log messages or
            questions, or the state of its session. The result of such a call is not cached.
        injected: Injected texts of policies in the results of nested calls, for the model.
        decisions: The decisions of policies about the call, in order.
        observation: The record of an observer about the call; None without an observer. Set by the pipeline.
    """

    __slots__ = (
        *("_asked", "_call_id", "_calls", "_filters", "_ids", "_lifespan", "_paused", "approved_call", "caller"),
        *("check", "check_output", "client", "decisions", "holds", "injected", "is_in_thread", "is_interactive"),
        *("needs", "observation", "pipeline", "since", "started"),
    )

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
        super().__init__(
            protocol_version=protocol_version,
            principal=principal,
            session=session,
            request_id=request_id,
            meta=meta,
            capabilities=capabilities,
        )
        self.caller = caller
        self.client: str | None = None
        self.since: float | None = None
        self.pipeline: Any = None
        self.is_in_thread = self.is_interactive = self.started = False
        self.needs: NeedsInput | None = None
        self.holds: list[Hold] = []
        self.check: Callable[[ToolCall], None] | None = None
        self.check_output: Callable[[Any, str], None] | None = None
        self.approved_call: ToolCall | None = None
        self.injected: dict[str, InjectedText] = {}
        self.decisions: tuple[PolicyDecision, ...] = ()
        self._filters: tuple[Callable[[Any], Any], ...] = ()
        # The id of the first request stays, even if a suspended call continues with another one.
        self._call_id = request_id
        self.observation: ObservedCall | None = None
        # The numbers of open questions, of nested calls that have begun, and of ids for nested calls.
        self._asked = self._calls = self._ids = 0
        # The holds that the open questions have paused.
        self._paused: Sequence[Hold] = ()
        self._lifespan: Any = None

    @property
    def lifespan(self) -> Any:
        if self._lifespan is None and self.caller is not None:
            return self.caller.lifespan
        return self._lifespan

    @lifespan.setter
    def lifespan(self, value: Any) -> None:
        self._lifespan = value

    @property
    def deadline(self) -> float | None:
        # A generator expression would cost more than this loop.
        nearest = math.inf
        for hold in self.holds:
            nearest = min(nearest, hold.deadline)
        return nearest if nearest < math.inf else None

    @property
    def state_key(self) -> str:
        """The key under which the server keeps state for the caller: the session, or this call if it has no session.

        It is empty if there is only one client.
        """
        return self.session

    @property
    def parent_id(self) -> str:
        """The id of the outer call; empty if a client made this call."""
        return ""

    @property
    def is_task(self) -> bool:
        """Whether the call runs as a task, or becomes one if it takes long."""
        return False

    @property
    def has_begun(self) -> bool:
        """Whether the handler of this call or of a nested call has begun. Its effects must not happen twice."""
        return self.started or self._calls > 0

    @property
    def session_state(self) -> StateValues:
        """The values of `get_state`: those of the session, or of this call if it has no session."""
        self.is_interactive = True
        if self._session_state is None:
            self._session_state = self.open_session_state()
        return self._session_state

    def open_session_state(self) -> StateValues:
        """Return the values of `get_state`. Called once, when the call first uses them."""
        return SessionState()

    def _use_state(self) -> StateValues:
        return self.session_state

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._observe_progress(progress, total, self.filter_message(message))

    def _observe_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self.observation is not None:
            self.observation.report_progress(progress, total, message)

    def _observe_log(self, level: Level, data: Any, logger: str | None) -> None:
        if self.observation is not None:
            self.observation.report_log(level, data, logger)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        check_level(level)
        self._observe_log(level, self.filter_message(data), self.filter_message(logger))

    def add_filter(self, change: Callable[[Any], Any]) -> None:
        """Change texts of progress, and data and loggers of log messages, by a function before the client gets them."""
        self._filters = (*self._filters, change)

    def filter_message(self, data: Any) -> Any:
        """Apply the filters to a text or data for the client, and record that the call is interactive."""
        self.is_interactive = True
        for change in self._filters:
            data = change(data)
        return data

    def record_decision(self, decision: PolicyDecision) -> None:
        """Add a decision of a policy, for the audit trail."""
        self.decisions = (*self.decisions, decision)

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        self.is_interactive = True
        raise MissingCapability({question.capability: {} for question in questions.values()})

    async def wait_for_late_answer(self, message: str, schema: Any = None) -> Answer[Any] | None:
        """Wait for the next request of the client, and return its answer to a question whose `ask` has already ended.

        Such an answer comes after the question has timed out. Return None if the client sends no answer, or cannot send
        one later. Between two requests, another instance may continue the call. Raises InvalidAnswer.
        """
        return None

    async def wait_until_owned(self) -> None:
        """Wait until no other instance of the server can continue this call.

        Then a decision cannot be lost if only this instance knows it.
        """

    def on_session_end(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the event loop when the session of this call ends, if the server can detect that."""

    async def close_stream(self) -> None:
        """Close the stream of this call if its client uses a handshake version and can resume the stream later."""

    @contextmanager
    def release_holds(self) -> Iterator[None]:
        """Release the holds while the call waits for the user. After the last open question, take them back."""
        if not self._asked:
            self._paused = list(self.holds)
            # The innermost hold, which was taken last, is released first.
            for hold in reversed(self._paused):
                hold.pause()
            if self.observation is not None:
                self.observation.report_asking(is_asking=True)
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1
            if not self._asked:
                # An abandoned thread may still ask after its call has ended and given up its holds.
                for hold in self._paused:
                    if hold in self.holds:
                        hold.resume()
                if self.observation is not None:
                    self.observation.report_asking(is_asking=False)

    def tools(self) -> Sequence[ToolEntry]:
        return self.caller.list() if self.caller is not None else ()

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        return await self._get_caller().dispatch(self.create_call(name, arguments), self)

    async def invoke_entry(self, entry: ToolEntry, arguments: Any = None, known_as: str = "") -> ToolResult:
        """Call an unpublished entry, such as a tool of an agent, through the same pipeline.

        Policies treat the entry like a published one. Hooks see the name `known_as`, if there is one. Raises
        RuntimeError if this call runs outside a registry.
        """
        call = self.create_call(entry.name, arguments, known_as)
        return await self._get_caller().dispatch_entry(entry, call, self)

    async def read_resource(self, uri: str) -> Sequence[EmbeddedResource]:
        from mcp_bridge._contracts.content import EmbeddedResource

        result = await self.fetch_resource(uri)
        if result.is_error:
            raise ToolError(result.error_text, code=result.code or ToolError.code)
        return [item for item in result.content or () if isinstance(item, EmbeddedResource)]

    async def fetch_resource(self, uri: str) -> ToolResult:
        """Read a resource through the same pipeline. The contents of the resource are the content of the result.

        Raises ResourceNotFound, and RuntimeError if this call runs outside a registry.
        """
        return await self._get_caller().dispatch_resource(uri, self.create_call(uri).id, self)

    def resource_updated(self, uri: str) -> None:
        if self.caller is not None:
            self.caller.resource_updated(uri)

    def create_call(self, name: str, arguments: Any = None, known_as: str = "") -> ToolCall:
        """Return a nested call. Its id is that of this call with a number, such as `7.1`, `7.2` and `7.2.1`."""
        self._ids += 1
        data = {} if arguments is None else arguments
        return ToolCall(id=f"{self._call_id}.{self._ids}", name=name, arguments=data, known_as=known_as)

    def create_nested(self, call_id: str = "") -> RunningCall:
        """Return the context of a nested call with this id."""
        self._calls += 1
        return NestedCall(self, call_id)

    def pass_injections(self, texts: Iterable[InjectedText]) -> None:
        """Pass the injected texts in this call's result to the outer call, if there is one."""

    def _get_caller(self) -> Caller:
        if self.caller is None:
            raise RuntimeError(OUTSIDE_REGISTRY)
        return self.caller


def start_call(ctx: CallContext) -> RunningCall:
    """Return a RunningCall unchanged, and for any other context a new call with the same data about the caller."""
    if isinstance(ctx, RunningCall):
        return ctx
    return RunningCall(
        protocol_version=ctx.protocol_version,
        principal=ctx.principal,
        session=ctx.session,
        request_id=ctx.request_id,
        meta=ctx.meta,
        capabilities=ctx.capabilities,
    )


class NestedCall(RunningCall):
    """A nested call. It has its own deadline, answers and `state`, and the client of the outer call."""

    __slots__ = ("_outer",)

    def __init__(self, outer: RunningCall, call_id: str = "") -> None:
        super().__init__(
            caller=outer.caller,
            protocol_version=outer.protocol_version,
            principal=outer.principal,
            session=outer.session,
            request_id=call_id or outer.request_id,
            meta=outer.meta,
        )
        self._outer = outer
        if not outer.is_in_thread:
            self.client = outer.client
        self.pipeline = outer.pipeline
        # The handler of the outer call has begun, which `has_begun` and the limits of the pipeline depend on.
        self.started = True

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
        deadlines = [deadline for deadline in (super().deadline, self._outer.deadline) if deadline is not None]
        return min(deadlines, default=None)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        message = self.filter_message(message)
        self._observe_progress(progress, total, message)
        await self._outer.report_progress(progress, total, message)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        data, logger = self.filter_message(data), self.filter_message(logger)
        self._observe_log(level, data, logger)
        await self._outer.log(level, data, logger)

    def open_session_state(self) -> StateValues:
        """Return the values of the outer call."""
        return self._outer.session_state

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask several questions together. The deadlines of the outer calls pause too."""
        self.is_interactive = True
        with self.release_holds():
            return await self._outer.put(questions)

    async def wait_for_late_answer(self, message: str, schema: Any = None) -> Answer[Any] | None:
        """Wait as the outer call does. The deadlines of the outer calls pause."""
        with self.release_holds():
            return await self._outer.wait_for_late_answer(message, schema)

    async def wait_until_owned(self) -> None:
        await self._outer.wait_until_owned()

    @contextmanager
    def release_holds(self) -> Iterator[None]:
        """Release the holds of this call and its outer calls."""
        with self._outer.release_holds(), super().release_holds():
            yield

    def pass_injections(self, texts: Iterable[InjectedText]) -> None:
        self._outer.injected.update((injected.text, injected) for injected in texts)

    def on_session_end(self, callback: Callable[[], None]) -> None:
        self._outer.on_session_end(callback)

    async def close_stream(self) -> None:
        await self._outer.close_stream()
