"""The server side of approvals at a terminal: sends the questions of a running server to `mcp-bridge approvals`."""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import anyio
from anyio.abc import SocketListener, SocketStream

from mcp_bridge._policies.approvals import connection
from mcp_bridge._policies.approvals.desk import Approver, Channel, OpenQuestion, QuestionDesk
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.unix_sockets import create_private_folder, has_unix_sockets

logger = logging.getLogger("mcp_bridge.approvals")

MAX_CONNECTIONS = 16
"""The maximum number of connections at once."""
MAX_UNREAD = 256
"""The maximum number of unread messages of a connection. One more closes it."""
CONNECT_TIME = 1.0
"""Seconds after the start that a question waits for the first connection, because clients search twice a second."""
MAX_TRIES = 5


class ApproverConnection:
    """A connected user. One who does not read is disconnected, and does not delay the others."""

    channel: Channel = "terminal"
    user = ""

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

    def can_answer(self, question: OpenQuestion) -> bool:
        """Whether this is a question for approval, not a form."""
        return bool(question.scopes)

    def show_question(self, question: OpenQuestion) -> None:
        """Send a question."""
        card = {"tool": question.tool, "prompt": question.message, "arguments": question.arguments}
        self.send_soon({"question": question.number, **card, "scopes": list(question.scopes)})

    def report_settled(self, question: OpenQuestion, answerer: Approver | None) -> None:
        """Send who has answered a question, or that it was withdrawn."""
        if question.answer is None:
            self.send_soon({"settled": question.number, "how": "withdrawn"})
        else:
            how = "yours" if answerer is self else "another"
            self.send_soon({"settled": question.number, "how": how, "choice": question.answer.value})

    async def send_all(self) -> None:
        """Send the waiting messages until the connection ends."""
        with self._sender, self._receiver:
            with suppress(*connection.CONNECTION_ERRORS):
                async for message in self._receiver:
                    await self.line.send(message)
            self.scope.cancel()


class ApprovalServer(QuestionDesk):
    """A desk to whose socket in `folder` users at terminals connect.

    Args:
        name: The name of the server, which users see.
        wait: Seconds that a question waits for a user to connect.
        ttl: Seconds that it waits for the answer of a user who is connected.
        redactor: Removes secrets from what users see.
    """

    serves_terminals = True

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "mcp-bridge",
        wait: float = 0.0,
        ttl: float = math.inf,
        redactor: Redactor | None = None,
    ) -> None:
        super().__init__(wait=wait, ttl=ttl, redactor=redactor)
        self._folder = folder
        self._name = name
        self._connections = 0
        self._opened: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether users can connect."""
        return self._opened is not None

    async def run(self) -> None:
        """Serve the socket until cancelled. If that is not possible it is logged, and no user is asked."""
        if not has_unix_sockets():
            logger.info("approvals in a terminal are not available: this system has no Unix sockets")
            return
        path = self._folder / f"{os.getpid()}-{token_hex(4)}{connection.SUFFIX}"
        try:
            listener = self._listen(path)
        except OSError as error:
            logger.warning("approvals in a terminal are not available: %s", error)
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

    def _compute_wait(self, question: OpenQuestion) -> float:
        if not question.scopes:  # a form, which no terminal can show
            return 0.0
        starting = self._opened + CONNECT_TIME - anyio.current_time() if self._opened is not None else 0.0
        return max(starting, self._wait)

    async def _serve_connection(self, stream: SocketStream) -> None:
        async with connection.JsonConnection(stream) as line:
            if not line.is_same_user:
                logger.warning("rejected a connection from another user to the approvals socket")
            elif self._connections >= MAX_CONNECTIONS:
                logger.warning("rejected a connection to the approvals socket: %d are open", MAX_CONNECTIONS)
            else:
                await self._serve_approver(ApproverConnection(line))

    async def _serve_approver(self, approver: ApproverConnection) -> None:
        approver.send_soon({"bridge": self._name, "pid": os.getpid()})
        self._connections += 1
        self.add_approver(approver)
        try:
            with approver.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(approver.send_all)
                    await self._receive_all(approver)
                    tasks.cancel_scope.cancel()
        finally:
            self._connections -= 1
            self.remove_approver(approver)

    async def _receive_all(self, approver: ApproverConnection) -> None:
        try:
            while True:
                self._apply_answer(approver, await approver.line.receive())
        except connection.CONNECTION_ERRORS:
            pass
        except ValueError as error:
            logger.warning("closed a connection to the approvals socket: invalid message (%s)", type(error).__name__)

    def _apply_answer(self, approver: ApproverConnection, message: Mapping[str, Any]) -> None:
        """Settle a question with the first valid answer."""
        number = message.get("answer")
        question = self.find_question(number) if type(number) is int else None
        if question is None or not approver.can_answer(question):
            approver.send_soon({"late": number if type(number) is int else None})
            return
        try:
            self.answer_question(question, message.get("choice"), approver)
        except ValueError:
            approver.send_soon({"unfit": question.number, "scopes": list(question.scopes)})


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
