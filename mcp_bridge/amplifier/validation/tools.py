"""The Tool contract: what a mounted tool says about itself, and what it does when it is called."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

from mcp_bridge.amplifier.results import to_result
from mcp_bridge.amplifier.validation.bench import Bench
from mcp_bridge.amplifier.validation.examiner import Examiner, Outcome, Step, method
from mcp_bridge.amplifier.validation.samples import Judge, odd, sample
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.runtime.third_party import described, settled

_ANYTHING: dict[str, Any] = {"type": "object"}


def steps(examiner: Examiner, bench: Bench) -> list[Step]:
    """Every check of every tool."""
    return [step for key, tool in bench.modules("tool").items() for step in _Tool(examiner, key, tool).steps()]


class _Tool:
    """One tool, as it is examined."""

    def __init__(self, examiner: Examiner, key: str, tool: Any) -> None:
        self._examiner = examiner
        self._key = key
        self._tool = tool
        self._schema: Mapping[str, Any] = _ANYTHING
        self._judge: Judge | None = None

    def steps(self) -> list[Step]:
        calling: dict[str, Any] = {"slow": "tool.time", "subject": self._key, "group": f"tool.execute:{self._key}"}
        looks = [
            Step(item="tool.name", run=self._protocol, subject=self._key),
            Step(item="tool.schema_valid", run=self._read_schema, subject=self._key),
        ]
        if not callable(getattr(self._tool, "execute", None)):
            return looks
        return [
            *looks,
            Step(item="tool.errors", run=self._calls, **calling),
            Step(item="tool.cancel", run=self._cancels, subject=self._key, group=calling["group"]),
        ]

    async def _protocol(self) -> None:
        examiner, tool = self._examiner, self._tool
        for name in ("name", "description"):
            found = getattr(tool, name, None)
            wrong = "" if isinstance(found, str) and found.strip() else f"`{name}` of '{self._key}' is {found!r}"
            examiner.check(f"tool.{name}", wrong, f"Give it a `{name}`, as a class attribute or a property")
        wrong = method(tool, "execute", {})
        examiner.check("tool.execute", self._told(wrong), "Write `async def execute(self, input)`")

    async def _read_schema(self) -> None:
        examiner, tool = self._examiner, self._tool
        found = getattr(tool, "input_schema", None)
        if found is None and callable(getattr(tool, "get_schema", None)):
            found = tool.get_schema()
        if not found:
            examiner.failed("tool.schema", f"'{self._key}' has none", "Give it `input_schema`, or `get_schema()`")
            examiner.skipped("tool.schema_valid", "it has no schema")
            return
        examiner.passed("tool.schema")
        try:
            if not isinstance(found, Mapping):
                raise ValueError(f"it is a {type(found).__name__}")  # noqa: TRY004 - told like the others
            self._judge = Judge(found)
            self._schema = found
            examiner.passed("tool.schema_valid")
        except ValueError as error:
            examiner.failed("tool.schema_valid", self._told(str(error)), "Write JSON Schema 2020-12, of type object")

    async def _calls(self) -> None:
        """Calls with arguments that fit, and with odd ones; nothing more after one that is too slow."""
        examiner, before = self._examiner, self._examiner.logged.count
        fitting = sample(self._schema)
        for arguments in (fitting, *odd(self._schema)):
            if not await self._call(arguments):
                return
        for item in ("tool.result", "tool.errors", "tool.time", "tool.input"):
            examiner.passed(item)
        if self._judge is None or all(map(self._judge.fits, odd(self._schema))):
            examiner.skipped("tool.validates", f"whatever '{self._key}' is given fits its schema")
        else:
            examiner.passed("tool.validates")
        wrong = "" if examiner.logged.count > before else f"'{self._key}' logged nothing, at any level"
        examiner.check(
            "tool.logs", wrong, "Log what it does with logging.getLogger(__name__), at the level it deserves"
        )

    async def _call(self, arguments: dict[str, Any]) -> bool:
        """One call; whether it came to an end."""
        examiner, given = self._examiner, deepcopy(arguments)
        outcome = await examiner.call(self._tool.execute, given)
        where = f"'{self._key}' with {_shown(arguments)}"
        if outcome.slow:
            examiner.failed(
                "tool.time", f"{where} did not answer in time", "Answer sooner, or allow more with --timeout"
            )
            return False
        if outcome.error is not None:
            advice = "Catch what it raises, and answer with success=False and what went wrong"
            examiner.failed("tool.errors", f"{where} raised {outcome.wrong}", advice)
        else:
            self._read(outcome, arguments, where)
        if given != arguments:
            examiner.failed("tool.input", f"{where} has changed them to {_shown(given)}", "Work on a copy of the input")
        return True

    def _read(self, outcome: Outcome, arguments: dict[str, Any], where: str) -> None:
        try:
            result = to_result(outcome.answer)
        except Exception as error:  # a stranger's object
            result = described(error)
        if not isinstance(result, ToolResult):
            found = f"{where} answered with a {type(outcome.answer).__name__}"
            self._examiner.failed("tool.result", found, "Answer with ToolResult(success=..., output=..., error=...)")
        elif result.success and self._judge is not None and not self._judge.fits(arguments):
            advice = "Look at the arguments first, and answer with success=False where they do not fit"
            self._examiner.failed("tool.validates", f"{where}, which do not fit its schema, succeeded", advice)

    async def _cancels(self) -> None:
        """A call that is cancelled as soon as it waits for anything."""
        wrong = await cancelled(self._examiner, self._tool.execute, sample(self._schema))
        advice = "Let asyncio.CancelledError pass: catch Exception, and clean up in `finally`"
        self._examiner.check("tool.cancel", self._told(wrong), advice)

    def _told(self, wrong: str) -> str:
        return f"'{self._key}': {wrong}" if wrong else ""


async def cancelled(examiner: Examiner, function: Any, arguments: dict[str, Any]) -> str:
    """What is wrong with how an async function stops when it is cancelled; nothing where it stops.

    The task is cancelled by asyncio itself, once, as `asyncio.timeout` and the loops of strangers do it.
    """

    async def call() -> Any:
        return await settled(function(arguments))

    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    if task.done():
        with suppress(BaseException):  # what it raises is another item's
            task.result()
        return ""
    examiner.alive()
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=examiner.patience)
    if not ended:
        return "it went on after it was cancelled"
    if task.cancelled():
        return ""
    error = task.exception()
    return f"it was cancelled and raised {described(error)}" if error is not None else "it was cancelled and answered"


def _shown(arguments: dict[str, Any]) -> str:
    text = repr(arguments)
    return text if len(text) <= 80 else f"{text[:80]}…"
