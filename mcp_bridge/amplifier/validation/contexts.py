"""The Context contract: what is remembered, and what a request gets of it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import anyio

from mcp_bridge.amplifier import events
from mcp_bridge.amplifier.models import ProviderInfo
from mcp_bridge.amplifier.testing import EventRecorder, MockProvider
from mcp_bridge.amplifier.validation.bench import Bench, Config
from mcp_bridge.amplifier.validation.examiner import Examiner, Step, method

Messages = list[dict[str, Any]]
_METHODS: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("add_message", ({},), {}),
    ("get_messages_for_request", (), {"token_budget": None, "provider": None}),
    ("get_messages", (), {}),
    ("set_messages", ([],), {}),
    ("clear", (), {}),
)
BUDGET = 1500
"""Tokens that a request may have; the history has ten times as many."""
_FEW, _MANY, _TURNS = 10, 20, 40


class _Small(MockProvider):
    """A model with a small window."""

    def get_info(self) -> ProviderInfo:
        """A window that leaves the budget, once the answer and the contract's margin are taken off."""
        sizes = {"context_window": BUDGET + 1500, "max_output_tokens": 500}
        return ProviderInfo(id="small", display_name="small", defaults=sizes)


class Misbehaved(Exception):
    """The context did not do what was asked."""


def steps(examiner: Examiner, bench: Bench, config: Config) -> list[Step]:
    """Every check of the context."""
    one = _Context(examiner, bench, config)
    return [
        Step(item="context.protocol", run=one.protocol),
        Step(item="context.stores", run=one.stores),
        Step(item="context.copies", run=one.copies),
        Step(item="context.concurrent", run=one.concurrent),
        Step(item="context.compacts", run=one.compacts),
        Step(item="context.tokens", run=one.tokens),
    ]


class _Context:
    """The context, as it is examined; each step begins with an empty one."""

    def __init__(self, examiner: Examiner, bench: Bench, config: Config) -> None:
        self._examiner = examiner
        self._bench = bench
        self._config = config
        self._context = bench.get("context")
        self._compacts = False

    async def protocol(self) -> None:
        """The five methods, and the configuration."""
        wrong = [method(self._context, name, *args, named=named) for name, args, named in _METHODS]
        told = "; ".join(filter(None, wrong))
        self._examiner.check("context.protocol", told, "See mcp_bridge.amplifier.ContextManager")
        found = "" if self._config.read else "no key of its configuration was read"
        self._examiner.check("context.config", found, "Let the configuration say when it compacts")

    async def stores(self) -> None:
        """Adding, setting, clearing; and the order, where nothing is compacted."""
        given = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        try:
            await self._fill(given)
            added, asked = await self._get("get_messages"), await self._get("get_messages_for_request")
            await self._call("set_messages", deepcopy(given[:1]))
            was_set = await self._get("get_messages")
            await self._call("clear")
            cleared = await self._get("get_messages")
        except Misbehaved as error:
            self._examiner.failed("context.stores", str(error), "Keep messages as they come")
            return
        wrong = next(
            (
                f"after {what} there is {_brief(found)}"
                for what, found, wanted in (
                    ("adding two messages", _sorted(added), _sorted(given)),
                    ("setting one", was_set, given[:1]),
                    ("clearing", cleared, []),
                )
                if found != wanted
            ),
            "",
        )
        self._examiner.check("context.stores", wrong, "Keep messages as they come, and nothing else")
        order = next((_brief(found) for found in (added, asked) if not _in_order(found, given)), "")
        self._examiner.check("context.order", order, "Give messages in the order in which they came")

    async def copies(self) -> None:
        """Whether its lists can be changed by those who get them."""
        try:
            await self._fill([{"role": "user", "content": "one"}])
            for name in ("get_messages", "get_messages_for_request"):
                given = await self._call(name)
                given.clear()
            left = await self._call("get_messages")
        except Misbehaved as error:
            self._examiner.skipped("context.copies", str(error))
            return
        wrong = "" if left else "who clears the list that it gives clears its history"
        self._examiner.check("context.copies", wrong, "Give a copy: list(self._messages)")

    async def concurrent(self) -> None:
        """Messages that are added at once."""
        try:
            await self._fill([])
            async with anyio.create_task_group() as tasks:
                for number in range(_MANY):
                    tasks.start_soon(self._quietly, {"role": "user", "content": f"message {number}"})
            found = await self._call("get_messages")
        except Misbehaved as error:
            self._examiner.failed("context.concurrent", str(error), "Take a lock around what is not done at once")
            return
        wrong = "" if len(found) == _MANY else f"of {_MANY} messages added at once {len(found)} are kept"
        self._examiner.check("context.concurrent", wrong, "Take a lock around what is not done at once")

    async def compacts(self) -> None:
        """A history that is too long for a request."""
        history, recorder = _history(), EventRecorder()
        names = (events.CONTEXT_PRE_COMPACT, events.CONTEXT_POST_COMPACT)
        unregister = [self._bench.hooks.register(name, recorder) for name in names]
        try:
            view = await self._view(history)
            after = await self._get("get_messages")
        except Misbehaved as error:
            self._examiner.failed("context.compacts", str(error), "Compact within get_messages_for_request()")
            return
        finally:
            for each in unregister:
                each()
        found = f"a request within {BUDGET} tokens got {len(view)} of {len(history)} messages of 100 tokens each"
        advice = "Leave out, or sum up, what is older, until the rest fits the budget"
        self._compacts = self._examiner.check("context.compacts", found if len(view) >= len(history) else "", advice)
        if self._compacts:
            self._judge(view, after, history)
            missing = [name for name in names if not recorder.get_events(name)]
            told = f"{' and '.join(missing)} did not come" if missing else ""
            self._examiner.check("context.events", told, "Emit both through the coordinator's hooks")

    def _judge(self, view: Messages, after: Messages, history: Messages) -> None:
        examiner = self._examiner
        kept = [message for message in view if message in history]
        order = "" if _in_order(kept, history) else "compacted messages come in another order"
        if order:
            examiner.failed("context.order", order, "Give messages in the order in which they came")
        lost = (
            "" if after == history else f"of {len(history)} messages get_messages() has {len(after)} after compacting"
        )
        examiner.check("context.keeps", lost, "Compact a copy: the history stays whole")
        examiner.check("context.pairs", _unpaired(view), "Keep a call and its result together, or leave both out")
        system = "" if history[0] in view else "the system message was left out"
        examiner.check("context.system", system, "Keep messages with the role `system`")

    async def tokens(self) -> None:
        """A few messages, each of them long."""
        if not self._compacts:
            self._examiner.skipped("context.tokens", "it does not compact")
            return
        history = [{"role": "user", "content": f"message {number} " + "word " * 800} for number in range(_FEW)]
        try:
            view = await self._view(history)
        except Misbehaved as error:
            self._examiner.skipped("context.tokens", str(error))
            return
        wrong = f"{_FEW} messages of 1000 tokens each were all given to a request within {BUDGET}"
        self._examiner.check(
            "context.tokens", wrong if len(view) >= _FEW else "", "Count tokens, about four characters each"
        )

    async def _view(self, history: Messages) -> Messages:
        """What a request gets, by its budget or by its provider."""
        await self._fill(history)
        view = await self._get("get_messages_for_request", token_budget=BUDGET)
        return view if len(view) < len(history) else await self._get("get_messages_for_request", provider=_Small())

    async def _fill(self, messages: Messages) -> None:
        await self._call("clear")
        for message in messages:
            await self._call("add_message", deepcopy(message))

    async def _quietly(self, message: dict[str, Any]) -> None:
        await self._examiner.call(self._context.add_message, message)

    async def _get(self, name: str, **named: Any) -> Messages:
        """Messages by what the contract says of them: a context may add to each what it likes."""
        known = ("role", "content", "tool_calls", "tool_call_id")
        found = await self._call(name, **named)
        return [{key: message[key] for key in known if key in message} for message in found]

    async def _call(self, name: str, *args: Any, **named: Any) -> Any:
        """What a method answers. Raises Misbehaved."""
        function = getattr(self._context, name, None)
        if function is None:
            raise Misbehaved(f"there is no `{name}`")
        outcome = await self._examiner.call(function, *args, **named)
        if outcome.wrong:
            raise Misbehaved(f"`{name}`: {outcome.wrong}")
        if name.startswith("get") and not isinstance(outcome.answer, list):
            raise Misbehaved(f"`{name}` answered with a {type(outcome.answer).__name__}")
        return outcome.answer


def _history() -> Messages:
    """A long conversation, with calls and their results."""
    made: Messages = [{"role": "system", "content": "You are a sample. " * 20}]
    for turn in range(_TURNS):
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "sample", "arguments": "{}"}}
        made += [
            {"role": "user", "content": f"question {turn} " + "word " * 80},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": f"result {turn} " + "word " * 80},
            {"role": "assistant", "content": f"answer {turn} " + "word " * 80},
        ]
    return made


def _unpaired(view: Messages) -> str:
    calls = {call.get("id") for message in view for call in message.get("tool_calls") or ()}
    results = {message.get("tool_call_id") for message in view if message.get("role") == "tool"}
    if results - calls:
        return f"results without their calls: {', '.join(sorted(map(str, results - calls))[:3])}"
    if calls - results:
        return f"calls without their results: {', '.join(sorted(map(str, calls - results))[:3])}"
    return ""


def _in_order(found: Messages, history: Messages) -> bool:
    places = [history.index(message) for message in found if message in history]
    return places == sorted(places)


def _sorted(messages: Messages) -> list[str]:
    return sorted(map(repr, messages))


def _brief(messages: Any) -> str:
    text = repr(messages)
    return text if len(text) <= 200 else f"{text[:200]}…"
