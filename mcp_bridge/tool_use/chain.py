"""ToolChain: runs tools in order, each with input from the results of earlier ones (tool_use API, "ToolChain")."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import ToolError, ToolNotFound
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.contracts.tool_use_results import Result, ValidationResult
from mcp_bridge.registry.registry import ToolRegistry


@dataclass
class ChainStep:
    """One step of a chain. `input_mapping` maps input keys of the tool to context keys, which may be dotted paths."""

    tool_name: str
    input_mapping: dict[str, str] = field(default_factory=dict)
    output_key: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return this step as a dictionary."""
        return asdict(self)

    def build_input(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Return this step's input: the mapped values or, without a mapping, a shallow copy of the whole context."""
        if not self.input_mapping:
            return dict(context)
        return {target: resolve_path(context, source) for target, source in self.input_mapping.items()}

    def store_output(self, data: Any, context: dict[str, Any]) -> None:
        """Store this step's output in the context: under its key, else merged if it is a dict."""
        if self.output_key:
            context[self.output_key] = data
        elif isinstance(data, dict):
            context.update(data)


@dataclass
class ChainResult:
    """The result of a chain. `duration_ms` is the wall-clock time of all steps in milliseconds."""

    success: bool = True
    context: dict[str, Any] = field(default_factory=dict)
    step_results: list[Result] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    duration_ms: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return this result, including those of its steps, as a dictionary."""
        return {
            "success": self.success,
            "context": dict(self.context),
            "step_results": [result.to_dict() for result in self.step_results],
            "errors": list(self.errors),
            "duration_ms": round(self.duration_ms, 3),
        }


class ToolChain:
    """A sequence of tools of one registry. `execute` runs it, `as_tool` turns it into a tool."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._steps: list[ChainStep] = []

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return f"ToolChain(steps={[step.tool_name for step in self._steps]})"

    @property
    def steps(self) -> list[ChainStep]:
        """A copy of the steps."""
        return list(self._steps)

    def add_step(self, step: ChainStep) -> ToolChain:
        """Append a step. Returns the chain, so that calls can be chained."""
        self._steps.append(step)
        return self

    def clear(self) -> None:
        """Remove all steps."""
        self._steps.clear()

    def validate(self) -> ValidationResult:
        """Check that there are steps, and that each names a tool of the registry."""
        errors = [] if self._steps else ["Chain has no steps."]
        for index, step in enumerate(self._steps):
            if not step.tool_name:
                errors.append(f"Step {index}: tool_name is empty.")
            elif step.tool_name not in self._registry:
                errors.append(f"Step {index}: tool '{step.tool_name}' not found in registry.")
        return ValidationResult(not errors, errors)

    def execute(
        self,
        initial_input: dict[str, Any] | None = None,
        *,
        stop_on_failure: bool = True,
        validate_tools: bool = True,
    ) -> ChainResult:
        """Run all steps in order. Failures are in the result; only a BaseException of a handler is raised."""
        started = time.monotonic()
        result = ChainResult(context=dict(initial_input or {}))
        checked = self.validate() if validate_tools else ValidationResult()
        if not checked.valid:
            result.success, result.errors = False, checked.errors
        else:
            self._run_steps(result, stop_on_failure=stop_on_failure)
        result.duration_ms = (time.monotonic() - started) * 1000
        return result

    def _run_steps(self, result: ChainResult, *, stop_on_failure: bool) -> None:
        for index, step in enumerate(self._steps):
            step_result = self._registry.invoke(step.tool_name, step.build_input(result.context))
            result.step_results.append(step_result)
            if step_result.ok:
                step.store_output(step_result.data, result.context)
                continue
            result.success = False
            result.errors += [*step_result.errors, f"Step {index} ('{step.tool_name}') failed: {step_result.message}"]
            if stop_on_failure:
                return

    def as_tool(
        self,
        name: str,
        description: str = "",
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        tags: list[str] | None = None,
    ) -> ToolEntry:
        """Return the chain as a tool. Its input is the initial context, its output the final one.

        Each step is a call of its own under the policy of the call that runs the chain. The first failure ends the
        chain, with an error that names the step.
        """
        text = description or f"Runs in order: {', '.join(step.tool_name for step in self._steps)}."
        return ToolEntry(name, text, self._run_as_tool, input_schema or {}, output_schema or {}, list(tags or ()))

    async def _run_as_tool(self, data: Any, ctx: CallContext) -> dict[str, Any]:
        checked = self.validate()
        if not checked.valid:
            raise ToolError("The chain cannot run.", code="chain_invalid", details=checked.errors)
        context = dict(data or {})
        for index, step in enumerate(self._steps):
            await ctx.progress(index, len(self._steps), step.tool_name)
            await self._run_step(index, step, context, ctx)
        return context

    async def _run_step(self, index: int, step: ChainStep, context: dict[str, Any], ctx: CallContext) -> None:
        place = f"Step {index} ('{step.tool_name}') failed"
        try:
            result = await self._registry.dispatch(ctx.create_call(step.tool_name, step.build_input(context)), ctx)
        except ToolNotFound as error:  # unregistered since the chain was validated
            raise ToolError(f"{place}: {error.message}", code=str(error.code)) from error
        if result.is_error:
            raise ToolError(f"{place}: {result.error_text}", code=result.code)
        step.store_output(result.output, context)


def resolve_path(context: Any, path: str) -> Any:
    """Return the value at a dotted path, or None. A key that itself contains dots takes precedence."""
    if not isinstance(context, Mapping):
        return None
    if path in context:
        return context[path]
    head, dot, tail = path.partition(".")
    return resolve_path(context[head], tail) if dot and head in context else None
