"""Checks of the Hook contract: how handlers are registered, and what they return for events."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.hook_decisions import parse_hook_result
from mcp_bridge._integrations.amplifier.hooks import Registration
from mcp_bridge._integrations.amplifier.validation.examiner import CallOutcome, Examiner, Step, describe_mismatch
from mcp_bridge._integrations.amplifier.validation.mounting import ModuleUnderTest
from mcp_bridge._integrations.amplifier.validation.tools import LONG_TEXT
from mcp_bridge._runtime.third_party import describe_error

_RESULT = {"success": True, "output": "sample", "error": None}
_INPUTS: tuple[dict[str, Any], ...] = (
    {"text": "sample"},
    {"command": "echo sample"},
    {"command": "rm -rf /"},
    {"file_path": "/etc/passwd", "content": "sample"},
    {},
)
"""Arguments of tool calls that hooks decide about. The calls are not made."""
_ODD_DATA: tuple[dict[str, Any], ...] = (
    {"tool_name": "", "tool_input": {}},
    {"tool_name": LONG_TEXT, "tool_input": {"text": None, "command": None, "file_path": None}},
    {
        "tool_name": "sample",
        "tool_input": {"text": 1, "command": ["ls"], "file_path": {"a": 1}, "an_unknown_key": True},
    },
)
_EVENTS: dict[str, dict[str, Any]] = {
    events.SESSION_START: {"config": {}},
    events.SESSION_END: {"stats": {}},
    events.PROMPT_SUBMIT: {"prompt": "sample"},
    events.TOOL_ERROR: {"error": {"message": "sample", "type": "ValueError"}},
    events.TOOL_POST: {"result": _RESULT, "tool_result": _RESULT, "tool_response": _RESULT},
    events.PROVIDER_REQUEST: {"provider": "sample", "model": "sample", "messages": []},
    events.PROVIDER_RESPONSE: {"provider": "sample", "model": "sample", "response": {}, "usage": {}},
}
_COMMON_FIELDS = {"session_id": "test-session", "parent_id": None, "timestamp": "2020-02-29T12:00:00+00:00"}


def build_hook_steps(examiner: Examiner, mounted: ModuleUnderTest) -> list[Step]:
    slow: set[int] = set()
    checks = [_HandlerCheck(examiner, event, one, slow) for event, one in mounted.coordinator.list_registrations()]

    async def check_registrations() -> None:
        _check_registrations(examiner, mounted, checks)

    steps = [Step(item="hook.handler", run=check_registrations)]
    for check in checks:
        options: dict[str, Any] = {"subject": check.name, "slow": "hook.time", "group": f"hook:{check.handler_name}"}
        steps.append(Step(item="hook.result", run=check.check_result, **options))
        steps.append(Step(item="hook.errors", run=check.check_odd_data, **options))
    return steps


def _check_registrations(examiner: Examiner, mounted: ModuleUnderTest, checks: Sequence[_HandlerCheck]) -> None:
    problem = next((text for check in checks if (text := check.describe_signature_problem())), "")
    examiner.check("hook.handler", problem, "Write `async def handler(event, data)`")
    odd = [f"{check.label} has {check.priority}" for check in checks if not 10 <= check.priority <= 90]
    advice = "Pass register(..., priority=...) between 10 and 90: lower is earlier, and leaves room on both sides"
    examiner.check("hook.priority", ", ".join(odd), advice)
    advice = "Log it with logging.getLogger(__name__).debug"
    examiner.check("hook.logs", "" if mounted.logged else "nothing was logged while it was mounted", advice)
    problem = "" if mounted.config.read else "no key of its configuration was read"
    examiner.check("hook.config", problem, "Make the events, or what it does about them, configurable")
    near = [f"'{check.event}', did you mean '{match}'?" for check in checks if (match := _find_similar(check.event))]
    examiner.check("hook.events", ", ".join(near), "Use the names of mcp_bridge._integrations.amplifier.events")


def _find_similar(event: str) -> str:
    if event in events.ALL_EVENTS:
        return ""
    return next(iter(difflib.get_close_matches(event, events.ALL_EVENTS, n=1, cutoff=0.85)), "")


class _HandlerCheck:
    """Checks one handler of one event. `slow` are the ids of handlers that timed out, and are not called again."""

    def __init__(self, examiner: Examiner, event: str, registration: Registration, slow: set[int]) -> None:
        self._examiner = examiner
        self._handler = registration.handler
        self._slow = slow
        self.event = event
        self.handler_name, self.priority = registration.name, registration.priority
        self.label = f"'{registration.name}' on {event}"
        self.name = f"{registration.name} on {event}"

    def describe_signature_problem(self) -> str:
        if not is_async(self._handler):
            return f"{self.label} is no `async def`"
        mismatch = describe_mismatch(self._handler, self.event, {})
        return f"{self.label}: {mismatch}" if mismatch else ""

    async def check_result(self) -> None:
        data = _EVENTS.get(self.event, {})
        cases = [data]
        if self.event.startswith("tool:"):
            cases = [{"tool_name": "sample", "tool_input": each, "tool_call_id": "1", **data} for each in _INPUTS]
        if all([await self._call(case) for case in cases]):
            for item in ("hook.result", "hook.time", "hook.data"):
                self._examiner.report_passed(item)

    async def check_odd_data(self) -> None:
        cases = [{**_EVENTS.get(self.event, {}), **odd} for odd in _ODD_DATA]
        if all([await self._call(case) for case in cases]):
            self._examiner.report_passed("hook.errors")

    async def _call(self, case: dict[str, Any]) -> bool:
        """Call the handler once. Return whether it ended in time."""
        if id(self._handler) in self._slow:
            return False
        examiner, data = self._examiner, {**_COMMON_FIELDS, **deepcopy(case)}
        before = deepcopy(data)
        outcome = await examiner.call(self._handler, self.event, data)
        if outcome.is_slow:
            self._slow.add(id(self._handler))
            advice = "Decide sooner, or allow more with --timeout: a hook that takes too long denies"
            examiner.report_failed("hook.time", f"'{self.name}' did not decide in time", advice)
            return False
        if outcome.error is not None:
            advice = "Catch what it raises, and return HookResult(action=...)"
            examiner.report_failed("hook.errors", f"'{self.name}' raised {outcome.problem}, given {case!r}", advice)
        else:
            self._check_decision(outcome)
        if data != before:
            advice = "Work on a copy, and return HookResult(action='modify', data=...)"
            examiner.report_failed("hook.data", f"'{self.name}' has changed its data in place", advice)
        return True

    def _check_decision(self, outcome: CallOutcome) -> None:
        advice = "Return HookResult(action='continue') on every path that decides nothing"
        problem = "None" if outcome.result is None else ""
        try:
            parse_hook_result(outcome.result)
        except Exception as error:  # a property of third-party code may raise anything
            problem = f"what is no decision: {describe_error(error)}"
        if problem:
            self._examiner.report_failed("hook.result", f"'{self.name}' returned {problem}", advice)
