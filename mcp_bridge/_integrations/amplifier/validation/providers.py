"""Checks of the Provider contract that need no model: none of them calls one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge._integrations.amplifier.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall
from mcp_bridge._integrations.amplifier.validation.examiner import Examiner, Step, describe_method_problem
from mcp_bridge._integrations.amplifier.validation.mounting import ModuleUnderTest

_METHODS: tuple[tuple[str, tuple[Any, ...], bool], ...] = (
    ("get_info", (), False),
    ("list_models", (), True),
    ("complete", (ChatRequest(messages=[]),), True),
    ("parse_tool_calls", (ChatResponse(content=[]),), False),
)
"""The methods with their arguments, and whether they are awaited."""


def build_provider_steps(examiner: Examiner, mounted: ModuleUnderTest) -> list[Step]:
    steps: list[Step] = []
    has_cleanup = bool(mounted.coordinator.cleanups)
    for name, provider in mounted.coordinator.list_mounted("provider").items():
        check = _ProviderCheck(examiner, name, provider)
        steps += [
            Step(item="provider.protocol", run=check.check_protocol, subject=name),
            Step(item="provider.info", run=check.check_info, subject=name),
            Step(item="provider.calls", run=check.check_tool_calls, subject=name),
        ]

    async def check_mounting() -> None:
        debugs = any("debug" in key.lower() for key in mounted.config.read) or "*" in mounted.config.read
        advice = "Read a key such as `debug` from the configuration"
        examiner.check("provider.debug", "" if debugs else "no key with 'debug' in it was read", advice)
        advice = "Return a cleanup that closes the client from `mount`, or register one"
        examiner.check("provider.cleanup", "" if has_cleanup else "it has none", advice)

    steps.append(Step(item="provider.debug", run=check_mounting))
    return [*steps, Step(item="provider.degrades", run=mounted.check_without_config)]


class _ProviderCheck:
    def __init__(self, examiner: Examiner, name: str, provider: Any) -> None:
        self._examiner = examiner
        self._name = name
        self._provider = provider

    async def check_protocol(self) -> None:
        problems = [
            describe_method_problem(self._provider, name, *args, must_wait=is_awaited)
            for name, args, is_awaited in _METHODS
        ]
        name = getattr(self._provider, "name", None)
        if not isinstance(name, str) or not name:
            problems.insert(0, f"`name` is {name!r}")
        self._check("provider.protocol", "; ".join(filter(None, problems)), "See mcp_bridge.amplifier.Provider")

    async def check_info(self) -> None:
        if not callable(getattr(self._provider, "get_info", None)):
            self._examiner.report_skipped("provider.info", "there is no `get_info`")
            return
        outcome = await self._examiner.call(self._provider.get_info)
        missing = [name for name in ("id", "display_name") if not _has_value(outcome.result, name)]
        problem = outcome.problem or (f"`get_info()` has no {' and no '.join(missing)}" if missing else "")
        self._check("provider.info", problem, "Return ProviderInfo(id=..., display_name=...)")

    async def check_tool_calls(self) -> None:
        if not callable(getattr(self._provider, "parse_tool_calls", None)):
            self._examiner.report_skipped("provider.calls", "there is no `parse_tool_calls`")
            return
        call = ToolCall(id="call_1", name="sample", arguments={"text": "sample"})
        problem = ""
        for expected in ([], [call]):
            response = ChatResponse(content=[TextBlock(text="sample")], tool_calls=expected or None)
            outcome = await self._examiner.call(self._provider.parse_tool_calls, response)
            problem = problem or outcome.problem or _describe_difference(outcome.result, expected)
        self._check("provider.calls", problem, "Return a list of ToolCall, those of `response.tool_calls`")

    def _check(self, item: str, problem: str, advice: str) -> None:
        self._examiner.check(item, f"'{self._name}': {problem}" if problem else "", advice)


def _describe_difference(result: Any, expected: list[ToolCall]) -> str:
    if not isinstance(result, list | tuple):
        return f"`parse_tool_calls` returned a {type(result).__name__}"
    found = [tuple(getattr(call, name, None) for name in ("id", "name", "arguments")) for call in result]
    if found != [(call.id, call.name, call.arguments) for call in expected]:
        return f"of {len(expected)} calls `parse_tool_calls` found {found}"
    return ""


def _has_value(info: Any, name: str) -> bool:
    return bool(info.get(name) if isinstance(info, Mapping) else getattr(info, name, None))
