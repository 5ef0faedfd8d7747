"""WorkerGroup: the processes of one HTTP server, as one of them sees them (`http.workers`).

The supervisor accepts all connections, and passes each to a worker in turn. Each worker has an inbox in a private
folder, whose name is that of the worker. Ids of sessions and sealed request states begin with the name of the worker
that made them. If another worker receives a request with one, it passes the connection on, with the request
(`_transports/http1/handover.py`). From then on, that worker has the connection.

A worker that is replaced or ends is no longer active: its inbox gets the suffix RETIRED. It only serves what it has
begun, and passes other requests to active workers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR
from mcp_bridge._runtime.platform.socket_passing import SocketInbox, send_socket
from mcp_bridge._transports.http.request import ClientDisconnected, HttpRejection, HttpRequest, make_rejection
from mcp_bridge._transports.http.sessions import SESSION_ID
from mcp_bridge._transports.http1.handover import CONNECTION, HandoverConnection, format_request
from mcp_bridge._transports.shutdown import is_new_request

if TYPE_CHECKING:
    from mcp_bridge._transports.http.admission import Admission
    from mcp_bridge._transports.http1.asgi import AsgiMessage
    from mcp_bridge._transports.http1.pool import ConnectionPool

logger = logging.getLogger("mcp_bridge.transports")

NAME_LENGTH = 4
"""The number of characters of a name, which are hexadecimal digits."""
STATE_SEPARATOR = ":"
"""What separates the name of a worker from a sealed request state."""
RETIRED = ".retired"
STARTING = ".starting"
RECEIVE_BATCH = 64
"""The maximum number of connections that are received in one step of the event loop."""
RETRY_DELAY = 0.001
"""Seconds between two attempts to pass a connection to a worker whose inbox is full."""
SEND_TIMEOUT = 5.0
"""Seconds after which a request is rejected if the inbox of its worker is still full."""
FETCH_TIMEOUT = 2.0
"""Seconds in which another worker has to report its health or its metrics."""
_NAME = re.compile(f"[0-9a-f]{{{NAME_LENGTH}}}")


class WorkerGroup:
    """The workers of a server, in the worker with this name. Raises OSError if its inbox cannot be opened."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self._inbox = SocketInbox(folder / f"{name}{STARTING}")
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self) -> None:
        """Let other workers pass requests to this one."""
        self._inbox.rename(self.name)

    def retire(self) -> None:
        """Let other workers pass no more requests to this one. The supervisor may have done so already."""
        with suppress(FileNotFoundError):
            self._inbox.rename(f"{self.name}{RETIRED}")

    def has_others(self) -> bool:
        """Return whether there are other active workers."""
        return bool(self._list_others())

    def accept_connections(self, pool: ConnectionPool) -> None:
        asyncio.get_running_loop().add_reader(self._inbox.socket, self._receive_connections, pool)

    async def leave(self, pool: ConnectionPool) -> None:
        """Pass idle connections to other workers, and accept no more."""
        asyncio.get_running_loop().remove_reader(self._inbox.socket)
        self._inbox.refuse()
        self._receive_connections(pool)
        if self._tasks:
            await asyncio.wait(self._tasks)
        for connection in list(pool.connections):
            if isinstance(connection, HandoverConnection) and connection.can_leave(0):
                await self._pass_on(connection, b"", self._list_others(), requests=0)
        self._inbox.close()

    async def route(self, request: HttpRequest, admission: Admission, limit: int) -> None:
        """Pass a request on if another worker has its session or its call, or if this one is replaced.

        Raises ClientDisconnected if another worker has received the request, and HttpRejection. A session of a replaced
        worker accepts no new calls: it seems unknown, so that the client opens a new one.
        """
        # Other workers connect over Unix sockets, and clients have the address of a TCP socket.
        if request.scope["client"] is None:
            return
        owner = _find_session_owner(request)
        body = b""
        if request.method == "POST":
            body = await request.read_body(limit)
            _restore_body(request, body)
            if owner is None:
                owner = _find_call_owner(body)
        targets: list[Path] = []
        if owner is not None and owner != self.name:
            targets = [self._folder / owner, self._folder / f"{owner}{RETIRED}"]
        elif owner is None and admission.is_ending:
            targets = self._list_others()
        elif admission.is_ending and SESSION_ID in request.headers and _is_call(body) and self.has_others():
            raise make_rejection(404, "Session not found")
        connection = request.scope[CONNECTION]
        if targets and await self._pass_on(connection, format_request(request.scope, body), targets, requests=1):
            raise ClientDisconnected

    async def fetch_bodies(self, request: HttpRequest) -> dict[str, bytes]:
        """Send a GET request to all other workers, and return the body of each response. It is empty without one."""
        data = format_request(request.scope, b"", is_last=True)
        inboxes = self._list_others()
        bodies = await asyncio.gather(*(self._fetch_body(inbox, data) for inbox in inboxes))
        return {inbox.name: body for inbox, body in zip(inboxes, bodies, strict=True)}

    async def describe_health(self, request: HttpRequest, health: Mapping[str, Any]) -> dict[str, Any]:
        """Return the health of this worker and of the others, by their names."""
        reports: dict[str, Any] = {self.name: dict(health)}
        for name, body in (await self.fetch_bodies(request)).items():
            reports[name] = orjson.loads(body) if body else {"status": "unavailable"}
        return reports

    async def merge_metrics(self, request: HttpRequest, metrics: bytes) -> bytes:
        """Merge the metrics of this worker with those of the others. Each sample gets the label `worker`."""
        # Only a server with metrics has the package that this module imports.
        from mcp_bridge._server.prometheus import merge_metrics

        return merge_metrics({self.name: metrics, **await self.fetch_bodies(request)})

    def _list_others(self) -> list[Path]:
        """List the inboxes of other active workers in random order."""
        inboxes = []
        for path in self._folder.iterdir():
            if _NAME.fullmatch(path.name) and path.name != self.name:
                inboxes.append(path)
        random.shuffle(inboxes)
        return inboxes

    async def _pass_on(
        self, connection: HandoverConnection, data: bytes, targets: Sequence[Path], *, requests: int
    ) -> bool:
        """Pass a connection to the first of these workers that runs. Return whether one has received it.

        Raises HttpRejection if the connection has more than this number of requests, or the inbox stays full.
        """
        deadline = asyncio.get_running_loop().time() + SEND_TIMEOUT
        for inbox in targets:
            while connection.can_leave(requests):
                try:
                    is_sent = send_socket(inbox, connection.descriptor, data)
                except BlockingIOError:
                    if asyncio.get_running_loop().time() > deadline:
                        raise _make_busy_rejection() from None
                    await asyncio.sleep(RETRY_DELAY)
                    continue
                if is_sent:
                    connection.leave()
                    return True
                break
            else:
                if requests:
                    raise _make_busy_rejection()
                return False
        return False

    def _receive_connections(self, pool: ConnectionPool) -> None:
        for _ in range(RECEIVE_BATCH):
            try:
                message = self._inbox.receive_socket()
            except OSError as error:
                logger.warning("a connection was lost between two workers: %s", error)
                continue
            if message is None:
                return
            task = asyncio.get_running_loop().create_task(_open_connection(pool, *message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _fetch_body(self, inbox: Path, data: bytes) -> bytes:
        local, remote = socket.socketpair()
        with local:
            with remote:
                try:
                    if not send_socket(inbox, remote.fileno(), data):
                        return b""
                except BlockingIOError:
                    return b""
            local.setblocking(False)
            loop = asyncio.get_running_loop()
            chunks: list[bytes] = []
            try:
                async with asyncio.timeout(FETCH_TIMEOUT):
                    while chunk := await loop.sock_recv(local, 1 << 16):
                        chunks.append(chunk)
            except (TimeoutError, ConnectionError):
                return b""
        return b"".join(chunks).partition(b"\r\n\r\n")[2]


async def _open_connection(pool: ConnectionPool, client: socket.socket, received: bytes) -> None:
    client.setblocking(False)
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: HandoverConnection(pool, received), client)
    except OSError:
        # The client has just disconnected.
        client.close()


def _find_session_owner(request: HttpRequest) -> str | None:
    """Return the name of the worker that made the session of a request, or None without a session."""
    session_id = request.get_header(SESSION_ID)
    if session_id is None and request.scope["query_string"]:
        session_id = parse_qs(request.scope["query_string"].decode("latin-1")).get("session_id", [""])[0]
    return _read_name(session_id or "")


def _find_call_owner(body: bytes) -> str | None:
    """Return the name of the worker that has issued the request state in a body, or None without one."""
    # Most requests have none, and are parsed only once, by the endpoint.
    if b'"requestState"' not in body:
        return None
    try:
        state = orjson.loads(body)["params"]["requestState"]
    except (ValueError, LookupError, TypeError):
        return None
    if not isinstance(state, str) or STATE_SEPARATOR not in state:
        return None
    return _read_name(state)


def _is_call(body: bytes) -> bool:
    try:
        message = orjson.loads(body)
    except ValueError:
        return False
    return isinstance(message, dict) and is_new_request(message)


def _read_name(text: str) -> str | None:
    match = _NAME.match(text)
    return match[0] if match is not None else None


def _restore_body(request: HttpRequest, body: bytes) -> None:
    """Let the next `read_body` of a request return this body."""
    receive = request.receive

    async def receive_body() -> AsgiMessage:
        request.receive = receive
        return {"type": "http.request", "body": body, "more_body": False}

    request.receive = receive_body


def _make_busy_rejection() -> HttpRejection:
    text = "The process of this session cannot take over the connection. Send one request at a time."
    return make_rejection(503, text, [(b"retry-after", b"1")], code=INTERNAL_ERROR)
