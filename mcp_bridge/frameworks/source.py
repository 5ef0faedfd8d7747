"""FrameworkSource: finds the objects that the settings name, opens those with a life, and publishes their tools."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.extension import Publish
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.frameworks.finding import Finds, distinct, unknown
from mcp_bridge.frameworks.keeping import PATIENCE, Keeper, served
from mcp_bridge.frameworks.references import is_factory, made_by
from mcp_bridge.runtime.python_import import import_attribute
from mcp_bridge.runtime.third_party import described


class FrameworkSource:
    """Tools of LangChain, pydantic-ai, FastMCP and others, as they are.

    `objects` are references as `module:attribute`, importable from `directory`, to tools, sets of tools, lists of
    either, and functions without arguments that make one of these. `utcp` are the files of UTCP manuals. What may take
    longer than `open_timeout` seconds to be made, opened or listed is given up (None: it may take as long as it likes).
    """

    def __init__(
        self,
        name: str,
        *,
        objects: Sequence[str] = (),
        utcp: Sequence[Path] = (),
        directory: Path | None = None,
        open_timeout: float | None = PATIENCE,
    ) -> None:
        self.name = name
        self._objects = tuple(objects)
        self._utcp = tuple(utcp)
        self._directory = (directory or Path.cwd()).resolve()
        self._patience = open_timeout

    async def run(self, publish: Publish) -> None:
        """Publish what is found, and again after every change. Raises SourceError when nothing can be had."""
        finds = await self._find()
        await served(finds.boxes, self._patience, partial(_offer, finds), publish)

    async def _find(self) -> Finds:
        finds = Finds()
        for reference in self._objects:
            try:
                await self._take(finds, reference)
            except SourceError as error:
                finds.problems.append(_at(reference, str(error)))
        for path in self._utcp:
            self._read(finds, path)
        return finds

    async def _take(self, finds: Finds, reference: str) -> None:
        thing = import_attribute(reference, self._directory)
        if finds.add(reference, thing):
            return
        if is_factory(thing):
            made = await made_by(thing, reference, self._patience)
            if not finds.add(reference, made):
                finds.problems.append(unknown(f"{reference}()", made))
            return
        finds.problems.append(unknown(reference, thing))

    def _read(self, finds: Finds, path: Path) -> None:
        from mcp_bridge.frameworks.utcp import read_manual

        try:
            manual = read_manual(path)
        except Exception as error:
            text = str(error) if isinstance(error, SourceError) else described(error)
            finds.problems.append(text if str(path) in text else f"{path}: {text}")
            return
        if not finds.add(str(path), manual):
            finds.problems.append(unknown(str(path), manual))


def _offer(finds: Finds, keeper: Keeper) -> Offer:
    """All of it, as it is now; of two tools of one name, the first."""
    tools, doubles = distinct([*finds.tools, *keeper.tools])
    return Offer(tools=tools, problems=[*finds.problems, *keeper.problems, *doubles])


def _at(reference: str, problem: str) -> str:
    return problem if reference in problem else f"'{reference}': {problem}"
