"""Inspects hooks and tools: whether they can have an effect, and whether a tool reads the id of its call.

A tool's methods are read as compiled code, and none of them is run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from types import CodeType
from typing import Any

from mcp_bridge.amplifier.events import AGENT_EVENTS

CALL_ID = "_tool_call_id"  # the argument with the call's id, for tools that return it with their results
_SPAWN = (
    "session.spawn"  # the capability that starts an agent. Applications of Amplifier register it, modules rarely do
)

_HINT = "Remove it from the plan"


def describe_unemitted_events(events: Collection[str]) -> str:
    """Return why hooks of these events have no effect. Empty if they may have one."""
    if not events or not AGENT_EVENTS.issuperset(events):
        return ""
    names = ", ".join(f"'{event}'" for event in sorted(events))
    return f"it has no effect, because its hooks only receive {names}, and the plan has no agent that runs. {_HINT}"


def describe_missing_capability(tool: Any, get_capability: Callable[[str], Any]) -> str:
    """Return why every call to a tool must fail. Empty if calls may succeed.

    Only `execute` itself counts: a tool such as tool-skills starts an agent in another method, for some of its calls.
    """
    members = [getattr(type(tool), "execute", None)]
    if get_capability(_SPAWN) is not None or not _has_constant(members, _SPAWN, beside="get_capability"):
        return ""
    return f"it can only fail, because no module registers the capability '{_SPAWN}', which starts agents. {_HINT}"


def reads_call_id(tool: Any) -> bool:
    """Return whether the code of a tool reads the id of the call from its arguments."""
    return _has_constant([member for base in inspect.getmro(type(tool)) for member in vars(base).values()], CALL_ID)


def _has_constant(members: Iterable[Any], text: str, beside: str = "") -> bool:
    """Return whether one of these functions has this text, and uses the name `beside`."""
    return any(text in code.co_consts and (not beside or beside in code.co_names) for code in _iter_code(members))


def _iter_code(members: Iterable[Any]) -> Iterator[CodeType]:
    pending: list[Any] = [getattr(inspect.unwrap(member), "__code__", None) for member in members if callable(member)]
    while pending:
        code = pending.pop()
        if isinstance(code, CodeType):
            yield code
            pending.extend(code.co_consts)
