"""The Provider contract, as far as it can be seen without a model: nothing here calls one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge.amplifier.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall
from mcp_bridge.amplifier.validation.bench import Bench, Config
from mcp_bridge.amplifier.validation.examiner import Examiner, Step, method

_METHODS: tuple[tuple[str, tuple[Any, ...], bool], ...] = (
    ("get_info", (), False),
    ("list_models", (), True),
    ("complete", (ChatRequest(messages=[]),), True),
    ("parse_tool_calls", (ChatResponse(content=[]),), False),
)
"""The methods, what they are called with, and whether they are awaited."""


def steps(examiner: Examiner, bench: Bench, config: Config, cleanups: int) -> list[Step]:
    """Every check of every provider; `cleanups` is how many there are."""
    made: list[Step] = []
    for name, provider in bench.modules("provider").items():
        one = _Provider(examiner, name, provider)
        made += [
            Step(item="provider.protocol", run=one.protocol, subject=name),
            Step(item="provider.info", run=one.info, subject=name),
            Step(item="provider.calls", run=one.calls, subject=name),
        ]

    async def mounted() -> None:
        debugs = any("debug" in key.lower() for key in config.read) or "*" in config.read
        advice = "Read a key such as `debug` from the configuration"
        examiner.check("provider.debug", "" if debugs else "no key with 'debug' in it was read", advice)
        advice = "Let `mount` answer with a cleanup that closes the client, or register one"
        examiner.check("provider.cleanup", "" if cleanups else "it has none", advice)

    return [*made, Step(item="provider.debug", run=mounted)]


class _Provider:
    """One provider, as it is examined."""

    def __init__(self, examiner: Examiner, name: str, provider: Any) -> None:
        self._examiner = examiner
        self._name = name
        self._provider = provider

    async def protocol(self) -> None:
        """Name and methods."""
        wrong = [method(self._provider, name, *args, must_wait=waits) for name, args, waits in _METHODS]
        name = getattr(self._provider, "name", None)
        if not isinstance(name, str) or not name:
            wrong.insert(0, f"`name` is {name!r}")
        told = "; ".join(filter(None, wrong))
        self._examiner.check("provider.protocol", self._told(told), "See mcp_bridge.amplifier.Provider")

    async def info(self) -> None:
        """What it says about itself."""
        if not callable(getattr(self._provider, "get_info", None)):
            self._examiner.skipped("provider.info", "there is no `get_info`")
            return
        outcome = await self._examiner.call(self._provider.get_info)
        missing = [name for name in ("id", "display_name") if not _has(outcome.answer, name)]
        wrong = outcome.wrong or (f"`get_info()` has no {' and no '.join(missing)}" if missing else "")
        self._examiner.check("provider.info", self._told(wrong), "Answer with ProviderInfo(id=..., display_name=...)")

    async def calls(self) -> None:
        """Whether it finds the calls that a response has."""
        if not callable(getattr(self._provider, "parse_tool_calls", None)):
            self._examiner.skipped("provider.calls", "there is no `parse_tool_calls`")
            return
        asked = ToolCall(id="call_1", name="sample", arguments={"text": "sample"})
        wrong = ""
        for expected in ([], [asked]):
            response = ChatResponse(content=[TextBlock(text="sample")], tool_calls=expected or None)
            outcome = await self._examiner.call(self._provider.parse_tool_calls, response)
            found = outcome.answer if isinstance(outcome.answer, list | tuple) else None
            wrong = wrong or outcome.wrong or _differs(found, outcome.answer, expected)
        advice = "Answer with a list of ToolCall, those of `response.tool_calls`"
        self._examiner.check("provider.calls", self._told(wrong), advice)

    def _told(self, wrong: str) -> str:
        return f"'{self._name}': {wrong}" if wrong else ""


def _differs(found: Any, answer: Any, expected: list[ToolCall]) -> str:
    if found is None:
        return f"`parse_tool_calls` answered with a {type(answer).__name__}"
    seen = [tuple(getattr(call, name, None) for name in ("id", "name", "arguments")) for call in found]
    if seen != [(call.id, call.name, call.arguments) for call in expected]:
        return f"of {len(expected)} calls `parse_tool_calls` found {seen}"
    return ""


def _has(info: Any, name: str) -> bool:
    return bool(info.get(name) if isinstance(info, Mapping) else getattr(info, name, None))
