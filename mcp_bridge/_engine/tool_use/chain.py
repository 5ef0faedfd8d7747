"""ToolChain runs tools in order, each with input from the results of earlier ones (tool_use API, "ToolChain").

`ToolChain.execute` runs the tools synchronously through `ToolRegistry.invoke`. `ToolChain.as_tool` makes a tool for
clients. Its handler (`chain_tool.py`) runs them through the pipeline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

from mcp_bridge._contracts.tool import Tags, ToolEntry, list_tags
from mcp_bridge._contracts.tool_use_results import Result, ResultStatus, ValidationResult
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._engine.tool_use.steps import ChainResult, ChainStep
from mcp_bridge._engine.tool_use.validation import validate_input


class ToolChain:
    """A sequence of tools of one registry. `execute` runs it, `as_tool` turns it into a tool.

    >>> from mcp_bridge import ToolRegistry
    >>> from mcp_bridge.tool_use import ChainStep, ToolChain
    >>> registry = ToolRegistry()
    >>> @registry.tool
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> chain = ToolChain(registry)
    >>> chain = chain.add_step(ChainStep("add", {"a": "x", "b": "y"}, output_key="sum"))
    >>> chain = chain.add_step(ChainStep("add", {"a": "sum", "b": "sum"}, output_key="twice"))
    >>> chain.execute({"x": 1, "y": 2}).context
    {'x': 1, 'y': 2, 'sum': 3, 'twice': 6}
    """

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
        """Check the steps: there must be one, and each must name a tool of the registry."""
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
        """Run all steps in order. The result contains failures; only a BaseException of a handler is raised.

        A step that exceeds its `timeout` has the status TIMEOUT, and its tool continues to run in an abandoned thread.
        """
        start = time.monotonic()
        result = ChainResult(context=dict(initial_input or {}))
        validation = self.validate() if validate_tools else ValidationResult()
        if not validation.valid:
            result.success, result.errors = False, validation.errors
        else:
            self._run_steps(result, stop_on_failure=stop_on_failure)
        result.duration_ms = (time.monotonic() - start) * 1000
        return result

    def _run_steps(self, result: ChainResult, *, stop_on_failure: bool) -> None:
        for index, step in enumerate(self._steps):
            step_result = self._run_step(step, step.build_input(result.context))
            result.step_results.append(step_result)
            if step_result.ok:
                step.store_output(step_result.data, result.context)
                continue
            result.success = False
            result.errors += [*step_result.errors, f"Step {index} ('{step.tool_name}') failed: {step_result.message}"]
            if stop_on_failure and not step.continue_on_failure:
                return

    def _run_step(self, step: ChainStep, data: dict[str, Any]) -> Result:
        """Call the tool of a step, and repeat failed calls as the step allows."""
        for wait in step.list_waits():
            if wait:
                time.sleep(wait)
            if step.timeout is None:
                result = self._registry.invoke(step.tool_name, data)
            else:
                result = _invoke_in_thread(self._registry, step.tool_name, data, step.timeout)
            # A missing tool or invalid input would fail in the same way again.
            if result.ok or not self._can_run(step, data):
                break
        return result

    def _can_run(self, step: ChainStep, data: dict[str, Any]) -> bool:
        entry = self._registry.get(step.tool_name)
        return entry is not None and validate_input(data, entry.input_schema).valid

    def as_tool(
        self,
        name: str,
        description: str = "",
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        tags: Tags | None = None,
        *,
        output: str | Sequence[str] | None = None,
        stop_on_failure: bool = True,
    ) -> ToolEntry:
        """Return the chain as a tool. Its input is the initial context, its output the final one.

        Each step is a nested call under the policies of the chain's call. Errors name the failed step and the completed
        ones.

        Args:
            name: The tool's name.
            description: By default, the names of the steps.
            input_schema: By default, the inputs that the first step needs from the initial context, and those of later
                steps that no earlier step can produce, with their types where the tools declare them.
            output_schema: The schema of the output.
            tags: Categories for selection.
            output: What the tool returns: a context key or dotted path for that value, several for a dict of these
                values. By default, the whole context.
            stop_on_failure: Whether the first failure ends the chain. Otherwise all steps run, and the error lists
                those that failed, in addition to the output. A step with `continue_on_failure` never makes the tool
                fail; a note in the result says that the step failed.
        """
        # This import takes 4 ms, and few files have chains.
        from mcp_bridge._engine.tool_use.chain_schema import infer_input_schema
        from mcp_bridge._engine.tool_use.chain_tool import ChainTool

        steps = self._steps
        schema = infer_input_schema(self._registry.get, steps) if input_schema is None else input_schema
        text = description or f"Runs in order: {', '.join(step.tool_name for step in steps)}."
        paths = output if output is None or isinstance(output, str) else tuple(output)
        handler = ChainTool(self._registry, steps, output=paths, stop_on_failure=stop_on_failure)
        return ToolEntry(
            name,
            text,
            handler,
            schema,
            output_schema or {},
            list_tags(tags),
        )


def _invoke_in_thread(registry: ToolRegistry, name: str, data: dict[str, Any], seconds: float) -> Result:
    """Call a tool in a thread, and abandon it after `seconds`: Python cannot stop a synchronous function."""
    outcomes: SimpleQueue[Result | BaseException] = SimpleQueue()

    def put_outcome() -> None:
        try:
            outcomes.put(registry.invoke(name, data))
        except BaseException as error:
            outcomes.put(error)

    start = time.monotonic()
    threading.Thread(
        target=copy_context().run, args=(put_outcome,), name=f"mcp-bridge chain {name}", daemon=True
    ).start()
    try:
        outcome = outcomes.get(timeout=seconds)
    except Empty:
        message = f"Tool '{name}' did not finish within {seconds:g} seconds."
        return Result(
            ResultStatus.TIMEOUT, message=message, errors=[message], duration_ms=(time.monotonic() - start) * 1000
        )
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
