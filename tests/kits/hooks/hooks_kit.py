"""For tests of hooks: a registry with hooks that record events, scripted users, and clients of both eras."""

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


class HookedServer:
    """A registry under hooks, with two tools. It records their `calls`, and the `events` of hooks."""

    def __init__(self, *, hook_timeout: float = 30.0, timeout: float | None = 60.0, **limits: Any) -> None:
        self.hooks = HookRegistry(fail_closed=("tool:pre", "tool:post"), timeout=hook_timeout)
        self.events: list[tuple[str, Json]] = []
        self.calls: list[Any] = []
        self.asking = ApprovalGate()
        self.registry = ToolRegistry(
            pipeline=Pipeline([HookMiddleware(self._find, self.asking)], timeout=timeout, **limits)
        )

        @tool(registry=self.registry)
        def add(n: int, to: int = 1) -> dict[str, int]:
            """Add two numbers."""
            self.calls.append({"n": n, "to": to})
            return {"sum": n + to}

        @tool(registry=self.registry)
        def say(text: str) -> str:
            """Return the text."""
            self.calls.append(text)
            return f"said {text}"

    def _find(self, ctx: Any) -> contextlib.AbstractAsyncContextManager[HookRegistry]:
        return contextlib.nullcontext(self.hooks)

    def on(self, event: str, answer: Any = None, **options: Any) -> None:
        """Register a recording handler, with this decision or a function of the data."""

        async def handler(name: str, data: Json) -> Any:
            self.events.append((name, data))
            return answer(data) if callable(answer) else answer

        self.hooks.register(event, handler, **options)

    def get_events(self, event: str) -> list[Json]:
        """Return the data of each event of this name."""
        return [data for name, data in self.events if name == event]


def deny(reason: str | None = None, **more: Any) -> HookResult:
    """Return a denial."""
    return HookResult(action="deny", reason=reason, **more)


def ask(prompt: str | None = "Sure?", **more: Any) -> HookResult:
    """Return a question to the user."""
    return HookResult(action="ask_user", approval_prompt=prompt, **more)


def inject(text: str, **more: Any) -> HookResult:
    """Return a text for the model."""
    return HookResult(action="inject_context", context_injection=text, **more)


def modify(**data: Any) -> Callable[[Json], HookResult]:
    """Return a decision function with these changes to the data."""
    return lambda arguments: HookResult(action="modify", data={**arguments, **data})


class ScriptedUser:
    """The user of an official client, who makes these choices in turn, and then the last one again.

    A choice is `decline`, `cancel`, the value of the form's only field, its whole content, or an async function.
    """

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
        """The texts of the questions, without the arguments."""
        return [str(params.message).partition("\n- ")[0] for params in self.asked]


@contextlib.asynccontextmanager
async def open_client(server: HookedServer, mode: str, user: Any = None, **options: Any) -> AsyncIterator[Any]:
    """Connect the official client, with a user if one is given."""
    more = {"elicitation_callback": user} if user is not None else {}
    async with connect(server.registry, mode=mode, **more, **options) as client:
        yield client


def get_texts(result: Any) -> list[str]:
    """Return the texts of a result."""
    return [block.text for block in result.content]


def get_code(result: Any) -> str | None:
    """Return the code of a failed result, or None."""
    code: str | None = (result.meta or {}).get("mcp-bridge/code") if result.is_error else None
    return code
