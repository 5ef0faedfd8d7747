"""PythonSource: imports Python files or a module, publishes their offer, and can reload them after an edit."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Self

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceContext
from mcp_bridge._integrations.frameworks.discovery import DiscoveredTools, remove_duplicates
from mcp_bridge._integrations.frameworks.toolboxes import (
    OPEN_TIMEOUT,
    OpenToolboxes,
    Toolbox,
    open_toolboxes,
    publish_toolboxes,
)
from mcp_bridge._runtime.python_import import forget_modules, import_file, import_module, without_bytecode
from mcp_bridge._runtime.source_files import contains_home, find_source_files
from mcp_bridge._sources.python.discovery import discover_foreign_tools, find_offer, merge_offers, select_runnable
from mcp_bridge._sources.python.lifespan import run_with_lifespan

if TYPE_CHECKING:
    from mcp_bridge._sources.python.options import PythonOptions

logger = logging.getLogger("mcp_bridge.sources.python")
_RELOADED = "source %r reloaded: %d tools, %d resources and templates, %d prompts"


class PythonSource(Source):
    """Tools, resources and prompts from a file or folder (`path`) or from a module (importable from `directory`).

    `tools` names functions to publish without a mark, and sets of tools of other frameworks to open. With `watch`, an
    edited file is imported again; if that fails, the error is logged and the tools stay as they were.
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
        """Build the source. A path such as "." has a name only together with the folder of the settings."""
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
        """Publish an offer, and again after edits and changes of toolboxes. Raises SourceError for an empty one."""
        stamps = self._read_stamps()
        result = self._load_modules()
        if not self._watch:
            async with run_with_lifespan(result.offer) as offer:
                await publish_toolboxes(result.toolboxes, OPEN_TIMEOUT, partial(_add_toolboxes, offer), publish)
                if offer is not result.offer:
                    await anyio.sleep_forever()
            return
        publisher = _Publisher(publish)
        async with anyio.create_task_group() as tasks:
            try:
                await tasks.start(publisher.publish, result)
            except SourceError as error:
                # An edit can repair it.
                publish(Offer(problems=[str(error)]))
            async for new_result in self._reload_after_edits(stamps, is_broken=bool(result.errors)):
                try:
                    await tasks.start(publisher.publish, new_result)
                except SourceError as error:
                    logger.error("%s: the tools stay as they were", error)

    def list_files(self) -> Sequence[Path]:
        """Return the files of the source, or its folder, and the files that they import from there.

        A folder with the settings or the user's home is not returned itself, except while files are watched, because a
        sandbox has an edited file only with its folder.
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
        """Import everything and return its offer, without the tools of sets that have to be opened first.

        Files with an import error are among the problems.
        """
        return self._load_modules().offer

    def _load_modules(self) -> _LoadResult:
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
        tools, unrunnable = select_runnable(offer)
        offer = replace(offer, tools=tools)
        foreign, duplicates = remove_duplicates(discovered.tools, _get_taken_names(offer))
        tool_problems = [*unrunnable, *discovered.problems, *duplicates]
        offer = replace(offer, tools=[*offer.tools, *foreign])
        if not (problems or tool_problems or discovered.toolboxes or offer.entries or offer.server):
            hint = "Mark a function with @tool, @resource or @prompt, or name it in the settings"
            problems.append(f"{self._path or self._module}: no tools found. {hint}")
        offer = replace(offer, problems=[*offer.problems, *problems, *tool_problems])
        return _LoadResult(offer=offer, toolboxes=discovered.toolboxes, errors=problems)

    def _import_modules(self, problems: list[str]) -> Iterator[ModuleType]:
        if self._module is not None:
            loads: list[Callable[[], ModuleType]] = [partial(import_module, self._module, self._directory)]
        else:
            loads = [partial(import_file, path) for path in self._find_files(problems)]
        for load in loads:
            try:
                yield load()
            except SourceError as error:
                problems.append(str(error))

    def _find_files(self, problems: list[str]) -> list[Path]:
        assert self._path is not None
        if not self._path.exists():
            problems.append(f"{self._path}: no such file or folder")
            return []
        return _list_python_files(self._path)

    def _select_names(self, module: ModuleType) -> Sequence[str]:
        """Return the functions in `tools` of a module; in a folder, any of the files may have one."""
        if self._path is not None and self._path.is_dir():
            return [name for name in self._tools if hasattr(module, name)]
        return self._tools

    async def _reload_after_edits(self, stamps: Mapping[Path, int], *, is_broken: bool) -> AsyncIterator[_LoadResult]:
        """Yield the result of loading after each edit. `stamps` reveal edits from before the watcher was ready.

        After an edit has repaired a source that `is_broken`, the log reports it at the default level, like the error.
        """
        async for is_edit in _watch_edits(self._root):
            if is_edit or self._read_stamps() != stamps:
                forget_modules(self._root)
                result = self._load_modules()
                for problem in result.errors:
                    logger.error("%s: the tools stay as they were", problem)
                if not result.errors:
                    yield result
                    offer = result.offer
                    resources = len(offer.resources) + len(offer.templates)
                    level = logging.WARNING if is_broken else logging.INFO
                    logger.log(level, _RELOADED, self.name, len(offer.tools), resources, len(offer.prompts))
                is_broken = bool(result.errors)
            stamps = self._read_stamps()

    def _read_stamps(self) -> dict[Path, int]:
        """Return when each file of this source was modified, in nanoseconds."""
        paths = _list_python_files(self._path) if self._path is not None and self._path.exists() else []
        return {path: path.stat().st_mtime_ns for path in paths if path.exists()}

    @property
    def _root(self) -> Path:
        if self._path is not None:
            return self._path if self._path.is_dir() else self._path.parent
        return self._directory


class _LoadResult(NamedTuple):
    """The result of an import. A reload fails if it has `errors`."""

    offer: Offer
    toolboxes: Mapping[str, Toolbox]
    errors: Sequence[str]


class _Publisher:
    """Publishes the last result of loading, with the tools of its toolboxes."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._last = anyio.CancelScope()

    async def publish(self, result: _LoadResult, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Replace the last offer, and close its toolboxes. The task has started once the new offer is published.

        An empty offer is published too: the next edit may add a tool.
        """
        with anyio.CancelScope() as scope:
            async with run_with_lifespan(result.offer) as offer, open_toolboxes(result.toolboxes) as toolboxes:
                self._last.cancel()
                self._last = scope
                self._publish(_add_toolboxes(offer, toolboxes))
                task_status.started()
                while toolboxes.is_open:
                    await toolboxes.wait_for_change()
                    self._publish(_add_toolboxes(offer, toolboxes))
                if offer is not result.offer:
                    await anyio.sleep_forever()


def _add_toolboxes(offer: Offer, toolboxes: OpenToolboxes) -> Offer:
    tools, duplicates = remove_duplicates(toolboxes.tools, _get_taken_names(offer))
    problems = [*offer.problems, *toolboxes.problems, *duplicates]
    return toolboxes.add_to(replace(offer, tools=[*offer.tools, *tools], problems=problems))


def _get_taken_names(offer: Offer) -> dict[str, str]:
    return {entry.name: "the file itself" for entry in offer.tools}


async def _watch_edits(root: Path) -> AsyncIterator[bool]:
    """Yield True after each edit below `root`, and False after half a second without one.

    A shutdown waits as long for the watcher.
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
    """Return the path if it is a file, or a folder's Python files without a `_` at the start."""
    if target.is_file():
        return [target]
    return sorted(path for path in target.glob("*.py") if not path.name.startswith("_"))
