"""PythonSource: imports, finds, publishes, and with `watch` does it again after every edit."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType

import anyio
from anyio.abc import TaskStatus

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.extension import Publish
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.frameworks.finding import Finds, distinct
from mcp_bridge.frameworks.keeping import PATIENCE, Keeper, kept, served
from mcp_bridge.frameworks.toolbox import Toolbox
from mcp_bridge.runtime.python_import import forget_modules, import_file, import_module, without_bytecode
from mcp_bridge.sources.python.shapes import find, find_foreign, joined

logger = logging.getLogger("mcp_bridge.sources.python")
_RELOADED = "source %r reloaded: %d tools, %d resources and templates, %d prompts"


class PythonSource:
    """Tools, resources and prompts from a file or folder (`path`) or from a module (importable from `directory`).

    `tools` names functions that become tools by their signature, and sets of tools of other frameworks, which are kept
    open. With `watch`, an edited file is imported again; an edit that cannot be imported is reported and leaves the
    tools as they were.
    """

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
        self.name = name
        self._path = path.resolve() if path is not None else None
        self._module = module
        self._directory = (directory or Path.cwd()).resolve()
        self._tools = tuple(tools)
        self._watch = watch

    async def run(self, publish: Publish) -> None:
        """Publish what is found; then wait for edits, if asked to, and for changes of what is kept open.

        Raises SourceError when nothing can be had.
        """
        read = self._stamps()
        loaded = self._load()
        if not self._watch:
            await served(loaded.boxes, PATIENCE, partial(_with, loaded.offer), publish)
            return
        serving = _Serving(publish)
        async with anyio.create_task_group() as tasks:
            await tasks.start(serving.serve_or_wait, loaded)
            async for again in self._loaded_again(read):
                await tasks.start(serving.serve_or_wait, again)

    def load(self) -> Offer:
        """Import everything and find what it offers; what cannot be imported is among the problems.

        What only opening a set of tools would tell is not in it.
        """
        return self._load().offer

    def _load(self) -> _Loaded:
        finds = Finds()
        problems: list[str] = []
        found: list[Offer] = []
        with without_bytecode():
            for module in self._modules(problems):
                try:
                    found.append(find(module, find_foreign(module, self._named(module), finds)))
                except SourceError as error:
                    problems.append(str(error))
        offer = joined(found, ())
        foreign, doubles = distinct(finds.tools, _names(offer))
        away = [*finds.problems, *doubles]
        offer = replace(offer, tools=[*offer.tools, *foreign])
        if not (problems or away or finds.boxes or offer.everything):
            hint = "Mark a function with @tool, @resource or @prompt, or name it in the settings"
            problems.append(f"{self._path or self._module}: no tools found. {hint}")
        return _Loaded(offer=replace(offer, problems=[*problems, *away]), boxes=finds.boxes, failed=problems)

    def _modules(self, problems: list[str]) -> Iterator[ModuleType]:
        if self._module is not None:
            loads: list[Callable[[], ModuleType]] = [partial(import_module, self._module, self._directory)]
        else:
            loads = [partial(import_file, path) for path in self._files(problems)]
        for load in loads:
            try:
                yield load()
            except SourceError as error:
                problems.append(str(error))

    def _files(self, problems: list[str]) -> list[Path]:
        assert self._path is not None
        if not self._path.exists():
            problems.append(f"{self._path}: no such file or folder")
            return []
        return _list_files(self._path)

    def _named(self, module: ModuleType) -> Sequence[str]:
        """In a folder each named function is looked for where it is."""
        if self._path is not None and self._path.is_dir():
            return [name for name in self._tools if hasattr(module, name)]
        return self._tools

    async def _loaded_again(self, read: Mapping[Path, int]) -> AsyncIterator[_Loaded]:
        """What is there after every edit; `read` tells which edits came before the watcher was there."""
        async for edited in _edits(self._root()):
            if edited or self._stamps() != read:
                forget_modules(self._root())
                loaded = self._load()
                for problem in loaded.failed:
                    logger.error("%s: the tools stay as they were", problem)
                if not loaded.failed:
                    yield loaded
                    logger.info(_RELOADED, self.name, *_counts(loaded.offer))
            read = self._stamps()

    def _stamps(self) -> dict[Path, int]:
        """When each of this source's own files was written last, in nanoseconds."""
        found = _list_files(self._path) if self._path is not None and self._path.exists() else []
        return {path: path.stat().st_mtime_ns for path in found if path.exists()}

    def _root(self) -> Path:
        """The folder whose files count as this source's own."""
        if self._path is not None:
            return self._path if self._path.is_dir() else self._path.parent
        return self._directory


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """What importing everything came to; `failed` are those of the problems for which an edit does not count."""

    offer: Offer
    boxes: Mapping[str, Toolbox]
    failed: Sequence[str]


class _Serving:
    """What is published now: what was loaded last, and what the sets of tools in it offer."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._last = anyio.CancelScope()

    async def serve_or_wait(
        self, loaded: _Loaded, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Publish it in the place of what was served before, which is closed then; started when that is done.

        Where there is nothing, the next edit may bring something.
        """
        with anyio.CancelScope() as scope:
            async with kept(loaded.boxes) as keeper:
                self._last.cancel()
                self._last = scope
                self._publish(_with(loaded.offer, keeper))
                task_status.started()
                while keeper.is_open:
                    await keeper.changed()
                    self._publish(_with(loaded.offer, keeper))


def _with(offer: Offer, keeper: Keeper) -> Offer:
    tools, doubles = distinct(keeper.tools, _names(offer))
    return replace(offer, tools=[*offer.tools, *tools], problems=[*offer.problems, *keeper.problems, *doubles])


def _names(offer: Offer) -> dict[str, str]:
    """The names that are taken, and what by."""
    return {entry.name: "the file itself" for entry in offer.tools}


def _counts(offer: Offer) -> tuple[int, int, int]:
    return len(offer.tools), len(offer.resources) + len(offer.templates), len(offer.prompts)


async def _edits(root: Path) -> AsyncIterator[bool]:
    """True after every edit below `root`; False when nothing has happened for half a second.

    That is also how long the end of serving has to wait for the watcher.
    """
    import watchfiles  # 30 ms, and only for --reload

    python = watchfiles.PythonFilter()
    watcher = watchfiles.awatch(
        root, watch_filter=python, debounce=200, step=20, rust_timeout=500, yield_on_timeout=True
    )
    async for changes in watcher:
        yield bool(changes)


def _list_files(target: Path) -> list[Path]:
    """Return the files that a path stands for: itself, or a folder's Python files that do not begin with `_`."""
    if target.is_file():
        return [target]
    return sorted(path for path in target.glob("*.py") if not path.name.startswith("_"))
