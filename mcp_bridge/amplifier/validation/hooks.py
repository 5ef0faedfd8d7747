"""The Hook contract: how handlers are registered, and what they answer to events."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from mcp_bridge.amplifier import events
from mcp_bridge.amplifier.decisions import as_result
from mcp_bridge.amplifier.validation.bench import Bench, Config, Registered
from mcp_bridge.amplifier.validation.examiner import Examiner, Outcome, Step, is_async, misfit
from mcp_bridge.amplifier.validation.samples import LONG
from mcp_bridge.runtime.third_party import described

_RESULT = {"success": True, "output": "sample", "error": None}
_INPUTS: tuple[dict[str, Any], ...] = (
    {"text": "sample"},
    {"command": "echo sample"},
    {"command": "rm -rf /"},
    {"file_path": "/etc/passwd", "content": "sample"},
    {},
)
"""What tools are called with, for the hooks of those calls: nothing of it is done."""
_ODD: tuple[dict[str, Any], ...] = (
    {"tool_name": "", "tool_input": {}},
    {"tool_name": LONG, "tool_input": {"text": None, "command": None, "file_path": None}},
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
_USUAL = {"session_id": "test-session", "parent_id": None, "timestamp": "2020-02-29T12:00:00+00:00"}


def steps(examiner: Examiner, bench: Bench, config: Config, logged: int) -> list[Step]:
    """Every check of every handler; `logged` is how much was logged when it was mounted."""

    async def registers() -> None:
        _registers(examiner, bench.watched.made, config, logged)

    found = [Step(item="hook.handler", run=registers)]
    slow: set[int] = set()
    for one in bench.watched.made:
        handler = _Handler(examiner, one, slow)
        place: dict[str, Any] = {"subject": handler.name, "slow": "hook.time", "group": f"hook:{one.name}"}
        found.append(Step(item="hook.result", run=handler.decides, **place))
        found.append(Step(item="hook.errors", run=handler.survives, **place))
    return found


def _registers(examiner: Examiner, made: Sequence[Registered], config: Config, logged: int) -> None:
    wrong = next((told for one in made if (told := _misshapen(one))), "")
    examiner.check("hook.handler", wrong, "Write `async def handler(event, data)`")
    odd = [f"'{one.name}' on {one.event} has {one.priority}" for one in made if not 10 <= one.priority <= 90]
    advice = "Give register(..., priority=...) between 10 and 90: lower is earlier, and there is room on both sides"
    examiner.check("hook.priority", ", ".join(odd), advice)
    advice = "Log it with logging.getLogger(__name__).debug"
    examiner.check("hook.logs", "" if logged else "nothing was logged while it was mounted", advice)
    examiner.check(
        "hook.config",
        "" if config.read else "no key of its configuration was read",
        "Let the configuration say which events it hears, or what it does",
    )
    near = [f"'{one.event}', did you mean '{match}'?" for one in made if (match := _near(one.event))]
    examiner.check("hook.events", ", ".join(near), "Use the names of mcp_bridge.amplifier.events")


def _misshapen(one: Registered) -> str:
    if not is_async(one.handler):
        return f"'{one.name}' on {one.event} is no `async def`"
    wrong = misfit(one.handler, one.event, {})
    return f"'{one.name}' on {one.event}: {wrong}" if wrong else ""


def _near(event: str) -> str:
    if event in events.ALL_EVENTS:
        return ""
    return next(iter(difflib.get_close_matches(event, events.ALL_EVENTS, n=1, cutoff=0.85)), "")


class _Handler:
    """One handler of one event, as it is examined; `slow` are those that nobody waits for any more."""

    def __init__(self, examiner: Examiner, one: Registered, slow: set[int]) -> None:
        self._examiner = examiner
        self._one = one
        self._slow = slow
        self.name = f"{one.name} on {one.event}"

    async def decides(self) -> None:
        """What it answers to the event as it comes."""
        given = _EVENTS.get(self._one.event, {})
        if self._one.event.startswith("tool:"):
            cases = [{"tool_name": "sample", "tool_input": made, "tool_call_id": "1", **given} for made in _INPUTS]
        else:
            cases = [given]
        if all([await self._decide(case) for case in cases]):
            for item in ("hook.result", "hook.time", "hook.data"):
                self._examiner.passed(item)

    async def survives(self) -> None:
        """What it does with values that nobody expects, under the names that the event has."""
        cases = [{**_EVENTS.get(self._one.event, {}), **odd} for odd in _ODD]
        if all([await self._decide(case) for case in cases]):
            self._examiner.passed("hook.errors")

    async def _decide(self, case: dict[str, Any]) -> bool:
        """One event; whether the handler came to an end, well or not."""
        if id(self._one.handler) in self._slow:
            return False
        examiner, data = self._examiner, {**_USUAL, **deepcopy(case)}
        before = deepcopy(data)
        outcome = await examiner.call(self._one.handler, self._one.event, data)
        if outcome.slow:
            self._slow.add(id(self._one.handler))
            advice = "Decide sooner, or allow more with --timeout: a hook that takes too long denies"
            examiner.failed("hook.time", f"'{self.name}' did not decide in time", advice)
            return False
        if outcome.error is not None:
            advice = "Catch what it raises, and answer with HookResult(action=...)"
            examiner.failed("hook.errors", f"'{self.name}' raised {outcome.wrong}, given {case!r}", advice)
        else:
            self._read(outcome)
        if data != before:
            advice = "Work on a copy, and answer with HookResult(action='modify', data=...)"
            examiner.failed("hook.data", f"'{self.name}' has changed its data in place", advice)
        return True

    def _read(self, outcome: Outcome) -> None:
        advice = "Answer with HookResult(action='continue') on every path that decides nothing"
        wrong = "with None" if outcome.answer is None else ""
        try:
            as_result(outcome.answer)
        except Exception as error:  # a stranger's object
            wrong = f"with what is no decision: {described(error)}"
        if wrong:
            self._examiner.failed("hook.result", f"'{self.name}' answered {wrong}", advice)
