"""The client side of approvals at a terminal: connects to every running server of a folder, and receives questions."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream, TaskGroup

from mcp_bridge._policies.approvals import connection
from mcp_bridge._policies.approvals.decisions import Scope
from mcp_bridge._runtime.unix_sockets import create_private_folder

logger = logging.getLogger("mcp_bridge.approvals")

SEARCH_INTERVAL = 0.5
"""Seconds between two searches for new servers."""


@dataclass(frozen=True, eq=False)
class TerminalQuestion:
    """A question of a server. `number` is unique among all servers of the folder."""

    number: int
    bridge: str
    tool: str
    prompt: str
    arguments: str
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class QuestionUpdate:
    """A change of a question's state.

    `how` is `yours` or `another` (who answered), `withdrawn`, `late`, `unfit` (not a choice) or `lost` (server ended).
    """

    number: int
    how: str
    choice: str = ""


MessageHandler = Callable[[TerminalQuestion | QuestionUpdate], None]


class ApprovalClient:
    """Connections to the servers of a folder.

    `on_message` receives their messages, `on_connect` the name of each server that appears.
    """

    def __init__(
        self, folder: Path, on_message: MessageHandler, on_connect: Callable[[str], None] = lambda name: None
    ) -> None:
        self._folder = folder
        self._on_message = on_message
        self._on_connect = on_connect
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[connection.JsonConnection, int]] = {}
        self._connected: set[Path] = set()

    async def run(self) -> None:
        """Stay connected to all servers until cancelled. Raises PermissionError if others can write to the folder."""
        async with anyio.create_task_group() as tasks:
            while True:
                if self._folder.exists():
                    create_private_folder(self._folder)
                    for path in sorted(self._folder.glob(f"*{connection.SUFFIX}")):
                        await self._connect(path, tasks)
                await anyio.sleep(SEARCH_INTERVAL)

    async def answer_question(self, number: int, choice: Scope) -> bool:
        """Answer a question. Return False if its server is no longer connected."""
        if number not in self._open:
            return False
        line, question = self._open[number]
        try:
            await line.send({"answer": question, "choice": choice})
        except connection.CONNECTION_ERRORS:
            return False
        return True

    async def _connect(self, path: Path, tasks: TaskGroup) -> None:
        if path in self._connected:
            return
        try:
            stream = await anyio.connect_unix(path)
        except OSError:  # the server has just ended, or left its socket behind
            return
        self._connected.add(path)
        tasks.start_soon(self._serve_connection, path, stream)

    async def _serve_connection(self, path: Path, stream: SocketStream) -> None:
        numbers: dict[int, int] = {}
        try:
            async with connection.JsonConnection(stream) as line:
                if line.is_same_user:
                    await self._receive_all(line, numbers)
                else:
                    logger.warning("%s is served by another user", path)
        except (*connection.CONNECTION_ERRORS, ValueError, KeyError, TypeError) as error:
            logger.debug("lost the connection to a server: %r", error)
        except anyio.get_cancelled_exc_class():
            numbers.clear()  # the user has left; the server has not ended
            raise
        finally:
            self._connected.discard(path)
            for number in numbers.values():
                if self._open.pop(number, None) is not None:
                    self._on_message(QuestionUpdate(number, "lost"))

    async def _receive_all(self, line: connection.JsonConnection, numbers: dict[int, int]) -> None:
        hello = await line.receive()
        name = f"{hello['bridge']} ({int(hello['pid'])})"
        self._on_connect(name)
        while True:
            message = await line.receive()
            if "question" in message:
                number = numbers[int(message["question"])] = next(self._numbers)
                self._open[number] = line, int(message["question"])
                self._on_message(_parse_question(number, name, message))
            else:
                self._update(message, numbers)

    def _update(self, message: dict[str, Any], numbers: dict[int, int]) -> None:
        kind = next((key for key in ("settled", "late", "unfit") if key in message), None)
        number = numbers.get(message[kind]) if kind is not None else None
        if number is None:
            return
        if kind != "unfit":
            self._open.pop(number, None)
        self._on_message(QuestionUpdate(number, str(message.get("how", kind)), str(message.get("choice", ""))))


def _parse_question(number: int, bridge: str, message: dict[str, Any]) -> TerminalQuestion:
    scopes = tuple(str(scope) for scope in message["scopes"])
    tool, prompt, arguments = (str(message[key]) for key in ("tool", "prompt", "arguments"))
    return TerminalQuestion(number, bridge, tool, prompt, arguments, scopes)
