"""Checks of the Context contract: which messages a context keeps, and which of them a request gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.doubles import EventRecorder, MockProvider
from mcp_bridge._integrations.amplifier.models import ProviderInfo
from mcp_bridge._integrations.amplifier.validation.examiner import Examiner, Step, describe_method_problem, truncate
from mcp_bridge._integrations.amplifier.validation.mounting import ModuleUnderTest

Messages = list[dict[str, Any]]
BUDGET = 1500  # tokens of a request. The history has ten times as many
_METHODS: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("add_message", ({},), {}),
    ("get_messages_for_request", (), {"token_budget": None, "provider": None}),
    ("get_messages", (), {}),
    ("set_messages", ([],), {}),
    ("clear", (), {}),
)
_LONG_MESSAGES, _CONCURRENT, _TURNS = 10, 20, 40


class _SmallModel(MockProvider):
    """A model whose window leaves the budget, after the response and the contract's margin."""

    def get_info(self) -> ProviderInfo:
        sizes = {"context_window": BUDGET + 1500, "max_output_tokens": 500}
        return ProviderInfo(id="small", display_name="small", defaults=sizes)


class ContextError(Exception):
    """A method of the context is missing, raised, or returned something invalid."""


def build_context_steps(examiner: Examiner, mounted: ModuleUnderTest) -> list[Step]:
    check = _ContextCheck(examiner, mounted)
    parts: tuple[tuple[str, Callable[[], Awaitable[None]], str], ...] = (
        ("context.protocol", check.check_protocol, ""),
        ("context.stores", check.check_storage, "Store messages as they come, and nothing else"),
        ("context.copies", check.check_copies, ""),
        ("context.concurrent", check.check_concurrency, "Hold a lock while messages are added"),
        ("context.compacts", check.check_compaction, "Compact within get_messages_for_request()"),
        ("context.tokens", check.check_tokens, ""),
    )
    return [Step(item=item, run=partial(_run_check, examiner, item, run, advice)) for item, run, advice in parts]


async def _run_check(examiner: Examiner, item: str, run: Callable[[], Awaitable[None]], advice: str) -> None:
    """Run a check. Where the context cannot be used, its item fails; without advice it is skipped."""
    try:
        await run()
    except ContextError as error:
        if advice:
            examiner.report_failed(item, str(error), advice)
        else:
            examiner.report_skipped(item, str(error))


class _ContextCheck:
    """Checks the context. Each step begins with an empty one."""

    def __init__(self, examiner: Examiner, mounted: ModuleUnderTest) -> None:
        self._examiner = examiner
        self._config = mounted.config
        self._hooks = mounted.coordinator.hooks
        self._context = mounted.coordinator.get("context")
        self._compacts = False

    async def check_protocol(self) -> None:
        problems = [describe_method_problem(self._context, name, *args, named=named) for name, args, named in _METHODS]
        problem = "; ".join(filter(None, problems))
        self._examiner.check("context.protocol", problem, "See mcp_bridge.amplifier.ContextManager")
        problem = "" if self._config.read else "no key of its configuration was read"
        self._examiner.check("context.config", problem, "Make the threshold of compaction configurable")

    async def check_storage(self) -> None:
        given = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        await self._replace_messages(given)
        added, requested = await self._get("get_messages"), await self._get("get_messages_for_request")
        await self._call("set_messages", deepcopy(given[:1]))
        replaced = await self._get("get_messages")
        await self._call("clear")
        cleared = await self._get("get_messages")
        problem = ""
        if _sort(added) != _sort(given):
            problem = f"after adding two messages there is {truncate(repr(_sort(added)), 200)}"
        elif replaced != given[:1]:
            problem = f"after setting one there is {truncate(repr(replaced), 200)}"
        elif cleared:
            problem = f"after clearing there is {truncate(repr(cleared), 200)}"
        self._examiner.check("context.stores", problem, "Store messages as they come, and nothing else")
        problem = next(
            (truncate(repr(found), 200) for found in (added, requested) if not _is_ordered(found, given)), ""
        )
        self._examiner.check("context.order", problem, "Return messages in the order in which they came")

    async def check_copies(self) -> None:
        await self._replace_messages([{"role": "user", "content": "one"}])
        for name in ("get_messages", "get_messages_for_request"):
            (await self._call(name)).clear()
        remaining = await self._call("get_messages")
        problem = "" if remaining else "a caller that clears the returned list clears the history"
        self._examiner.check("context.copies", problem, "Return a copy: list(self._messages)")

    async def check_concurrency(self) -> None:
        await self._replace_messages([])
        async with anyio.create_task_group() as tasks:
            for number in range(_CONCURRENT):
                message = {"role": "user", "content": f"message {number}"}
                tasks.start_soon(self._examiner.call, self._context.add_message, message)
        found = await self._call("get_messages")
        problem = f"of {_CONCURRENT} messages added at once {len(found)} are kept" if len(found) != _CONCURRENT else ""
        self._examiner.check("context.concurrent", problem, "Hold a lock while messages are added")

    async def check_compaction(self) -> None:
        history, recorder = _build_history(), EventRecorder()
        names = (events.CONTEXT_PRE_COMPACT, events.CONTEXT_POST_COMPACT)
        with ExitStack() as stack:
            for name in names:
                stack.callback(self._hooks.register(name, recorder))
            view = await self._get_view(history)
            after = await self._get("get_messages")
        found = f"a request within {BUDGET} tokens got {len(view)} of {len(history)} messages of 100 tokens each"
        advice = "Leave out or summarize older messages, until the rest fits the budget"
        self._compacts = self._examiner.check("context.compacts", found if len(view) >= len(history) else "", advice)
        if self._compacts:
            self._check_compacted(view, after, history)
            await self._check_pairs(view)
            missing = [name for name in names if not recorder.get_events(name)]
            problem = f"{' and '.join(missing)} did not come" if missing else ""
            self._examiner.check("context.events", problem, "Emit both through the coordinator's hooks")

    def _check_compacted(self, view: Messages, after: Messages, history: Messages) -> None:
        examiner, total = self._examiner, len(history)
        if not _is_ordered([message for message in view if message in history], history):
            problem = "compacted messages are in another order"
            examiner.report_failed("context.order", problem, "Return messages in the order in which they came")
        problem = "" if after == history else f"of {total} messages get_messages() has {len(after)} after compacting"
        examiner.check("context.keeps", problem, "Compact a copy: the history stays complete")
        problem = "" if history[0] in view else "the system message was left out"
        examiner.check("context.system", problem, "Keep messages with the role `system`")

    async def _check_pairs(self, view: Messages) -> None:
        """Check histories of several lengths and numbers of calls, because each is compacted at another message."""
        problem = _describe_unpaired(view)
        for calls in (1, 2):
            for more in range(calls + 3):  # the messages of a turn
                if not problem:
                    problem = _describe_unpaired(await self._get_view(_build_history(calls, more)))
        self._examiner.check("context.pairs", problem, "Keep a call and its result together, or leave both out")

    async def check_tokens(self) -> None:
        if not self._compacts:
            self._examiner.report_skipped("context.tokens", "it does not compact")
            return
        history = [
            {"role": "user", "content": f"message {number} " + "word " * 800} for number in range(_LONG_MESSAGES)
        ]
        view = await self._get_view(history)
        problem = ""
        if len(view) >= len(history):
            problem = f"a request within {BUDGET} tokens got all {_LONG_MESSAGES} messages of 1000 tokens each"
        self._examiner.check("context.tokens", problem, "Count tokens, about four characters each")

    async def _get_view(self, history: Messages) -> Messages:
        """What a request gets by its budget, or else by its provider."""
        await self._replace_messages(history)
        view = await self._get("get_messages_for_request", token_budget=BUDGET)
        return view if len(view) < len(history) else await self._get("get_messages_for_request", provider=_SmallModel())

    async def _replace_messages(self, messages: Messages) -> None:
        await self._call("clear")
        for message in messages:
            await self._call("add_message", deepcopy(message))

    async def _get(self, name: str, **named: Any) -> Messages:
        """Messages with the fields of the contract only, because a context may add others."""
        fields = ("role", "content", "tool_calls", "tool_call_id")
        found = await self._call(name, **named)
        return [{key: message[key] for key in fields if key in message} for message in found]

    async def _call(self, name: str, *args: Any, **named: Any) -> Any:
        """The result of a method. Raises ContextError."""
        function = getattr(self._context, name, None)
        if function is None:
            raise ContextError(f"there is no `{name}`")
        outcome = await self._examiner.call(function, *args, **named)
        if outcome.problem:
            raise ContextError(f"`{name}`: {outcome.problem}")
        if name.startswith("get") and not isinstance(outcome.result, list):
            raise ContextError(f"`{name}` returned a {type(outcome.result).__name__}")
        return outcome.result


def _build_history(calls: int = 1, more: int = 0) -> Messages:
    """Return a conversation with these numbers of calls in its turns, and `more` messages of the user at the end."""
    history: Messages = [{"role": "system", "content": "You are a sample. " * 20}]
    for turn in range(_TURNS):
        ids = [f"call_{turn}" if number == 0 else f"call_{turn}_{number}" for number in range(calls)]
        history += [
            {"role": "user", "content": f"question {turn} " + "word " * 80},
            {"role": "assistant", "content": None, "tool_calls": [_build_call(call_id) for call_id in ids]},
            *(
                {"role": "tool", "tool_call_id": call_id, "content": f"result {turn} " + "word " * 80}
                for call_id in ids
            ),
            {"role": "assistant", "content": f"answer {turn} " + "word " * 80},
        ]
    return [*history, *({"role": "user", "content": f"addition {number} " + "word " * 80} for number in range(more))]


def _build_call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "sample", "arguments": "{}"}}


def _describe_unpaired(view: Messages) -> str:
    calls = {call.get("id") for message in view for call in message.get("tool_calls") or ()}
    results = {message.get("tool_call_id") for message in view if message.get("role") == "tool"}
    if results - calls:
        return f"results without their calls: {', '.join(sorted(map(str, results - calls))[:3])}"
    if calls - results:
        return f"calls without their results: {', '.join(sorted(map(str, calls - results))[:3])}"
    return ""


def _is_ordered(found: Messages, history: Messages) -> bool:
    places = [history.index(message) for message in found if message in history]
    return places == sorted(places)


def _sort(messages: Messages) -> list[str]:
    return sorted(map(repr, messages))
