"""PythonSource: imports, finds, publishes, and with `watch` does it again after every edit."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.extension import Publish
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.sources.python.loading import files, forget, fresh, load_file, load_module
from mcp_bridge.sources.python.shapes import find, joined

logger = logging.getLogger("mcp_bridge.sources.python")


class PythonSource:
    """Tools, resources and prompts from a file or folder (`path`) or from a module (importable from `directory`).

    `tools` names functions that become tools by their signature. With `watch`, an edited file is imported
    again; an edit that cannot be imported is reported and leaves the tools as they were.
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
        """Publish what is found; then wait for edits, if asked to. Raises SourceError when nothing can be imported."""
        read = self._stamps()
        offer = self.load()
        if offer.problems and not _all_of(offer) and not self._watch:
            raise SourceError("\n".join(offer.problems))
        publish(offer)
        if self._watch:
            await self._follow(publish, read)

    def load(self) -> Offer:
        """Import everything and find what it offers; what cannot be imported is among the problems."""
        problems: list[str] = []
        found: list[Offer] = []
        with fresh():
            for module in self._modules(problems):
                try:
                    found.append(find(module, self._named(module)))
                except SourceError as error:
                    problems.append(str(error))
        if not problems and not any(map(_all_of, found)):
            hint = "Mark a function with @tool, @resource or @prompt, or name it in the settings"
            problems.append(f"{self._path or self._module}: no tools found. {hint}")
        return joined(found, problems)

    def _modules(self, problems: list[str]) -> Iterator[ModuleType]:
        if self._module is not None:
            loads: list[Callable[[], ModuleType]] = [partial(load_module, self._module, self._directory)]
        else:
            loads = [partial(load_file, path) for path in self._files(problems)]
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
        return files(self._path)

    def _named(self, module: ModuleType) -> Sequence[str]:
        """In a folder each named function is looked for where it is."""
        if self._path is not None and self._path.is_dir():
            return [name for name in self._tools if hasattr(module, name)]
        return self._tools

    async def _follow(self, publish: Publish, read: Mapping[Path, int]) -> None:
        """Load again after every edit; `read` tells which edits came before the watcher was there."""
        async for edited in _edits(self._root()):
            if edited or self._stamps() != read:
                self._reload(publish)
            read = self._stamps()

    def _reload(self, publish: Publish) -> None:
        forget(self._root())
        offer = self.load()
        for problem in offer.problems:
            logger.error("%s: the tools stay as they were", problem)
        if not offer.problems:
            publish(offer)
            logger.info(
                "source %r reloaded: %d tools, %d resources and templates, %d prompts",
                self.name,
                len(offer.tools),
                len(offer.resources) + len(offer.templates),
                len(offer.prompts),
            )

    def _stamps(self) -> dict[Path, int]:
        """When each of this source's own files was written last, in nanoseconds."""
        found = files(self._path) if self._path is not None and self._path.exists() else []
        return {path: path.stat().st_mtime_ns for path in found if path.exists()}

    def _root(self) -> Path:
        """The folder whose files count as this source's own."""
        if self._path is not None:
            return self._path if self._path.is_dir() else self._path.parent
        return self._directory


def _all_of(offer: Offer) -> Sequence[Any]:
    return [*offer.tools, *offer.resources, *offer.templates, *offer.prompts]


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
