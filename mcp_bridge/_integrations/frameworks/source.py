"""FrameworkSource: publishes the tools of the objects and UTCP manuals that the settings name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.extension import Publish
from mcp_bridge._contracts.offer import Offer
from mcp_bridge._integrations.frameworks.discovery import DiscoveredTools, describe_unknown, remove_duplicates
from mcp_bridge._integrations.frameworks.references import is_factory, made_by
from mcp_bridge._integrations.frameworks.toolboxes import OPEN_TIMEOUT, OpenToolboxes, publish_toolboxes
from mcp_bridge._runtime.python_import import import_attribute
from mcp_bridge._runtime.source_files import find_source_files
from mcp_bridge._runtime.third_party import describe_error


class FrameworkSource:
    """Tools of LangChain, pydantic-ai, FastMCP and others, without changes to them.

    Args:
        objects: References as `module:attribute`, importable from `directory`, to tools, sets of tools, lists of
            either, and functions without arguments that make one of these.
        utcp: Files of UTCP manuals.
        start_timeout: Seconds that an object may take to be made, or opened and listed; None means no limit.
    """

    def __init__(
        self,
        name: str,
        *,
        objects: Sequence[str] = (),
        utcp: Sequence[Path] = (),
        directory: Path | None = None,
        start_timeout: float | None = OPEN_TIMEOUT,
    ) -> None:
        self.name = name
        self._objects = tuple(objects)
        self._utcp = tuple(utcp)
        self._directory = (directory or Path.cwd()).resolve()
        self._open_timeout = start_timeout

    async def run(self, publish: Publish) -> None:
        """Publish the tools, and again after every change. Raises SourceError if there are none."""
        discovered = await self._discover()

        def make_offer(opened: OpenToolboxes) -> Offer:
            tools, duplicates = remove_duplicates([*discovered.tools, *opened.tools])
            problems = [*discovered.problems, *opened.problems, *duplicates]
            return opened.add_to(Offer(tools=tools, problems=problems))

        await publish_toolboxes(discovered.toolboxes, self._open_timeout, make_offer, publish)

    def list_files(self) -> Sequence[Path]:
        """Return the manuals, and the files of the objects' modules in the folder of the settings."""
        modules = [reference.partition(":")[0].partition(".")[0] for reference in self._objects]
        return [*find_source_files(self._directory, modules=modules), *(path for path in self._utcp if path.exists())]

    async def _discover(self) -> DiscoveredTools:
        discovered = DiscoveredTools()
        for reference in self._objects:
            try:
                await self._add_object(discovered, reference)
            except SourceError as error:
                text = str(error)
                discovered.problems.append(text if reference in text else f"'{reference}': {text}")
        for path in self._utcp:
            _add_manual(discovered, path)
        return discovered

    async def _add_object(self, discovered: DiscoveredTools, reference: str) -> None:
        thing = import_attribute(reference, self._directory)
        if discovered.add(reference, thing):
            return
        if is_factory(thing):
            thing = await made_by(thing, reference, self._open_timeout)
            if discovered.add(reference, thing):
                return
            reference = f"{reference}()"
        discovered.problems.append(describe_unknown(reference, thing))


def _add_manual(discovered: DiscoveredTools, path: Path) -> None:
    from mcp_bridge._integrations.frameworks.utcp.manual import read_manual

    try:
        discovered.add(str(path), read_manual(path))
    except Exception as error:
        text = str(error) if isinstance(error, SourceError) else describe_error(error)
        discovered.problems.append(text if str(path) in text else f"{path}: {text}")
