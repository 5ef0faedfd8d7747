"""The handler of a chain as a tool. Each step is a nested call under the policies of the pipeline.

`ToolChain.as_tool` and the chains in the settings use it. An error names the completed steps for the model, because
their effects stay.
"""

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
from mcp_bridge._protocol.wire.values import to_plain_text
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
    """The handler of a chain.

    `steps` is the list of the `ToolChain` itself, so later steps run too. `ToolChain.as_tool` describes the other
    fields.
    """

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
        steps = list(self.steps)
        context = dict(data or {})
        failures: list[str] = []
        ignored_failures: list[str] = []
        for number, step in enumerate(steps, 1):
            is_interactive = ctx.is_interactive
            await ctx.report_progress(number - 1, len(steps), step.tool_name)
            # A report of progress marks a call as interactive, but the result of a chain does not depend on this one.
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
        """List the problems of every run of the chain. `outer` are the chains around this one."""
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
        """Return the calls of the steps before they run, for `mcp-bridge explain`.

        Outputs are not known yet, so an argument from an earlier step is a placeholder: `<sum from step 1, add>`.
        """
        context = dict(data or {})
        calls: list[PlannedCall] = []
        # The step that will store its output under a key, and the last step that will merge its output.
        origins: dict[str, str] = {}
        merge_origin = ""
        for number, step in enumerate(self.steps, 1):
            arguments = step.build_input(context)
            sources = {key: key for key in origins} if step.takes_context else step.input_mapping
            for target, source in sources.items():
                origin = origins.get(source) or origins.get(source.partition(".")[0])
                # A value that is in no other place can only come from a merged output.
                if not origin and resolve_path(context, source) is None:
                    origin = merge_origin
                if origin:
                    arguments[target] = f"<{source} from {origin}>"
            if step.takes_context and merge_origin:
                arguments[f"<output of {merge_origin}>"] = "<all of it>"
            calls.append(PlannedCall(step.tool_name, arguments))
            origin = f"step {number}, {step.tool_name}"
            if step.output_key:
                origins[step.output_key] = origin
            else:
                merge_origin = origin
        return calls

    async def _run_step(self, step: ChainStep, context: dict[str, Any], ctx: RunningCall) -> ToolResult:
        """Call the tool of a step, and repeat failed calls as the step allows."""
        for wait in step.list_waits():
            if wait:
                await anyio.sleep(wait)
            result = await self._call_tool(step, step.build_input(context), ctx)
            if not result.is_error or result.code in _FINAL_CODES:
                break
        return result

    async def _call_tool(self, step: ChainStep, data: dict[str, Any], ctx: RunningCall) -> ToolResult:
        """Run the nested call of a step. The result reports every problem, including a timeout of the step."""
        call = ctx.create_call(step.tool_name, data)
        try:
            if step.timeout is None:
                return await self.registry.dispatch(call, ctx)
            with self._clock.start_deadline(step.timeout, ctx.deadline) as deadline:
                # The deadline pauses while a user is asked.
                ctx.holds.append(deadline)
                try:
                    return await self.registry.dispatch(call, ctx)
                finally:
                    ctx.holds.remove(deadline)
            # Only the end of the deadline leads here.
            entry = self.registry.get(step.tool_name)
            is_in_thread = entry is not None and not is_async(entry.handler)
            return to_error_result(errors.ToolTimeout(step.tool_name, step.timeout, is_in_thread=is_in_thread))
        except errors.ToolNotFound as error:
            # The tool was unregistered after the chain was checked.
            return to_error_result(error)

    def _build_result(self, context: dict[str, Any], failures: Sequence[str], ignored_failures: Sequence[str]) -> Any:
        """Return the output of the chain, or a ToolResult if steps have failed."""
        output = self._select_output(context)
        notes = [f"{line}\nThe chain continued without this step." for line in ignored_failures]
        if failures:
            text = "\n".join([*failures, *notes, "All other steps have run and are not undone."])
            return ToolResult(success=False, output=output, error=text, code="chain_failed")
        if not notes:
            return output
        texts = notes if output is None else [to_plain_text(output), *notes]
        return ToolResult(success=True, output=output, content=[Text(text) for text in texts])

    def _select_output(self, context: dict[str, Any]) -> Any:
        if self.output is None:
            return context
        if isinstance(self.output, str):
            return resolve_path(context, self.output)
        return {name: resolve_path(context, name) for name in self.output}


def _read_output(result: ToolResult) -> Any:
    """Return the output of a step. If the tool returns only content, as many MCP servers do, it is the text of that."""
    texts = [block.text for block in result.content or () if isinstance(block, Text)]
    if result.output is None and texts:
        return "\n".join(texts)
    return result.output


def _describe_failure(step: ChainStep, context: dict[str, Any], result: ToolResult) -> str:
    """Return the error of a step's tool. For invalid input, name the missing values of the chain."""
    if result.code != errors.InvalidArguments.code:
        return result.error_text
    # The message asks the caller to fix the arguments, but the chain has written them, not its caller.
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
        return "No other step has run. Fix the problem and retry." if can_be_fixed else "No other step has run."
    names = ", ".join(repr(step.tool_name) for step in earlier_steps)
    if len(earlier_steps) == 1:
        text, pronoun = f"{names} has already run and is not undone.", "it"
    else:
        text, pronoun = f"{names} have already run and are not undone.", "them"
    if can_be_fixed or code not in _FINAL_CODES:
        return f"{text} Retry only if running {pronoun} again is safe."
    return text
