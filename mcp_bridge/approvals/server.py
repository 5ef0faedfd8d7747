"""The server side of approvals at a terminal: sends the questions of a running server to `mcp-bridge approvals`."""

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

from mcp_bridge.approvals import connection
from mcp_bridge.approvals.decisions import Scope
from mcp_bridge.runtime.redaction import Redactor
from mcp_bridge.runtime.unix_sockets import create_private_folder, has_unix_sockets

logger = logging.getLogger("mcp_bridge.approvals")

MAX_CONNECTIONS = 16
"""The most connections at once."""
MAX_UNREAD = 256
"""The most unread messages of a connection. One more ends it."""
CONNECT_TIME = 1.0
"""Seconds after the start that a question waits for the first connection, because clients search twice a second."""
MAX_TRIES = 5
MAX_TEXT = 8_000
"""The most characters of a prompt, or of arguments, that are sent; the number of further ones is appended."""


@dataclass(eq=False)
class OpenQuestion:
    """A question that is not answered yet."""

    number: int
    card: dict[str, Any]
    scopes: Sequence[Scope]
    choice: Scope | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)


class ApproverConnection:
    """A connected user. One who does not read is disconnected, and does not delay the others."""

    def __init__(self, line: connection.JsonConnection) -> None:
        self.line = line
        self._sender, self._receiver = anyio.create_memory_object_stream[connection.Json](MAX_UNREAD)
        self.scope = anyio.CancelScope()

    def send_soon(self, message: connection.Json) -> None:
        """Queue a message. A full queue disconnects the user."""
        try:
            self._sender.send_nowait(message)
        except anyio.WouldBlock:
            self.scope.cancel()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # is being disconnected
            pass

    async def send_all(self) -> None:
        """Send the waiting messages until the connection ends."""
        with self._sender, self._receiver:
            with suppress(*connection.CONNECTION_ERRORS):
                async for message in self._receiver:
                    await self.line.send(message)
            self.scope.cancel()


class ApprovalServer:
    """Asks all users that are connected to the socket of this server in `folder`. The first answer counts.

    Args:
        name: The name of the server, which users see.
        wait: Seconds that a question waits for a user to connect.
        redactor: Removes secrets from what users see.
    """

    def __init__(
        self, folder: Path, *, name: str = "mcp-bridge", wait: float = 0.0, redactor: Redactor | None = None
    ) -> None:
        self._folder = folder
        self._name = name
        self._wait = wait
        self._redactor = redactor or Redactor()
        self._numbers = itertools.count(1)
        self._approvers: set[ApproverConnection] = set()
        self._waiting: dict[int, OpenQuestion] = {}
        self._arrived = anyio.Event()
        self._opened: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether users can connect."""
        return self._opened is not None

    async def run(self) -> None:
        """Serve the socket until cancelled. If that is not possible it is logged, and no user is asked."""
        if not has_unix_sockets():
            logger.info("approvals at a terminal are not available: this system has no Unix sockets")
            return
        path = self._folder / f"{os.getpid()}-{token_hex(4)}{connection.SUFFIX}"
        try:
            listener = self._listen(path)
        except OSError as error:
            logger.warning("approvals at a terminal are not available: %s", error)
            return
        try:
            await self._serve(listener)
        finally:
            with suppress(OSError):
                path.unlink()
                self._folder.rmdir()  # fails if another server has a socket there

    def _listen(self, path: Path) -> socket.socket:
        for _ in range(MAX_TRIES):
            create_private_folder(self._folder)
            _remove_stale_sockets(self._folder)
            with suppress(FileNotFoundError):  # another server has just ended, and removed the folder
                return _open_socket(path)
        raise FileNotFoundError(f"other servers keep removing {self._folder}")

    async def _serve(self, listening: socket.socket) -> None:
        self._opened = anyio.current_time()
        with listening:
            async with await SocketListener.from_socket(listening) as listener, anyio.create_task_group() as tasks:
                while True:
                    with suppress(OSError):  # no file descriptors left for now
                        await listener.serve(self._serve_connection, tasks)
                    await anyio.sleep(1)

    async def ask_users(self, tool: str, arguments: Any, prompt: str, scopes: Sequence[Scope]) -> Scope | None:
        """Return the choice of the first user who answers, None if no user is connected or all have left."""
        waiting = self._add_question(tool, arguments, prompt, scopes)
        try:
            while waiting.choice is None and await self._wait_for_user():
                await waiting.settled.wait()
            return waiting.choice
        finally:
            del self._waiting[waiting.number]
            if waiting.choice is None:
                self._send_to_all({"settled": waiting.number, "how": "withdrawn"})

    def _add_question(self, tool: str, arguments: Any, prompt: str, scopes: Sequence[Scope]) -> OpenQuestion:
        number, redactor = next(self._numbers), self._redactor
        shown = json.dumps(redactor.redact_value(arguments), ensure_ascii=False, default=repr)
        card = {
            "question": number,
            "tool": redactor.redact_text(tool),
            "prompt": _truncate(redactor.redact_text(prompt)),
            "arguments": _truncate(redactor.redact_text(shown)),
            "scopes": list(scopes),
        }
        waiting = self._waiting[number] = OpenQuestion(number, card, scopes)
        self._send_to_all(card)
        return waiting

    async def _wait_for_user(self) -> bool:
        """Wait until a user is connected, but no longer than a question may wait. Return whether one is."""
        starting = self._opened + CONNECT_TIME - anyio.current_time() if self._opened is not None else 0.0
        if not self._approvers and (seconds := max(starting, self._wait or 0.0)) > 0:
            with anyio.move_on_after(seconds):
                while not self._approvers:
                    await self._arrived.wait()
        return bool(self._approvers)

    async def _serve_connection(self, stream: SocketStream) -> None:
        async with connection.JsonConnection(stream) as line:
            if not line.is_same_user:
                logger.warning("rejected a connection from another user to the approvals socket")
            elif len(self._approvers) >= MAX_CONNECTIONS:
                logger.warning("rejected a connection to the approvals socket: %d are open", MAX_CONNECTIONS)
            else:
                await self._serve_approver(ApproverConnection(line))

    async def _serve_approver(self, approver: ApproverConnection) -> None:
        approver.send_soon({"bridge": self._name, "pid": os.getpid()})
        for waiting in self._waiting.values():
            if waiting.choice is None:
                approver.send_soon(waiting.card)
        self._approvers.add(approver)
        self._arrived.set()
        self._arrived = anyio.Event()
        try:
            with approver.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(approver.send_all)
                    await self._receive_all(approver)
                    tasks.cancel_scope.cancel()
        finally:
            self._disconnect(approver)

    async def _receive_all(self, approver: ApproverConnection) -> None:
        try:
            while True:
                self._apply_answer(approver, await approver.line.receive())
        except connection.CONNECTION_ERRORS:
            pass
        except ValueError as error:
            logger.warning("closed a connection to the approvals socket: invalid message (%s)", type(error).__name__)

    def _apply_answer(self, approver: ApproverConnection, message: Mapping[str, Any]) -> None:
        """Settle a question with the first valid answer, and report that to all users."""
        number, choice = message.get("answer"), message.get("choice")
        waiting = self._waiting.get(number) if type(number) is int else None
        if waiting is None or waiting.choice is not None:
            approver.send_soon({"late": number if type(number) is int else None})
        elif choice != "deny" and choice not in waiting.scopes:
            approver.send_soon({"unfit": waiting.number, "scopes": list(waiting.scopes)})
        else:
            waiting.choice = choice
            waiting.settled.set()
            for other in self._approvers:
                how = "yours" if other is approver else "another"
                other.send_soon({"settled": waiting.number, "how": how, "choice": choice})

    def _disconnect(self, approver: ApproverConnection) -> None:
        self._approvers.discard(approver)
        if not self._approvers:
            for waiting in self._waiting.values():
                settled, waiting.settled = waiting.settled, anyio.Event()
                settled.set()

    def _send_to_all(self, message: connection.Json) -> None:
        for approver in self._approvers:
            approver.send_soon(message)


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} … and {len(text) - MAX_TEXT} more characters"


def _open_socket(path: Path) -> socket.socket:
    """Open a listening socket without blocking, so that nothing is left behind by a shutdown. Raises OSError."""
    listening, unready = socket.socket(socket.AF_UNIX), path.with_suffix(".new")
    try:
        listening.setblocking(False)
        listening.bind(str(unready))
        unready.chmod(0o600)
        listening.listen()
        unready.rename(path)  # a socket without a listener would look stale
    except BaseException:
        listening.close()
        unready.unlink(missing_ok=True)
        raise
    return listening


def _remove_stale_sockets(folder: Path) -> None:
    for path in folder.glob(f"*{connection.SUFFIX}"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                with suppress(OSError):
                    path.unlink()
            except OSError:
                pass
