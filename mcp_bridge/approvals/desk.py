"""The desk: where a running bridge puts its questions to whoever approves at a terminal (docs/approvals.md)."""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

import anyio
from anyio.abc import SocketListener, SocketStream

from mcp_bridge.approvals import sockets
from mcp_bridge.approvals.decisions import Scope
from mcp_bridge.runtime.redaction import Redactor

logger = logging.getLogger("mcp_bridge.approvals")

APPROVERS = 16
"""The most of them at once."""
UNREAD = 256
"""The most messages that an approver may leave unread."""
ARRIVING = 1.0
"""Seconds after its start in which those who approve already have time to see a bridge."""
TRIES = 5
TEXT = 8_000
"""The most characters of a prompt, or of arguments, that are shown; how many more there are is said."""


@dataclass(eq=False)
class Waiting:
    """A question that is put to approvers."""

    number: int
    card: dict[str, Any]
    scopes: Sequence[Scope]
    choice: Scope | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)


class Approver:
    """One who is connected. What they do not read in time costs them their place, and nobody else anything."""

    def __init__(self, line: sockets.Line) -> None:
        self._line = line
        self._to_send, self._sending = anyio.create_memory_object_stream[sockets.Json](UNREAD)
        self.scope = anyio.CancelScope()

    def tell(self, message: sockets.Json) -> None:
        """Send a message, soon."""
        try:
            self._to_send.send_nowait(message)
        except anyio.WouldBlock:
            self.scope.cancel()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # just leaving
            pass

    async def hear(self) -> sockets.Json:
        """The next message. Raises as `Line.receive`."""
        return await self._line.receive()

    async def send(self) -> None:
        """Send what is to be sent, until they leave."""
        with self._to_send, self._sending:
            with suppress(*sockets.LOST):
                async for message in self._sending:
                    await self._line.send(message)
            self.scope.cancel()


class Desk:
    """Where a bridge called `name` asks whoever is connected to its socket in `folder`; the first answer counts.

    A question waits `wait` seconds for somebody to connect. The `redactor` leaves secrets out of what is shown.
    """

    def __init__(
        self, folder: Path, *, name: str = "mcp-bridge", wait: float = 0.0, redactor: Redactor | None = None
    ) -> None:
        self._folder = folder
        self._name = name
        self._wait = wait
        self._redactor = redactor or Redactor()
        self._numbers = itertools.count(1)
        self._approvers: set[Approver] = set()
        self._waiting: dict[int, Waiting] = {}
        self._arrived = anyio.Event()
        self._opened: float | None = None

    async def run(self) -> None:
        """Serve the socket until cancelled. Where it cannot be had the log says so, and nobody is asked here."""
        if not sockets.are_there():
            logger.info("this system has no sockets for those who approve at a terminal")
            return
        path = self._folder / f"{os.getpid()}-{token_hex(4)}{sockets.SUFFIX}"
        try:
            listener = self._listen(path)
        except OSError as error:
            logger.warning("nobody can approve at a terminal: %s", error)
            return
        try:
            await self._serve(listener)
        finally:
            with suppress(OSError):
                path.unlink()
                self._folder.rmdir()  # unless it is another bridge's too

    def _listen(self, path: Path) -> socket.socket:
        """Raises OSError where the folder or the socket cannot be had."""
        for _ in range(TRIES):
            sockets.private(self._folder)
            _clear(self._folder)
            with suppress(FileNotFoundError):  # another bridge has just ended, and the folder with it
                return _listening(path)
        raise FileNotFoundError(f"{self._folder} comes and goes")

    async def _serve(self, listening: socket.socket) -> None:
        self._opened = anyio.current_time()
        with listening:
            async with await SocketListener.from_socket(listening) as listener, anyio.create_task_group() as tasks:
                while True:
                    with suppress(OSError):  # no more descriptors, for a while
                        await listener.serve(self._welcome, tasks)
                    await anyio.sleep(1)

    async def ask(self, tool: str, arguments: Any, prompt: str, scopes: Sequence[Scope]) -> Scope | None:
        """What the first who answers has chosen; None where nobody is there, or everybody has left."""
        waiting = self._put(tool, arguments, prompt, scopes)
        try:
            while waiting.choice is None and await self._somebody():
                await waiting.settled.wait()
            return waiting.choice
        finally:
            del self._waiting[waiting.number]
            if waiting.choice is None:
                self._tell({"settled": waiting.number, "how": "withdrawn"})

    def _put(self, tool: str, arguments: Any, prompt: str, scopes: Sequence[Scope]) -> Waiting:
        number, hidden = next(self._numbers), self._redactor
        shown = json.dumps(hidden.value(arguments), ensure_ascii=False, default=repr)
        card = {
            "question": number,
            "tool": hidden.text(tool),
            "prompt": _cut(hidden.text(prompt)),
            "arguments": _cut(hidden.text(shown)),
            "scopes": list(scopes),
        }
        waiting = self._waiting[number] = Waiting(number, card, scopes)
        self._tell(card)
        return waiting

    async def _somebody(self) -> bool:
        """Wait for somebody to be there, as long as questions wait for that; at the start until they can have come."""
        left = self._opened + ARRIVING - anyio.current_time() if self._opened is not None else 0.0
        if not self._approvers and (patience := max(left, self._wait or 0.0)) > 0:
            with anyio.move_on_after(patience):
                while not self._approvers:
                    await self._arrived.wait()
        return bool(self._approvers)

    async def _welcome(self, stream: SocketStream) -> None:
        """One approver's visit; never raises."""
        async with sockets.Line(stream) as line:
            if not line.is_own:
                logger.warning("a process of another user tried to approve calls")
            elif len(self._approvers) >= APPROVERS:
                logger.warning("more than %d wanted to approve calls at once", APPROVERS)
            else:
                await self._visit(Approver(line))

    async def _visit(self, approver: Approver) -> None:
        approver.tell({"bridge": self._name, "pid": os.getpid()})
        for waiting in self._waiting.values():
            if waiting.choice is None:
                approver.tell(waiting.card)
        self._approvers.add(approver)
        self._arrived.set()
        self._arrived = anyio.Event()
        try:
            with approver.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(approver.send)
                    await self._hear(approver)
                    tasks.cancel_scope.cancel()
        finally:
            self._leave(approver)

    async def _hear(self, approver: Approver) -> None:
        try:
            while True:
                self._take(approver, await approver.hear())
        except sockets.LOST:
            pass
        except ValueError as error:
            logger.warning(
                "somebody who approves calls sent what is no message, and is let go: %s", type(error).__name__
            )

    def _take(self, approver: Approver, message: Mapping[str, Any]) -> None:
        """An answer: the first that fits settles a question, and everybody is told."""
        number, choice = message.get("answer"), message.get("choice")
        waiting = self._waiting.get(number) if type(number) is int else None
        if waiting is None or waiting.choice is not None:
            approver.tell({"late": number if type(number) is int else None})
        elif choice != "deny" and choice not in waiting.scopes:
            approver.tell({"unfit": waiting.number, "scopes": list(waiting.scopes)})
        else:
            waiting.choice = choice
            waiting.settled.set()
            for other in self._approvers:
                how = "yours" if other is approver else "another"
                other.tell({"settled": waiting.number, "how": how, "choice": choice})

    def _leave(self, approver: Approver) -> None:
        self._approvers.discard(approver)
        if not self._approvers:
            for waiting in self._waiting.values():
                settled, waiting.settled = waiting.settled, anyio.Event()
                settled.set()

    def _tell(self, message: sockets.Json) -> None:
        for approver in self._approvers:
            approver.tell(message)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]} … and {len(text) - TEXT} more characters"


def _listening(path: Path) -> socket.socket:
    """A socket that listens there. Made without waiting, so that an end in between leaves nothing. Raises OSError."""
    made, unready = socket.socket(socket.AF_UNIX), path.with_suffix(".new")
    try:
        made.setblocking(False)
        made.bind(str(unready))
        unready.chmod(0o600)
        made.listen()
        unready.rename(path)  # before anybody listens it would look like one that was left behind
    except BaseException:
        made.close()
        unready.unlink(missing_ok=True)
        raise
    return made


def _clear(folder: Path) -> None:
    """Remove the sockets of bridges that have not ended well."""
    for path in folder.glob(f"*{sockets.SUFFIX}"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                with suppress(OSError):
                    path.unlink()
            except OSError:
                pass
