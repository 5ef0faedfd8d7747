"""XaiboSource: makes the providers, has them list their tools, and lists again when there is a reason to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Literal

import anyio

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.extension import Publish
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.runtime.event_loop import on_asyncio
from mcp_bridge.runtime.python_import import add_to_path
from mcp_bridge.runtime.thread_pool import Soon, from_any_thread
from mcp_bridge.xaibo.source import real
from mcp_bridge.xaibo.source.agents import entries_of
from mcp_bridge.xaibo.source.importing import import_reference, report_errors
from mcp_bridge.xaibo.source.listing import Listed
from mcp_bridge.xaibo.source.making import hiding, is_provider, made
from mcp_bridge.xaibo.source.python_tools import without_faults


class XaiboSource:
    """Tools of a `provider`, or of the `agent` in a YAML file, which may be a tool itself (`offer`).

    `provider` is a provider, or what names one, its class, or a function that makes it, as `package.module:Name`; the
    class or function gets `config`. What is named is importable from `directory`. The providers are asked for their
    tools once, every `refresh` seconds if that is given, and when one says that a listed tool is not there.
    """

    def __init__(
        self,
        name: str,
        *,
        provider: Any = None,
        config: Mapping[str, Any] | None = None,
        agent: Path | None = None,
        offer: Literal["tools", "agent", "both"] = "tools",
        refresh: float | None = None,
        directory: Path | None = None,
    ) -> None:
        if (provider is None) == (agent is None):
            raise ValueError("a Xaibo source has either a provider or an agent")
        self.name = name
        self._provider = provider
        self._config = dict(config or {})
        self._agent = agent.resolve() if agent is not None else None
        self._wanted = offer
        self._refresh = refresh
        self._directory = (directory or Path.cwd()).resolve()
        self._listed: list[Listed] = []
        self._agents: list[ToolEntry] = []
        self._problems: list[str] = []
        self._again = anyio.Event()
        self._soon: Soon | None = None

    async def run(self, publish: Publish) -> None:
        """Publish until cancelled. Raises SourceError when there is nothing to publish, and never will be."""
        self._soon = from_any_thread()
        await self._make()
        published: Offer | None = None
        while True:
            self._again = anyio.Event()  # before listing: what is reported meanwhile is a reason to list again
            async with anyio.create_task_group() as tasks:
                for listed in self._listed:
                    tasks.start_soon(listed.ask)
            offer = self._offer()
            if not offer.tools and published is None and self._refresh is None:
                raise SourceError("\n".join(offer.problems))
            if offer != published:  # each publishing tells of the problems again
                publish(offer)
                published = offer
            with anyio.move_on_after(self._refresh or inf):
                await self._again.wait()

    async def _make(self) -> None:
        """Make what there is to ask. Raises SourceError where that is nothing."""
        self._listed, self._agents, self._problems = [], [], []
        if self._agent is not None:
            self._from_agent(self._agent)
        else:
            add_to_path(self._directory)
            given = self._provider
            name = given if isinstance(given, str) else (given if isinstance(given, type) else type(given)).__name__
            found = import_reference(name, self._directory) if isinstance(given, str) else given
            self._add(name, await made(found, name, self._config))

    def _from_agent(self, path: Path) -> None:
        wants_agent = self._wanted != "tools"
        if wants_agent and not on_asyncio():
            raise SourceError(f"{path}: Xaibo's agents run on asyncio alone, and this event loop is trio's")
        config = real.read(path, self._directory)
        kept = real.host(config)
        if wants_agent:
            try:
                with report_errors(f"agent '{config.id}' has a module of scope 'agent' that cannot be made"):
                    real.keep_lasting(config, kept)
                self._agents = entries_of(config, dict(kept))  # not with the providers that are made below
            except SourceError as error:
                said = hiding(real.settings_of(config)).text(str(error))
                self._problems.append(said + real.causes(config))
        if self._wanted != "agent":
            self._add_providers(config, kept, path)
        if not self._agents and not self._listed:
            raise SourceError("\n".join(self._problems))

    def _add_providers(self, config: Any, kept: dict[str, Any], path: Path) -> None:
        """Make each provider; one that cannot be made takes away only itself."""
        found = real.providers(config)
        for module_id in found:
            own = next(module.config for module in config.modules if module.id == module_id)
            try:
                with report_errors(f"provider '{module_id}' cannot be made"):
                    kept.update(real.build(config, module_id, kept))
            except SourceError as error:
                self._problems.append(hiding(own).text(str(error)) + real.causes(config, module_id))
            else:
                self._add(module_id, kept[module_id], own)
        if not found:
            what = f"{path}: none of its modules provides tools (list_tools and execute_tool)"
            self._problems.append(what + real.causes(config))

    def _add(self, label: str, provider: Any, config: Any = None) -> None:
        redactor = hiding(self._config if config is None else config)
        for each, one in without_faults(provider, label):
            if is_provider(one):
                self._listed.append(Listed(each, one, self._ask_again, redactor))
            else:
                self._problems.append(f"provider '{each}' has no list_tools and execute_tool")

    def _offer(self) -> Offer:
        """Everything that is listed now; of two tools of one name, the first."""
        problems = list(self._problems)
        found: dict[str, tuple[str, ToolEntry]] = {}
        for label, entry in self._all():
            first, kept = found.setdefault(entry.name, (label, entry))
            if kept is not entry:
                problems.append(
                    f"'{first}' and '{label}' both have a tool named '{entry.name}'. "
                    f"Rename one, or leave one out; that of '{first}' is published"
                )
        problems += [problem for listed in self._listed for problem in listed.problems]
        return Offer(tools=[entry for _, entry in found.values()], problems=problems)

    def _all(self) -> Iterator[tuple[str, ToolEntry]]:
        for entry in self._agents:
            yield f"the agent {entry.name}", entry
        for listed in self._listed:
            for entry in listed.entries:
                yield listed.label, entry

    def _ask_again(self) -> None:
        """List again, soon; a tool that finds out that it is gone may be in a thread of its own."""
        if self._soon is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._soon(self._wake)

    def _wake(self) -> None:
        self._again.set()
