"""The source of the tools of other frameworks' objects, and of UTCP manuals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import anyio
from pydantic import Field, model_validator

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceContext
from mcp_bridge._integrations.frameworks.discovery import DiscoveredTools, describe_unknown, remove_duplicates
from mcp_bridge._integrations.frameworks.toolboxes import OpenToolboxes, publish_toolboxes
from mcp_bridge._runtime.python_import import import_attribute
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._runtime.source_files import find_source_files
from mcp_bridge._runtime.third_party import call_method, describe_error, is_own_cancellation
from mcp_bridge._settings.sections import SettingsModel
from mcp_bridge._settings.values import Duration


class FrameworkOptions(SettingsModel):
    """Tools of other Python frameworks, such as LangChain, pydantic-ai and FastMCP, and of UTCP manuals."""

    objects: tuple[str, ...] = Field(
        default=(),
        description="Objects as `module:attribute`, importable from the folder of the settings file: a tool, a set of "
        "tools, a list of these, or a function without parameters that returns one of these.",
    )
    utcp: tuple[str, ...] = Field(
        default=(), description="Files of UTCP manuals. Relative paths start at the folder of the settings file."
    )
    start_timeout: Duration = Field(
        default=30.0,
        description="How long creating, opening or listing an object may take.",
    )

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.objects and not self.utcp:
            raise ValueError("give objects, utcp, or both")
        return self


class FrameworkSource(Source):
    """Publishes the tools of LangChain, pydantic-ai, FastMCP and others, without changes to these tools."""

    Options = FrameworkOptions
    describes_server = True
    options: FrameworkOptions

    def __init__(self, name: str, options: FrameworkOptions, context: SourceContext) -> None:
        super().__init__(name, options, context)
        self._directory = context.directory.resolve()
        self._utcp = [(self._directory / Path(path).expanduser()).resolve() for path in options.utcp]

    @classmethod
    def choose_name(cls, options: FrameworkOptions) -> str:
        return "framework"

    async def run(self, publish: Publish) -> None:
        """Publish the tools, and again after every change. Raises SourceError if there are none."""
        discovery = await self._discover()

        def make_offer(open_toolboxes: OpenToolboxes) -> Offer:
            tools, duplicates = remove_duplicates([*discovery.tools, *open_toolboxes.tools])
            problems = [*discovery.problems, *open_toolboxes.problems, *duplicates]
            return open_toolboxes.add_to(Offer(tools=tools, problems=problems))

        await publish_toolboxes(discovery.toolboxes, self.options.start_timeout, make_offer, publish)

    def list_files(self) -> Sequence[Path]:
        """Return the manuals, and the files of the objects' modules in the folder of the settings."""
        modules = [reference.partition(":")[0].partition(".")[0] for reference in self.options.objects]
        files = list(find_source_files(self._directory, modules=modules))
        return files + [path for path in self._utcp if path.exists()]

    async def _discover(self) -> DiscoveredTools:
        discovery = DiscoveredTools()
        for reference in self.options.objects:
            try:
                await self._add_object(discovery, reference)
            except SourceError as error:
                text = str(error)
                discovery.problems.append(text if reference in text else f"'{reference}': {text}")
        for path in self._utcp:
            _add_manual(discovery, path)
        return discovery

    async def _add_object(self, discovery: DiscoveredTools, reference: str) -> None:
        value = import_attribute(reference, self._directory)
        if discovery.add(reference, value):
            return
        if _is_factory(value):
            value = await _call_factory(value, reference, self.options.start_timeout)
            if discovery.add(reference, value):
                return
            reference = f"{reference}()"
        discovery.problems.append(describe_unknown(reference, value))


def _add_manual(discovery: DiscoveredTools, path: Path) -> None:
    from mcp_bridge._integrations.frameworks.utcp.manual import read_manual

    try:
        discovery.add(str(path), read_manual(path))
    except Exception as error:
        text = str(error) if isinstance(error, SourceError) else describe_error(error)
        discovery.problems.append(text if str(path) in text else f"{path}: {text}")


def _is_factory(value: object) -> bool:
    """Return whether an object is a function or a class without required arguments."""
    if not callable(value):
        return False
    try:
        parameters = get_signature(value).parameters.values()
    except (TypeError, ValueError):
        return False
    for parameter in parameters:
        is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not is_variadic:
            return False
    return True


async def _call_factory(factory: Any, reference: str, timeout: float | None) -> object:
    """Call a function without arguments, in a thread if it is synchronous.

    Raises SourceError if it fails or takes longer than `timeout` seconds.
    """
    try:
        with anyio.move_on_after(timeout):
            return await call_method(factory)
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        raise SourceError(f"'{reference}' failed when it was called: {describe_error(error)}") from error
    raise SourceError(
        f"'{reference}' has made nothing within {timeout:g} seconds. Make it do less, or raise start_timeout"
    )
