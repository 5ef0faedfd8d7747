"""The context variable with the call in which the code of a provider or an agent runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, NamedTuple

from mcp_bridge._contracts.running_call import RunningCall


class ProviderCall(NamedTuple):
    """The running call of an agent, or of the tool `name` of a provider with `arguments`."""

    ctx: RunningCall
    name: str = ""
    arguments: Any = None


RUNNING: ContextVar[ProviderCall | None] = ContextVar("running_call", default=None)
