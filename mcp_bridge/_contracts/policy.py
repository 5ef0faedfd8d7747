"""Policies of the settings: middleware that decides once per entry whether it is a layer of the entry's calls."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from mcp_bridge._contracts.extension import CallNext, Stage
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult


class Forecast(NamedTuple):
    """What a layer would do with a call.

    Attributes:
        outcome: Whether it passes the call on, stops it, or asks the user.
        reason: Why, or what it would do; for users.
        call: The call that it would pass on, if it changes the arguments.
    """

    outcome: Literal["passes", "stops", "asks"]
    reason: str = ""
    call: ToolCall | None = None


class PolicyLayer(Protocol):
    """A policy as a layer of the calls of one entry."""

    async def __call__(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Return the result of the call, usually that of `call_next`."""


@runtime_checkable
class ForecastingLayer(Protocol):
    """A layer that can predict what it would do. `mcp-bridge explain` shows this, under the layer's name."""

    name: str

    async def predict(self, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict what a call would meet, without running the tool, asking a user, or counting the call."""


@runtime_checkable
class Policy(Protocol):
    """A policy, which is a layer of some entries and costs nothing for all others.

    Attributes:
        name: The name that errors and `mcp-bridge explain` show.
        stage: The stage of a call at which its layers run.
        is_passive: Whether its layers change neither arguments nor results, so that nothing is validated again.
        may_ask: Whether its layers may ask the user.
    """

    name: str
    stage: Stage
    is_passive: bool
    may_ask: bool

    def bind(self, entry: Any) -> PolicyLayer | None:
        """Return the layer for calls of this entry, or None if the policy never applies to it.

        `entry` is a ToolEntry, ResourceEntry, ResourceTemplate or PromptEntry, or an entry that completes an argument.
        """


@runtime_checkable
class CombiningPolicy(Policy, Protocol):
    """A policy that is combined with others of its type, because they decide together."""

    def combine(self, other: Any) -> Policy:
        """Return the combination of this policy and another one of its type."""


@runtime_checkable
class PolicyOptions(Protocol):
    """The options of a policy in the settings: a pydantic model with this method."""

    def build_policy(self, services: Any) -> Policy:
        """Build the policy; `services` is a `mcp_bridge._policies.services.PolicyServices`. Raises ConfigError."""


@runtime_checkable
class RunningPolicy(Protocol):
    """A policy with work of its own, such as writing a file."""

    async def run(self) -> None:
        """Work until cancelled, while the bridge serves. Never raises."""
