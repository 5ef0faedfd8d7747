"""The Xaibo source makes providers and agents, publishes their tools, and lists these again after changes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

import anyio

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceContext
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.selection import Selection
from mcp_bridge._integrations.xaibo.source import agent_config
from mcp_bridge._integrations.xaibo.source.agent_tools import AgentProvider
from mcp_bridge._integrations.xaibo.source.agents import build_entries
from mcp_bridge._integrations.xaibo.source.options import XaiboOptions
from mcp_bridge._integrations.xaibo.source.provider_tools import ProviderTools
from mcp_bridge._integrations.xaibo.source.providers import is_provider, make_provider, make_redactor, unwrap_provider
from mcp_bridge._runtime.event_loop import is_on_asyncio
from mcp_bridge._runtime.python_import import add_to_path, import_attribute, report_errors
from mcp_bridge._runtime.thread_pool import CallSoon, make_call_soon


class XaiboSource(Source):
    """Tools of a provider, or of the providers of an agent, and agents as tools.

    Tools are listed once, and again when a provider reports that a listed tool does not exist.

    Args:
        provider: A provider, its class, a function that makes it, or a reference to one of them (`module:Name`).
        config: The argument `config` of the class or function.
        agent: The YAML file of an agent.
        offer: The tools of the agent to publish: those of its providers, the agent, or both.
        directory: The folder for references.

    >>> from mcp_bridge.xaibo import MockToolProvider
    >>> XaiboSource("weather", provider=MockToolProvider([], {"forecast": "rain"})).name
    'weather'
    """

    Options = XaiboOptions

    def __init__(
        self,
        name: str,
        *,
        provider: Any = None,
        config: Mapping[str, Any] | None = None,
        agent: Path | None = None,
        offer: Literal["tools", "agent", "both"] = "tools",
        directory: Path | None = None,
    ) -> None:
        if (provider is None) == (agent is None):
            raise ValueError("a Xaibo source has either a provider or an agent")
        super().__init__(name)
        self._provider = provider
        self._config = dict(config or {})
        self._agent = None if agent is None else agent.resolve()
        self._published = offer
        self._directory = (directory or Path.cwd()).resolve()
        self._providers: list[ProviderTools] = []
        self._agents: list[ToolEntry] = []
        self._problems: list[str] = []
        self._refresh_event = anyio.Event()
        self._call_soon: CallSoon | None = None

    @classmethod
    def choose_name(cls, options: XaiboOptions) -> str:
        """Return the name of the agent's file, or of the provider's class or function."""
        if options.agent is not None:
            return Path(options.agent).stem
        return str(options.provider).rpartition(":")[2].rpartition(".")[2]

    @classmethod
    def build(cls, name: str, options: XaiboOptions, context: SourceContext) -> Self:
        directory = context.directory.resolve()
        return cls(
            name,
            provider=options.provider,
            config=options.config,
            agent=None if options.agent is None else directory / Path(options.agent).expanduser(),
            offer=options.offer,
            directory=directory,
        )

    async def run(self, publish: Publish) -> None:
        """Publish until cancelled. Raises SourceError if there is nothing to publish, now or later."""
        self._call_soon = make_call_soon()
        await self._make()
        last_offer: Offer | None = None
        while True:
            # Replace the event first, so that a report during the listing causes another listing.
            self._refresh_event = anyio.Event()
            async with anyio.create_task_group() as tasks:
                for provider in self._providers:
                    tasks.start_soon(provider.refresh)
            offer = self._build_offer()
            if not offer.tools and last_offer is None:
                raise SourceError("\n".join(offer.problems))
            # Publishing logs all problems again, so do it only after a change.
            if offer != last_offer:
                publish(offer)
                last_offer = offer
            await self._refresh_event.wait()

    async def _make(self) -> None:
        self._providers, self._agents, self._problems = [], [], []
        if self._agent is not None:
            self._make_agent(self._agent)
        else:
            add_to_path(self._directory)
            target = self._provider
            if isinstance(target, str):
                name, target = target, _import_reference(target, self._directory)
            else:
                name = (target if isinstance(target, type) else type(target)).__name__
            self._add_provider(name, await make_provider(target, name, self._config))

    def _make_agent(self, path: Path) -> None:
        wants_agent = self._published != "tools"
        if wants_agent and not is_on_asyncio():
            raise SourceError(f"{path}: agents of Xaibo run only on asyncio, and this event loop is trio")
        config = agent_config.read_agent(path, self._directory)
        modules = agent_config.make_host(config)
        if wants_agent:
            try:
                with report_errors(f"agent '{config.id}' has a module of scope 'agent' that cannot be made"):
                    agent_config.add_agent_modules(config, modules, self._wrap_provider)
                # Copy the dict, because the providers that are made below are not shared by all calls.
                self._agents = build_entries(config, dict(modules), self._wrap_provider)
            except SourceError as error:
                text = make_redactor([module.config for module in config.modules]).redact_text(str(error))
                self._problems.append(text + agent_config.describe_failure(config))
        if self._published != "agent":
            self._add_providers(config, modules, path)
        if not self._agents and not self._providers:
            raise SourceError("\n".join(self._problems))

    def _add_providers(self, config: Any, modules: dict[str, Any], path: Path) -> None:
        """Make each provider. One that cannot be made is a problem, and does not affect the others."""
        module_ids = agent_config.find_providers(config)
        for module_id in module_ids:
            module_config = next(module.config for module in config.modules if module.id == module_id)
            try:
                with report_errors(f"provider '{module_id}' cannot be made"):
                    modules.update(agent_config.build_module(config, module_id, modules))
            except SourceError as error:
                text = make_redactor(module_config).redact_text(str(error))
                self._problems.append(text + agent_config.describe_failure(config, module_id))
            else:
                self._add_provider(module_id, modules[module_id], module_config)
        if not module_ids:
            problem = f"{path}: none of its modules provides tools (list_tools and execute_tool)"
            self._problems.append(problem + agent_config.describe_failure(config))

    def _wrap_provider(self, module_id: str, provider: Any) -> Any:
        return AgentProvider(module_id, provider, self._select_published)

    def _select_published(self, entry: ToolEntry) -> ToolEntry | None:
        """Return a tool of a provider as it is published, or None if it is not selected."""
        selection = self.services.selection or Selection()
        return next(iter(selection.select_tools([entry], self.name)), None)

    def _add_provider(self, label: str, provider: Any, config: Any = None) -> None:
        # If an AgentProvider were published, its calls would go through the pipeline twice.
        if isinstance(provider, AgentProvider):
            provider = provider.provider
        redactor = make_redactor(self._config if config is None else config)
        for inner_label, inner_provider in unwrap_provider(provider, label):
            if is_provider(inner_provider):
                self._providers.append(ProviderTools(inner_label, inner_provider, self._schedule_refresh, redactor))
            else:
                self._problems.append(f"provider '{inner_label}' has no list_tools and execute_tool")

    def _build_offer(self) -> Offer:
        problems = list(self._problems)
        entries: dict[str, tuple[str, ToolEntry]] = {}
        candidates = [(f"the agent {entry.name}", entry) for entry in self._agents]
        for provider in self._providers:
            candidates += [(provider.label, entry) for entry in provider.entries]
        for label, entry in candidates:
            first_label, first_entry = entries.setdefault(entry.name, (label, entry))
            if first_entry is not entry:
                problems.append(
                    f"'{first_label}' and '{label}' both have a tool named '{entry.name}'. "
                    f"That of '{first_label}' is published. Rename or remove one"
                )
        for provider in self._providers:
            problems += provider.problems
        return Offer(tools=[entry for _, entry in entries.values()], problems=problems)

    def _schedule_refresh(self) -> None:
        """Request another listing. May be called from any thread."""
        if self._call_soon is not None:
            # A thread may outlast the event loop, which then raises RuntimeError.
            with suppress(RuntimeError):
                # Look the event up when the function runs, because it may be replaced before.
                self._call_soon(lambda: self._refresh_event.set())  # noqa: PLW0108


def _import_reference(reference: str, directory: Path) -> Any:
    """Return the object of the reference `package.module:Name`, `package.module.Name` or `file.py:Name`.

    Modules in `directory` are importable. Raises SourceError with the part that is wrong, or the place of the failure.
    """
    head, _, attribute = reference.rpartition(":" if ":" in reference else ".")
    if not head or not all(name.isidentifier() for name in attribute.split(".")):
        raise SourceError(
            f"provider '{reference}' names nothing. Write it as package.module:Name or path/to/file.py:Name"
        )
    if head.endswith(".py"):
        path = (directory / head).resolve()
        directory, head = path.parent, path.stem
        if not path.is_file():
            raise SourceError(f"{path}: no such file")
    return import_attribute(f"{head}:{attribute}", directory)
