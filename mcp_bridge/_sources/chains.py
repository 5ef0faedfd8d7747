"""ChainSource: publishes the chains of the settings if their tools exist and fit together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.source import Offer, Publish, Source
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.registry import ToolRegistry, make_not_found_error
from mcp_bridge._engine.tool_use.chain_schema import infer_input_schema
from mcp_bridge._engine.tool_use.chain_tool import ChainTool
from mcp_bridge._engine.tool_use.chain_wiring import find_wiring_problems
from mcp_bridge._engine.tool_use.steps import ChainStep
from mcp_bridge._json_schema.schema_checks import check_schema
from mcp_bridge._runtime.thread_pool import make_call_soon

if TYPE_CHECKING:
    from mcp_bridge._settings.chains import ChainSettings, ChainStepSettings

NAME = "chains"
Locate = Callable[..., ConfigError]
"""Adds the file, and the line of a key, to an error."""


class ChainSource(Source):
    """Publishes chains whose tools exist, and checks them again whenever tools change.

    `registry` has the tools, and runs their calls under its pipeline. `locate` is `Settings.add_location`.
    """

    is_derived = True

    def __init__(self, chains: Mapping[str, ChainSettings], registry: ToolRegistry, locate: Locate) -> None:
        super().__init__(NAME)
        self._chains = chains
        self._registry = registry
        self._locate = locate
        self._changed = anyio.Event()

    async def run(self, publish: Publish) -> None:
        """Publish the chains, and again after changes, until cancelled."""
        call_soon = make_call_soon()

        def report_change() -> None:
            # The registry may change in any thread.
            call_soon(self._changed.set)

        stop = self._registry.watch(report_change)
        last_offer: Offer | None = None
        try:
            while True:
                self._changed = anyio.Event()
                describe_absence = self.services.describe_absence
                offer = _ChainBuilder(self._chains, self._registry, self._locate, describe_absence).build_offer()
                if offer != last_offer:
                    last_offer = offer
                    publish(offer)
                await self._changed.wait()
        finally:
            stop()


class _ChainBuilder:
    """Builds the tools of chains. A chain can call chains, so each is built when it is first needed."""

    def __init__(
        self,
        chains: Mapping[str, ChainSettings],
        registry: ToolRegistry,
        locate: Locate,
        describe_absence: Callable[[str], str],
    ) -> None:
        self._chains = chains
        self._registry = registry
        self._locate = locate
        self._describe_absence = describe_absence
        self._built: dict[str, ToolEntry | None] = {}
        self._unfinished: list[str] = []
        self._problems: list[str] = []

    def build_offer(self) -> Offer:
        """Build all chains, and describe why the others cannot be published."""
        entries = [self._find_tool(name) for name in self._chains]
        return Offer(tools=[entry for entry in entries if entry is not None], problems=self._problems)

    def _find_tool(self, name: str) -> ToolEntry | None:
        """Return a chain, or the published tool of another source; None if it cannot be called."""
        if name not in self._chains:
            entry = self._registry.get(name)
            return entry if entry is not None and entry.is_listed else None
        if name not in self._built:
            if name in self._unfinished:
                return None
            self._unfinished.append(name)
            self._built[name] = self._build_chain(name, self._chains[name])
            self._unfinished.remove(name)
        return self._built[name]

    def _build_chain(self, name: str, chain: ChainSettings) -> ToolEntry | None:
        steps = [_build_step(step) for step in chain.steps]
        problems = [
            self._locate_problem(self._describe_missing(step.tool_name), name, "steps", number, "tool")
            for number, step in enumerate(steps)
            if self._find_tool(step.tool_name) is None
        ]
        schema = infer_input_schema(self._find_tool, steps) if chain.input_schema is None else chain.input_schema
        outputs = [chain.output] if isinstance(chain.output, str) else chain.output or ()
        for problem in () if problems else find_wiring_problems(self._find_tool, steps, schema, outputs):
            key = ("input", problem.argument) if problem.argument is not None else ()
            place = ("output",) if problem.step is None else ("steps", problem.step, *key)
            problems.append(self._locate_problem(problem.text, name, *place))
        problems += [
            self._locate_problem(problem, name, "input_schema") for problem in check_schema(chain.input_schema)
        ]
        self._problems += [f"chain '{name}' is not published: {error}" for error in problems]
        if problems:
            return None
        handler = ChainTool(self._registry, steps, output=chain.output)
        text = chain.description or f"Runs in order: {', '.join(step.tool_name for step in steps)}."
        entry = ToolEntry(name, text, handler, schema, tags=list(chain.tags))
        return replace(entry, annotations=dict(chain.annotations))

    def _describe_missing(self, tool: str) -> str:
        if tool in self._unfinished:
            return f"the chain '{tool}' calls itself, without end"
        if tool in self._chains:
            return f"the chain '{tool}' is not published"
        if self._registry.get(tool) is not None:
            return f"the definition of '{tool}' has changed. Accept it with: mcp-bridge trust"
        if absence := self._describe_absence(tool):
            return f"{make_not_found_error(tool, ())} {absence}"
        return str(make_not_found_error(tool, [*self._registry.list_names(), *self._chains]))

    def _locate_problem(self, problem: str, *where: str | int) -> ConfigError:
        return self._locate(ConfigError(problem.rstrip(".")), "chains", *where)


def _build_step(step: ChainStepSettings) -> ChainStep:
    inputs = step.input
    return ChainStep(
        step.tool,
        {name: item.path for name, item in inputs.items() if item.path is not None},
        step.output or "",
        defaults={
            name: item.default if item.path is not None else item.value
            for name, item in inputs.items()
            if item.has_value
        },
        continue_on_failure=step.continue_on_failure,
        omits_context="input" in step.model_fields_set,
    )
