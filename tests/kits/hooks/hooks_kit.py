"""What the tests of hooks share: a governed registry, hooks that keep what they heard, and both eras' clients."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import mcp_types as types

from mcp_bridge import ToolRegistry
from mcp_bridge._engine.authoring import tool
from mcp_bridge._integrations.amplifier.hook_middleware import HookMiddleware
from mcp_bridge._policies.approvals.gate import ApprovalGate
from mcp_bridge.amplifier import HookRegistry, HookResult
from mcp_bridge.middleware import Pipeline
from mcp_bridge.testing import connect

Json = dict[str, Any]
LOGS = {"io.modelcontextprotocol/logLevel": "debug"}


class House:
    """A registry under hooks, with tools that say what they were called with (`ran`)."""

    def __init__(self, *, hook_timeout: float = 30.0, timeout: float | None = 60.0, **limits: Any) -> None:
        self.hooks = HookRegistry(fail_closed=("tool:pre", "tool:post"), timeout=hook_timeout)
        self.heard: list[tuple[str, Json]] = []
        self.ran: list[Any] = []
        self.asking = ApprovalGate()
        self.registry = ToolRegistry(
            pipeline=Pipeline([HookMiddleware(self._find, self.asking)], timeout=timeout, **limits)
        )

        @tool(registry=self.registry)
        def add(n: int, to: int = 1) -> dict[str, int]:
            """Adds."""
            self.ran.append({"n": n, "to": to})
            return {"sum": n + to}

        @tool(registry=self.registry)
        def say(text: str) -> str:
            """Says."""
            self.ran.append(text)
            return f"said {text}"

    def _find(self, ctx: Any) -> contextlib.AbstractAsyncContextManager[HookRegistry]:
        return contextlib.nullcontext(self.hooks)

    def on(self, event: str, answer: Any = None, **options: Any) -> None:
        """Have somebody hear an event: what it heard is kept, and the answer given, or made of the data."""

        async def handler(name: str, data: Json) -> Any:
            self.heard.append((name, data))
            return answer(data) if callable(answer) else answer

        self.hooks.register(event, handler, **options)

    def of(self, event: str) -> list[Json]:
        """The data of every time that an event was heard."""
        return [data for name, data in self.heard if name == event]


def deny(reason: str | None = None, **more: Any) -> HookResult:
    """No."""
    return HookResult(action="deny", reason=reason, **more)


def ask(prompt: str | None = "Sure?", **more: Any) -> HookResult:
    """Ask a person."""
    return HookResult(action="ask_user", approval_prompt=prompt, **more)


def inject(text: str, **more: Any) -> HookResult:
    """Have the model read this."""
    return HookResult(action="inject_context", context_injection=text, **more)


def modify(**data: Any) -> Callable[[Json], HookResult]:
    """Change these fields of the data."""
    return lambda given: HookResult(action="modify", data={**given, **data})


class Someone:
    """A person at the official client: chooses these in turn (the last for ever); an action where it is one."""

    def __init__(self, *choices: Any) -> None:
        self._choices = choices
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        choice = self._choices[min(len(self.asked), len(self._choices) - 1)]
        self.asked.append(params)
        if callable(choice):
            return await choice()
        if choice in ("decline", "cancel"):
            return types.ElicitResult(action=choice)
        content: Any = choice if isinstance(choice, Mapping) else {"value": choice}
        return types.ElicitResult(action="accept", content=content)

    @property
    def prompts(self) -> list[str]:
        """What was asked, without the arguments."""
        return [str(params.message).partition("\n- ")[0] for params in self.asked]


@contextlib.asynccontextmanager
async def visited(house: House, mode: str, person: Any = None, **options: Any) -> AsyncIterator[Any]:
    """The official client of a house, with somebody at it or nobody."""
    more = {"elicitation_callback": person} if person is not None else {}
    async with connect(house.registry, mode=mode, **more, **options) as client:
        yield client


def texts(result: Any) -> list[str]:
    """The texts of a result."""
    return [block.text for block in result.content]


def code_of(result: Any) -> str | None:
    """The stable code of a failed result; None for one that succeeded."""
    code: str | None = (result.meta or {}).get("mcp-bridge/code") if result.is_error else None
    return code
