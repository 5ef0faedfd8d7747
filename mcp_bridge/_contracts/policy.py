"""Defines policies, for decisions about calls, and middleware, for code around every call.

Both run as layers of the pipeline. A middleware is a layer of all entries. A policy decides for each entry whether it
has a layer (`Policy.bind`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

from mcp_bridge._contracts.context import CallContext
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult

CallNext = Callable[[ToolCall, CallContext], Awaitable[ToolResult]]
"""Runs the rest of the pipeline. A middleware passes on the context that it received."""


class Stage(IntEnum):
    """The stage of a call at which a middleware or policy runs, in the order of the pipeline."""

    OBSERVE = 1
    """Outermost: it sees the final result of every call, and never an exception of the stages below."""
    ADMIT = 2
    """Before the arguments are validated, for decisions that do not depend on valid arguments."""
    DECIDE = 3
    """After validation, and outside of the time limit, so that the user can be asked about a valid call."""
    ATTEMPT = 4
    """Around the limits and the handler, for layers that may run them several times or not at all."""


@runtime_checkable
class Middleware(Protocol):
    """Code around every call, at its stage. `ctx` may be annotated as a `CallContext`, as in handlers.

    >>> class Stopwatch:
    ...     stage = Stage.OBSERVE
    ...
    ...     async def __call__(self, call, ctx, call_next):
    ...         result = await call_next(call, ctx)
    ...         print(call.name, result.duration_ms)
    ...         return result
    >>> isinstance(Stopwatch(), Middleware)
    True
    """

    stage: Stage

    async def __call__(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Return the result of the call, usually that of `call_next`."""


class Asker(Protocol):
    """Asks users to approve calls. The bridge sets `policy`, a `_policies.approvals.policy.ApprovalPolicy`."""

    policy: Any


class Forecast(NamedTuple):
    """The predicted outcome of a policy for a call.

    Attributes:
        outcome: Whether the policy passes the call on, stops it, or asks the user; `unknown` if only running the call
            can decide this.
        reason: The reason or the effect, for users.
        call: The call with changed arguments; None if they do not change.
    """

    outcome: Literal["passes", "stops", "asks", "unknown"]
    reason: str = ""
    call: ToolCall | None = None


Layer = Callable[[ToolCall, RunningCall, CallNext], Awaitable[ToolResult]]
"""Runs around the calls of one entry. It returns the result of the call, usually that of the inner function."""


class Policy:
    """A policy. It is a layer of the calls of some entries, and costs nothing for all others.

    In the settings, `package.module:ClassName` names a class that derives from this one. If it is a pydantic model, its
    fields are the options of the policy.

    >>> class LocalOnly(Policy):
    ...     stage = Stage.ADMIT
    ...     is_passive = True
    ...
    ...     def bind(self, entry):
    ...         return None if entry.name.startswith("local_") else self.deny
    ...
    ...     async def deny(self, call, ctx, call_next):
    ...         raise Denied(f"Tool '{call.name}' is not local.")
    >>> LocalOnly.name
    'LocalOnly'

    Attributes:
        name: The name that errors and `mcp-bridge explain` show. Default: the name of the class.
        stage: The stage of a call at which its layers run.
        is_passive: Whether its layers change neither arguments nor results, so that nothing is validated again.
        may_ask: Whether its layers may ask the user.
        injects_texts: Whether its layers can add text for the model to results, as an `InjectedText`.
    """

    name: ClassVar[str]
    stage: ClassVar[Stage] = Stage.DECIDE
    is_passive: ClassVar[bool] = False
    may_ask: ClassVar[bool] = True
    injects_texts: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @property
    def asking(self) -> Asker | None:
        """The object that asks users to approve calls; None if the policy asks no user, or asks in another way."""
        return None

    def use_services(self, services: Any) -> None:
        """Prepare for calls. Called once, before `bind`. `services` is a `mcp_bridge.policies.PolicyServices`.

        Raises ConfigError for options that cannot be used here.
        """

    def combine(self, other: Self) -> Policy | None:
        """Return one policy in place of this one and another of the same class, or None if both stay."""
        return None

    def bind(self, entry: Any) -> Layer | None:
        """Return the layer for calls of this entry, or None if the policy never applies to it. Called once per entry.

        `entry` is a ToolEntry, ResourceEntry, ResourceTemplate or PromptEntry, or an entry that completes an argument.
        """
        raise NotImplementedError

    def limit_layer(self, layer: Layer) -> Layer:
        """Return the layer of `bind`, or a layer around it, to skip it for some calls. Called once per entry."""
        return layer

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict the outcome for a call of an entry, without running it, asking a user, or counting the call."""
        return Forecast("unknown", "it decides when it runs")

    async def run(self) -> None:
        """Work until cancelled, while the bridge serves, such as writing a file. Never raises."""
