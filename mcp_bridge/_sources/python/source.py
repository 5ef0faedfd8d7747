"""PythonSource: imports Python files or a module, publishes their offer, and can reload them after an edit.

An offer consists of what the code defines, and of the tools of its toolboxes: sets of tools of other frameworks, which
have to be opened, such as a connection to a server. A file may also have a lifespan, which lasts as long as the offer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Self

import anyio

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceContext
from mcp_bridge._integrations.frameworks.discovery import DiscoveredTools, remove_duplicates
from mcp_bridge._integrations.frameworks.toolboxes import OPEN_TIMEOUT, publish_toolboxes
from mcp_bridge._runtime.python_import import forget_modules, import_file, import_module, without_bytecode
from mcp_bridge._runtime.source_files import contains_home, find_source_files
from mcp_bridge._sources.python.discovery import discover_foreign_tools, find_offer, merge_offers, select_runnable
from mcp_bridge._sources.python.lifespan import run_with_lifespan
from mcp_bridge._sources.python.publisher import LoadResult, OfferPublisher, add_toolboxes, get_taken_names

if TYPE_CHECKING:
    from mcp_bridge._sources.python.options import PythonOptions

logger = logging.getLogger("mcp_bridge.sources.python")
_RELOAD_MESSAGE = "source %r reloaded: %d tools, %d resources and templates, %d prompts"


class PythonSource(Source):
    """Publishes tools, resources and prompts from a file or a folder (`path`), or from a module.

    A module is imported with `directory` on the path. `tools` names undecorated functions to publish, and toolboxes to
    open. With `watch`, an edited file is imported again. If that fails, the tools stay as they were, and the error is a
    problem of the source until an edit repairs the file.
    """

    describes_server = True

    def __init__(
        self,
        name: str,
        *,
        path: Path | None = None,
        module: str | None = None,
        directory: Path | None = None,
        tools: Sequence[str] = (),
        watch: bool = False,
    ) -> None:
        if (path is None) == (module is None):
            raise ValueError("a Python source has either a path or a module")
        super().__init__(name)
        self._path = path.resolve() if path is not None else None
        self._module = module
        self._directory = (directory or Path.cwd()).resolve()
        self._tools = tuple(tools)
        self._watch = watch

    @classmethod
    def load_options(cls) -> type[PythonOptions]:
        """Return the model of the options. A Python file without settings needs no pydantic."""
        from mcp_bridge._sources.python.options import PythonOptions

        return PythonOptions

    @classmethod
    def choose_name(cls, options: PythonOptions) -> str:
        """Return the name of the file or the module."""
        return Path(options.path).stem if options.path is not None else str(options.module)

    @classmethod
    def build(cls, name: str, options: PythonOptions, context: SourceContext) -> Self:
        """Build the source. If `path` is ".", the name of the source is that of the settings' folder."""
        path = context.directory / options.path if options.path is not None else None
        return cls(
            name or Path(os.path.abspath(path or "")).stem,
            path=path,
            module=options.module,
            directory=context.directory,
            tools=options.tools,
            watch=context.watch,
        )

    async def run(self, publish: Publish) -> None:
        """Publish the offer, and publish again after edits and after changes of toolboxes.

        Raises SourceError if the lifespan cannot start, or if there is nothing to publish.
        """
        stamps = self._read_stamps()
        result = self._load_modules()
        if not self._watch:
            async with run_with_lifespan(result.offer) as offer:
                await publish_toolboxes(result.toolboxes, OPEN_TIMEOUT, partial(add_toolboxes, offer), publish)
                # The offer differs if it has a lifespan, which must not end before the source.
                if offer is not result.offer:
                    await anyio.sleep_forever()
            return
        publisher = OfferPublisher(publish)
        async with anyio.create_task_group() as tasks:
            try:
                await tasks.start(publisher.publish, result)
            except SourceError as error:
                # An edit can repair the file.
                publish(Offer(problems=[str(error)]))
            async for new_result in self._reload_after_edits(stamps, is_broken=bool(result.errors)):
                if new_result.errors:
                    publisher.report_errors(new_result.errors)
                    continue
                try:
                    await tasks.start(publisher.publish, new_result)
                except SourceError as error:
                    publisher.report_errors([str(error)])

    def list_files(self) -> Sequence[Path]:
        """Return the files of the source, with the files they import from its folder, or the folder as a whole.

        The folder as a whole is not returned if it contains the user's home. If it contains the settings, it is only
        returned while files are watched, because a sandbox sees an edited file only if it has the folder.
        """
        if self._module is not None:
            return find_source_files(self._directory, modules=[self._module.partition(".")[0]])
        path, root = self._path, self._root
        assert path is not None
        is_private = contains_home(root) or (not self._watch and self._directory.is_relative_to(root))
        if not is_private and (self._watch or path.is_dir()):
            return [root]
        return find_source_files(root, _list_python_files(path))

    def load(self) -> Offer:
        """Import everything and return the offer, without the tools of toolboxes.

        Files that cannot be imported are among the problems of the offer.
        """
        return self._load_modules().offer

    def _load_modules(self) -> LoadResult:
        discovered = DiscoveredTools()
        problems: list[str] = []
        offers: list[Offer] = []
        with without_bytecode():
            # All modules are imported first, because they may use each other's tools.
            for module in list(self._import_modules(problems)):
                try:
                    names = discover_foreign_tools(module, self._select_names(module), discovered)
                    offers.append(find_offer(module, names))
                except SourceError as error:
                    problems.append(str(error))
        offer = merge_offers(offers)
        tools, tool_problems = select_runnable(offer)
        offer = replace(offer, tools=tools)
        foreign_tools, duplicate_problems = remove_duplicates(discovered.tools, get_taken_names(offer))
        tool_problems += [*discovered.problems, *duplicate_problems]
        offer = replace(offer, tools=[*offer.tools, *foreign_tools])
        is_empty = not (offer.entries or offer.server or discovered.toolboxes)
        if is_empty and not problems and not tool_problems:
            hint = "Mark a function with @tool, @resource or @prompt, or name it in the settings"
            problems.append(f"{self._path or self._module}: no tools found. {hint}")
        offer = replace(offer, problems=[*offer.problems, *problems, *tool_problems])
        return LoadResult(offer=offer, toolboxes=discovered.toolboxes, errors=problems)

    def _import_modules(self, problems: list[str]) -> Iterator[ModuleType]:
        """Yield the modules that can be imported, and add a problem for each of the others."""
        imports: list[Callable[[], ModuleType]]
        if self._module is not None:
            imports = [partial(import_module, self._module, self._directory)]
        else:
            imports = [partial(import_file, path) for path in self._find_files(problems)]
        for import_one in imports:
            try:
                yield import_one()
            except SourceError as error:
                problems.append(str(error))

    def _find_files(self, problems: list[str]) -> list[Path]:
        assert self._path is not None
        if not self._path.exists():
            problems.append(f"{self._path}: no such file or folder")
            return []
        return _list_python_files(self._path)

    def _select_names(self, module: ModuleType) -> Sequence[str]:
        """Return the names in the option `tools` that a module should have. In a folder, another file may have them."""
        if self._path is not None and self._path.is_dir():
            return [name for name in self._tools if hasattr(module, name)]
        return self._tools

    async def _reload_after_edits(self, stamps: Mapping[Path, int], *, is_broken: bool) -> AsyncIterator[LoadResult]:
        """Import the files again after each edit, and yield the result.

        `stamps` are those of the last import. They reveal edits that happened before the watcher was ready. If the
        source `is_broken` and an edit repairs it, the message has the level WARNING, so users who have seen the error
        see it, too.
        """
        async for is_edit in _watch_edits(self._root):
            if is_edit or self._read_stamps() != stamps:
                forget_modules(self._root)
                result = self._load_modules()
                yield result
                if not result.errors:
                    offer = result.offer
                    resources = len(offer.resources) + len(offer.templates)
                    level = logging.WARNING if is_broken else logging.INFO
                    logger.log(level, _RELOAD_MESSAGE, self.name, len(offer.tools), resources, len(offer.prompts))
                is_broken = bool(result.errors)
            stamps = self._read_stamps()

    def _read_stamps(self) -> dict[Path, int]:
        """Return the times of the last edits of this source's files, in nanoseconds."""
        paths = _list_python_files(self._path) if self._path is not None and self._path.exists() else []
        return {path: path.stat().st_mtime_ns for path in paths if path.exists()}

    @property
    def _root(self) -> Path:
        if self._path is not None:
            return self._path if self._path.is_dir() else self._path.parent
        return self._directory


async def _watch_edits(root: Path) -> AsyncIterator[bool]:
    """Yield True after each edit of a Python file below `root`, and False after half a second without one.

    A shutdown waits until the watcher returns, so its timeout (`rust_timeout`, in milliseconds) is short.
    """
    # The import takes 30 ms, and only --reload needs it.
    import watchfiles

    python = watchfiles.PythonFilter()
    watcher = watchfiles.awatch(
        root, watch_filter=python, debounce=200, step=20, rust_timeout=500, yield_on_timeout=True
    )
    async for changes in watcher:
        yield bool(changes)


def _list_python_files(target: Path) -> list[Path]:
    """Return the path if it is a file, or the Python files in a folder whose names do not begin with `_`."""
    if target.is_file():
        return [target]
    return sorted(path for path in target.glob("*.py") if not path.name.startswith("_"))
