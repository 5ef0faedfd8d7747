"""CallContext: what a running call may do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from mcp_bridge.contracts.errors import MissingCapability
from mcp_bridge.contracts.hold import Hold
from mcp_bridge.contracts.levels import Level, check_level
from mcp_bridge.contracts.question import Answer, Form, Link, NeedsInput, Question, Root, Roots, Sampled, Sampling
from mcp_bridge.contracts.tool import ToolCall, ToolEntry, ToolResult

NO_FALLBACK: Any = object()
"""What stands for: there is no fallback, raise."""
_CAPABILITIES: dict[type[Question], str] = {Sampling: "sampling", Roots: "roots"}


class Caller(Protocol):
    """Who carries out calls that a call makes: the registry."""

    def list(self) -> Sequence[ToolEntry]:
        """All published tools."""
        ...

    async def dispatch(self, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Run one call through the pipeline."""
        ...

    def resource_updated(self, uri: str) -> None:
        """Tell whoever subscribed that a resource has changed."""
        ...


class CallContext:
    """The running call, as its tool and its middleware see it.

    A tool, prompt or resource receives it through a parameter annotated `CallContext`. This class alone, without a
    client behind it, is what `ToolRegistry.invoke` hands out: progress and log go nowhere, nobody can be asked,
    everything else works.

    `protocol_version` is empty in process. `session` tells sessions of clients apart: it is empty where there is none,
    which all such clients share; see `when_left`. `answers` and `state` are what a `NeedsInput` of this call brought.
    `since` is when a call that was taken up from another instance had asked there, in seconds since 1970.
    `pipeline` is the policy that calls made by this call are under too. `started`, `needs` and `holds` are the
    pipeline's: whether the handler has begun, what it waits for between two runs, and what the call gives back while
    a person is asked. `check` raises InvalidArguments for a call of this tool whose arguments do not fit;
    it is there where a policy decides. `agreed` is the call that a person was asked about, as they have seen it.
    """

    __slots__ = (
        "_asked",
        "_calls",
        "_capabilities",
        "_paused",
        "agreed",
        "answers",
        "caller",
        "check",
        "holds",
        "meta",
        "needs",
        "pipeline",
        "principal",
        "protocol_version",
        "request_id",
        "session",
        "since",
        "started",
        "state",
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
        self.caller = caller
        self.protocol_version = protocol_version
        self.principal = principal
        self.session = session
        self.request_id = request_id
        self.meta: Mapping[str, Any] = meta if meta is not None else {}
        self._capabilities = capabilities
        self.answers: Mapping[str, Any] = {}
        self.state: Any = None
        self.since: float | None = None
        self.pipeline: Any = None
        self.started = False
        self.needs: NeedsInput | None = None
        self.holds: list[Hold] = []
        self.check: Callable[[ToolCall], None] | None = None
        self.agreed: ToolCall | None = None
        self._asked = 0
        self._calls = 0
        self._paused: list[Hold] = []

    @property
    def deadline(self) -> float | None:
        """When the call has to end, in seconds of the event loop's clock; None for no limit, and while it is paused."""
        nearest = min((hold.deadline for hold in self.holds), default=math.inf)
        return nearest if nearest < math.inf else None

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client has declared that it can do, as MCP writes it: `elicitation`, `sampling`, `roots` …"""
        return self._capabilities or {}

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the call is. `progress` must grow; clients that did not ask hear nothing."""

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send the client a log message, any JSON value; only clients that asked for this level hear it.

        Raises ValueError for what is no level.
        """
        check_level(level)

    async def ask(
        self,
        message: str,
        schema: Any = None,
        *,
        url: str | None = None,
        key: str | None = None,
        fallback: Any = NO_FALLBACK,
    ) -> Answer:
        """Ask the person at the client to fill in a form (see `Form` for `schema`), or with `url` to open a page.

        The call waits, its deadline stops. `key` names the question for clients. Raises MissingCapability when the
        client cannot be asked and there is no `fallback` to answer instead, QuestionExpired when nobody answers in
        time, InvalidAnswer when the client keeps sending what does not fit, ValueError for a schema that no form can
        have.
        """
        question: Question = Link(message, url) if url is not None else Form(message, schema)
        answer: Answer = await self._one(question, key, fallback)
        return answer

    async def sample(
        self,
        messages: Any,
        *,
        max_tokens: int = 1024,
        key: str | None = None,
        fallback: Any = NO_FALLBACK,
        **options: Any,
    ) -> Sampled:
        """Have the client's model write a message; `options` are the other fields of `Sampling`. Raises as `ask`."""
        sampled: Sampled = await self._one(Sampling(messages, max_tokens, **options), key, fallback)
        return sampled

    async def roots(self, *, key: str | None = None, fallback: Any = NO_FALLBACK) -> Sequence[Root]:
        """The folders that the client lets servers work in. Raises as `ask`."""
        roots: Sequence[Root] = await self._one(Roots(), key, fallback)
        return roots

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Put several questions at once, by key; the answers come by the same keys. Raises as `ask`."""
        raise MissingCapability(
            {_CAPABILITIES.get(type(question), "elicitation"): {} for question in questions.values()}
        )

    async def attended(self) -> None:
        """Wait until a request of the client is open: between two, another instance may take the call up instead."""

    def when_left(self, callback: Callable[[], None]) -> None:
        """Call this in the event loop when the client of this session has left, where that can be known."""

    async def close_stream(self) -> None:
        """Have a client of the handshake era fetch the rest of this call's stream later, where it can resume."""

    def tools(self) -> Sequence[ToolEntry]:
        """The published tools, by name; empty when nothing serves this call."""
        return self.caller.list() if self.caller is not None else ()

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        """Call another published tool through the same pipeline, under the same policy; None means no arguments.

        Raises ToolNotFound when there is none of that name, RuntimeError when nothing serves this call.
        """
        if self.caller is None:
            raise RuntimeError("this call runs outside a registry, so it cannot call other tools")
        return await self.caller.dispatch(
            ToolCall(id=self.request_id, name=name, arguments={} if arguments is None else arguments), self
        )

    def nested(self) -> CallContext:
        """The context of a call that this one makes."""
        self._calls += 1
        return NestedContext(self)

    @property
    def begun(self) -> bool:
        """Whether a handler has begun, this call's own or one that it called: what it did must not be done twice."""
        return self.started or self._calls > 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do without what the call holds while a person is asked; the last of several questions takes it again."""
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
                    if hold in self.holds:  # a thread may ask when its call is over
                        hold.resume()

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource that it has changed; from any thread."""
        if self.caller is not None:
            self.caller.resource_updated(uri)

    async def _one(self, question: Question, key: str | None, fallback: Any) -> Any:
        name = key or ""
        try:
            return (await self.put({name: question}))[name]
        except MissingCapability:
            if fallback is NO_FALLBACK:
                raise
            return fallback


class NestedContext(CallContext):
    """The context of a call that a call makes: its own deadline, answers and state, and the client of the outer one."""

    __slots__ = ("_outer",)

    def __init__(self, outer: CallContext) -> None:
        super().__init__(
            caller=outer.caller,
            protocol_version=outer.protocol_version,
            principal=outer.principal,
            session=outer.session,
            request_id=outer.request_id,
            meta=outer.meta,
        )
        self._outer = outer
        self.pipeline, self.started = outer.pipeline, True

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client has declared that it can do."""
        return self._outer.capabilities

    @property
    def deadline(self) -> float | None:
        """The nearest of its own deadline and those of the calls around it."""
        nearest = min(known for known in (super().deadline, self._outer.deadline, math.inf) if known is not None)
        return nearest if nearest < math.inf else None

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the call is."""
        await self._outer.progress(progress, total, message)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send the client a log message."""
        await self._outer.log(level, data, logger)

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Put several questions at once; the calls around this one pause too."""
        with self.paused():
            return await self._outer.put(questions)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do without what this call and those around it hold."""
        with self._outer.paused(), super().paused():
            yield

    def when_left(self, callback: Callable[[], None]) -> None:
        """Call this when the client has left."""
        self._outer.when_left(callback)

    async def close_stream(self) -> None:
        """Have the client fetch the rest of this call's stream later."""
        await self._outer.close_stream()
