"""A chain as the handler of a tool. Each step is a nested call, under the policy of the call of the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from mcp_bridge._contracts import errors
from mcp_bridge._contracts.content import Text
from mcp_bridge._contracts.handlers import CheckedHandler, PlannedCall, PlanningHandler, is_async
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._engine.tool_use.steps import ChainStep, resolve_path
from mcp_bridge._protocol.wire.outcomes import TABLE, to_error_result
from mcp_bridge._protocol.wire.values import as_text
from mcp_bridge._runtime.cancellation import DeadlineClock

_FINAL_CODES = frozenset(
    error.code
    for error in (
        *(errors.ToolNotFound, errors.InvalidArguments, errors.Denied, errors.ApprovalDeclined, errors.MissingScope),
        *(errors.MissingCapability, errors.InvalidAnswer, errors.ResultTooLarge),
    )
)
"""Codes of failures that another attempt of the same call cannot change."""
_FIXABLE_CODES = frozenset(error.code for error in (errors.InvalidArguments, errors.ResultTooLarge, errors.ToolError))
"""Codes of failures that the model may be able to fix with other arguments, like those with a code of the tool."""
_KNOWN_CODES = frozenset(outcome.code for outcome in TABLE)


@dataclass(frozen=True)
class ChainTool(CheckedHandler, PlanningHandler):
    """The handler of a chain. `steps` are those of the chain, also later ones; for the rest see `ToolChain.as_tool`."""

    registry: ToolRegistry
    steps: list[ChainStep] = field(hash=False)
    output: str | tuple[str, ...] | None = field(default=None, kw_only=True)
    stop_on_failure: bool = field(default=True, kw_only=True)
    _clock: DeadlineClock = field(default_factory=DeadlineClock, init=False, repr=False, compare=False)

    async def __call__(self, data: Any, ctx: RunningCall) -> Any:
        """Run all steps, and return the selected part of the context. Raises ToolError if the chain ends early."""
        if problems := self.list_problems():
            message = "This tool is a chain of tools that cannot run. Use other tools, and report this to its author."
            raise errors.ToolError(message, code="chain_invalid", details=problems)
        steps, context = list(self.steps), dict(data or {})
        failures: list[str] = []
        ignored_failures: list[str] = []
        for number, step in enumerate(steps, 1):
            is_interactive = ctx.is_interactive
            await ctx.report_progress(number - 1, len(steps), step.tool_name)
            # The result does not depend on this progress.
            ctx.is_interactive = is_interactive
            result = await self._run_step(step, context, ctx)
            if not result.is_error:
                step.store_output(_read_output(result), context)
                continue
            reason = _describe_failure(step, context, result)
            problem = f"Step {number} of {len(steps)} ('{step.tool_name}') failed: {reason}"
            if step.continue_on_failure:
                ignored_failures.append(problem)
            elif self.stop_on_failure:
                raise errors.ToolError(f"{problem}\n{_advise(steps[: number - 1], result.code)}", code=result.code)
            else:
                failures.append(problem)
        return self._build_result(context, failures, ignored_failures)

    def list_problems(self, outer: tuple[ChainTool, ...] = ()) -> list[str]:
        """List the problems that prevent any run of the chain. `outer` are the chains around this one."""
        problems = [] if self.steps else ["the chain has no steps"]
        for number, step in enumerate(self.steps, 1):
            place = f"step {number} of {len(self.steps)} of the chain"
            entry = self.registry.get(step.tool_name)
            if not step.tool_name:
                problems.append(f"{place} names no tool")
            elif entry is None:
                problems.append(f"{place} calls '{step.tool_name}', which is not a tool of the chain's registry")
            elif isinstance(entry.handler, ChainTool) and entry.handler in (*outer, self):
                problems.append(f"{place} calls '{step.tool_name}', which calls this chain again, without end")
            elif isinstance(entry.handler, ChainTool):
                inner = entry.handler.list_problems((*outer, self))
                problems += [f"{place} calls '{step.tool_name}': {problem}" for problem in inner]
        return problems

    def plan_call(self, data: Any) -> list[PlannedCall]:
        """Return the calls of the steps. A value from a run is a placeholder with the name of its step."""
        context, calls = dict(data or {}), list[PlannedCall]()
        places: dict[str, str] = {}
        merge_place = ""
        for number, step in enumerate(self.steps, 1):
            arguments = step.build_input(context)
            is_whole = step.takes_context
            for target, source in {**{key: key for key in places if is_whole}, **step.input_mapping}.items():
                known = merge_place if resolve_path(context, source) is None else ""
                if origin := places.get(source) or places.get(source.partition(".")[0]) or known:
                    arguments[target] = f"<{source} from {origin}>"
            if is_whole and merge_place:
                arguments[f"<output of {merge_place}>"] = "<all of it>"
            calls.append(PlannedCall(step.tool_name, arguments))
            place = f"step {number}, {step.tool_name}"
            if step.output_key:
                places[step.output_key] = place
            else:
                merge_place = place
        return calls

    async def _run_step(self, step: ChainStep, context: dict[str, Any], ctx: RunningCall) -> ToolResult:
        for wait in step.list_waits():
            if wait:
                await anyio.sleep(wait)
            result = await self._call_tool(step, step.build_input(context), ctx)
            if not result.is_error or result.code in _FINAL_CODES:
                break
        return result

    async def _call_tool(self, step: ChainStep, data: dict[str, Any], ctx: RunningCall) -> ToolResult:
        call = ctx.create_call(step.tool_name, data)
        try:
            if step.timeout is None:
                return await self.registry.dispatch(call, ctx)
            with self._clock.start_deadline(step.timeout, ctx.deadline) as deadline:
                # It pauses while a user is asked.
                ctx.holds.append(deadline)
                try:
                    return await self.registry.dispatch(call, ctx)
                finally:
                    ctx.holds.remove(deadline)
            entry = self.registry.get(step.tool_name)
            is_in_thread = entry is not None and not is_async(entry.handler)
            return to_error_result(errors.ToolTimeout(step.tool_name, step.timeout, is_in_thread=is_in_thread))
        except errors.ToolNotFound as error:
            # The tool was unregistered after the chain was checked.
            return to_error_result(error)

    def _build_result(self, context: dict[str, Any], failures: Sequence[str], ignored_failures: Sequence[str]) -> Any:
        output = self._select_output(context)
        notes = [f"{line}\nThe chain continued without this step." for line in ignored_failures]
        if failures:
            text = "\n".join([*failures, *notes, "All other steps have run and are not undone."])
            return ToolResult(success=False, output=output, error=text, code="chain_failed")
        if not notes:
            return output
        content = [Text(as_text(output)), *map(Text, notes)] if output is not None else [*map(Text, notes)]
        return ToolResult(success=True, output=output, content=content)

    def _select_output(self, context: dict[str, Any]) -> Any:
        if self.output is None:
            return context
        if isinstance(self.output, str):
            return resolve_path(context, self.output)
        return {name: resolve_path(context, name) for name in self.output}


def _read_output(result: ToolResult) -> Any:
    """Return the output of a step: its text if the tool returns only content, as many other MCP servers do."""
    texts = [block.text for block in result.content or () if isinstance(block, Text)]
    return "\n".join(texts) if result.output is None and texts else result.output


def _describe_failure(step: ChainStep, context: dict[str, Any], result: ToolResult) -> str:
    """Return the error of a step's tool. The caller has not written its input, so missing values are named."""
    if result.code != errors.InvalidArguments.code:
        return result.error_text
    advice = errors.InvalidArguments([], tool=step.tool_name).message
    lines = [result.error_text.replace(advice, "its input is not valid.", 1)]
    missing = [repr(source) for source in step.input_mapping.values() if resolve_path(context, source) is None]
    if missing:
        lines.append(f"Neither the arguments nor earlier steps have a value for {', '.join(missing)}.")
    return "\n".join(lines)


def _advise(earlier_steps: Sequence[ChainStep], code: str | None) -> str:
    """Return advice for the model after a failed step: the steps that have run, and its options."""
    can_be_fixed = code in _FIXABLE_CODES or code not in _KNOWN_CODES
    if not earlier_steps:
        return "No other step has run." + (" Fix the problem and retry." if can_be_fixed else "")
    names = ", ".join(repr(step.tool_name) for step in earlier_steps)
    has, is_, them = ("has", "is", "it") if len(earlier_steps) == 1 else ("have", "are", "them")
    advice = f" Retry only if running {them} again is safe." if can_be_fixed or code not in _FINAL_CODES else ""
    return f"{names} {has} already run and {is_} not undone.{advice}"
