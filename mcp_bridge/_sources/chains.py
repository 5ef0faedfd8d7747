"""ChainSource: publishes the chains of the settings as tools, which call other published tools in order.

A chain is only published if its tools exist and their schemas fit together. So the source watches the registry, and
builds all chains again when the tools change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
"""Adds the file and the line of a key to an error (`Settings.add_location`). Gets the error and the path of the key."""


class ChainSource(Source):
    """Publishes chains, and checks them again whenever tools change.

    `registry` has the tools, and runs their calls under its pipeline.
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
                # The event is new before the chains are built, so that a change in the meantime is not lost.
                self._changed = anyio.Event()
                describe_absence = self.services.describe_absence
                offer = _ChainBuilder(self._chains, self._registry, self._locate, describe_absence).build_offer()
                # Publishing the chains changes the registry too, so an equal offer must end the loop.
                if offer != last_offer:
                    last_offer = offer
                    publish(offer)
                await self._changed.wait()
        finally:
            stop()


class _ChainBuilder:
    """Builds the tools of all chains once. A chain can call other chains, so each is built when it is first needed."""

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
        """Build all chains, and describe the problems of those left out."""
        entries = [self._find_tool(name) for name in self._chains]
        return Offer(tools=[entry for entry in entries if entry is not None], problems=self._problems)

    def _find_tool(self, name: str) -> ToolEntry | None:
        """Return the entry of a chain, or of a tool of another source. None means that it cannot be called."""
        if name not in self._chains:
            entry = self._registry.get(name)
            return entry if entry is not None and entry.is_listed else None
        if name not in self._built:
            if name in self._unfinished:
                # The chain calls itself, directly or through other chains.
                return None
            self._unfinished.append(name)
            self._built[name] = self._build_chain(name, self._chains[name])
            self._unfinished.remove(name)
        return self._built[name]

    def _build_chain(self, name: str, chain: ChainSettings) -> ToolEntry | None:
        steps = [_build_step(step) for step in chain.steps]
        schema = chain.input_schema
        if schema is None:
            schema = infer_input_schema(self._find_tool, steps)
        problems: list[ConfigError] = []
        for number, step in enumerate(steps):
            if self._find_tool(step.tool_name) is None:
                text = self._describe_missing(step.tool_name)
                problems.append(self._locate_problem(text, name, "steps", number, "tool"))
        # The wiring refers to the schemas of all tools.
        if not problems:
            problems += self._check_wiring(name, chain, steps, schema)
        for problem in check_schema(chain.input_schema):
            problems.append(self._locate_problem(problem, name, "input_schema"))
        self._problems += [f"chain '{name}' is not published: {error}" for error in problems]
        if problems:
            return None
        handler = ChainTool(self._registry, steps, output=chain.output)
        text = chain.description or f"Runs in order: {', '.join(step.tool_name for step in steps)}."
        entry = ToolEntry(name, text, handler, schema, tags=list(chain.tags))
        return replace(entry, annotations=dict(chain.annotations))

    def _check_wiring(
        self, name: str, chain: ChainSettings, steps: Sequence[ChainStep], schema: Mapping[str, Any]
    ) -> list[ConfigError]:
        """Return the problems of the paths that connect the steps of a chain, with their places in the settings."""
        outputs: Sequence[str] = ()
        if isinstance(chain.output, str):
            outputs = [chain.output]
        elif chain.output is not None:
            outputs = chain.output
        problems = []
        for problem in find_wiring_problems(self._find_tool, steps, schema, outputs):
            place: list[str | int] = ["output"]
            if problem.step is not None:
                place = ["steps", problem.step]
                if problem.argument is not None:
                    place += ["input", problem.argument]
            problems.append(self._locate_problem(problem.text, name, *place))
        return problems

    def _describe_missing(self, tool: str) -> str:
        """Return why a tool cannot be called."""
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
    paths: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    for name, item in step.input.items():
        if item.path is not None:
            paths[name] = item.path
        if item.has_value:
            # A fixed value is the default of an argument without a path.
            defaults[name] = item.default if item.path is not None else item.value
    return ChainStep(
        step.tool,
        paths,
        step.output or "",
        defaults=defaults,
        continue_on_failure=step.continue_on_failure,
        omits_context="input" in step.model_fields_set,
    )
