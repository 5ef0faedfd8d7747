"""The other end of the desk: whoever approves, connected to every bridge of a folder that runs or comes to run."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream, TaskGroup

from mcp_bridge.approvals import sockets
from mcp_bridge.approvals.decisions import Scope

logger = logging.getLogger("mcp_bridge.approvals")

LOOK = 0.5
"""Seconds between two looks for bridges that have come."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A question of a bridge, with a number of our own."""

    number: int
    bridge: str
    tool: str
    prompt: str
    arguments: str
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class News:
    """What has become of a question: `yours`, `another`, `withdrawn`, `late`, `unfit`, or `lost` with its bridge."""

    number: int
    how: str
    choice: str = ""


Heard = Callable[[Asked | News], None]


class Visits:
    """Connections to the bridges of a folder. What they say is `heard`; `came` hears the name of each that appears."""

    def __init__(self, folder: Path, heard: Heard, came: Callable[[str], None] = lambda name: None) -> None:
        self._folder = folder
        self._heard = heard
        self._came = came
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[sockets.Line, int]] = {}
        self._visited: set[Path] = set()

    async def run(self) -> None:
        """Be connected to whoever is there, until cancelled. Raises PermissionError for a folder others could use."""
        async with anyio.create_task_group() as tasks:
            while True:
                if self._folder.exists():
                    sockets.private(self._folder)
                    for path in sorted(self._folder.glob(f"*{sockets.SUFFIX}")):
                        await self._visit(path, tasks)
                await anyio.sleep(LOOK)

    async def answer(self, number: int, choice: Scope) -> bool:
        """Answer a question; whether its bridge is still there to hear it."""
        if number not in self._open:
            return False
        line, theirs = self._open[number]
        try:
            await line.send({"answer": theirs, "choice": choice})
        except sockets.LOST:
            return False
        return True

    async def _visit(self, path: Path, tasks: TaskGroup) -> None:
        if path in self._visited:
            return
        try:
            stream = await anyio.connect_unix(path)
        except OSError:  # it has just ended, or not ended well
            return
        self._visited.add(path)
        tasks.start_soon(self._stay, path, stream)

    async def _stay(self, path: Path, stream: SocketStream) -> None:
        mine: dict[int, int] = {}
        try:
            async with sockets.Line(stream) as line:
                if line.is_own:
                    await self._listen(line, mine)
                else:
                    logger.warning("%s is served by another user", path)
        except (*sockets.LOST, ValueError, KeyError, TypeError) as error:
            logger.debug("a bridge has gone: %r", error)
        except anyio.get_cancelled_exc_class():
            mine.clear()  # the person has left, and no bridge has ended
            raise
        finally:
            self._visited.discard(path)
            for number in mine.values():
                if self._open.pop(number, None) is not None:
                    self._heard(News(number, "lost"))

    async def _listen(self, line: sockets.Line, mine: dict[int, int]) -> None:
        hello = await line.receive()
        name = f"{hello['bridge']} ({int(hello['pid'])})"
        self._came(name)
        while True:
            message = await line.receive()
            if "question" in message:
                number = mine[int(message["question"])] = next(self._numbers)
                self._open[number] = line, int(message["question"])
                self._heard(_asked(number, name, message))
            else:
                self._tell(message, mine)

    def _tell(self, message: dict[str, Any], mine: dict[int, int]) -> None:
        kind = next((key for key in ("settled", "late", "unfit") if key in message), None)
        number = mine.get(message[kind]) if kind is not None else None
        if number is None:
            return
        if kind != "unfit":
            self._open.pop(number, None)
        self._heard(News(number, str(message.get("how", kind)), str(message.get("choice", ""))))


def _asked(number: int, bridge: str, message: dict[str, Any]) -> Asked:
    scopes = tuple(str(scope) for scope in message["scopes"])
    tool, prompt, arguments = (str(message[key]) for key in ("tool", "prompt", "arguments"))
    return Asked(number, bridge, tool, prompt, arguments, scopes)
