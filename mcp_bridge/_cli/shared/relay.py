"""The relay: the process that a client starts with `serve --shared`. It copies lines between stdio and the server.

It uses neither asyncio nor anyio, because their import would take longer than everything else here. It is a loop over
`poll`, with a buffer for each side, in these states:

- **connecting**: `_connect_to_server` finds or starts the server, and sends the token of this client. Lines of the
  client wait in `_to_server` until the server sends its greeting. A server that is about to end accepts connections
  too, but closes them without a greeting. Then the relay connects again, at most `START_TRIES` times.
- **greeted**: lines go both ways, and the tracker follows them.
- **lost**: the server has ended. Requests in flight receive an error, and the next line of the client connects again.
- **draining**: the input has ended, or a signal has arrived. Requests in flight may finish until `_deadline`.

The relay ends with exit code 1, or with the code of the server, only if the very first server does not start.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sys
import time
from collections.abc import Callable

from mcp_bridge._cli.shared.instance import SharedInstance
from mcp_bridge._cli.shared.launch import ServerConnection, lock_folder
from mcp_bridge._cli.shared.messages import SHUTDOWN_MESSAGE, MessageTracker, find_new_request, make_error
from mcp_bridge._runtime.line_splitter import LineSplitter
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.platform.streams import streams
from mcp_bridge._runtime.terminal_text import escape_text

READ_SIZE = 65_536
"""The maximum number of bytes of one read."""
MAX_BUFFERED = 1024 * 1024
"""The number of bytes in the buffer for one side at which the relay stops reading from the other side."""
MAX_SERVER_LINE = 1024**3
"""The maximum length of a line of the server, which itself limits its results."""
DRAIN_TIMEOUT = 10.0
"""Seconds for requests in flight after the end of the input or a signal, unless the server declares another time."""
START_TRIES = 3
"""The number of attempts to connect to a server or to start one."""
EXIT_TIMEOUT = 2.0
"""Seconds in which a server that has closed its connections exits."""
NO_START_MESSAGE = "The call has not run, because the shared server does not start. "
TOO_LONG = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: the line is too long"}}\n'


class StartError(Exception):
    """The server does not start. `code` is its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Relay:
    """Copies lines between one client and its server.

    Args:
        find: Finds the server for this client. Raises OSError.
        connect: Connects to this server, and starts it if necessary. Raises OSError.
        token: Identifies the client to the server, and to a later one.
        source: The descriptor from which the client's lines are read.
        sink: The descriptor to which lines for the client are written.
    """

    def __init__(
        self,
        find: Callable[[], SharedInstance],
        connect: Callable[[SharedInstance], ServerConnection],
        token: str,
        *,
        source: int = 0,
        sink: int = 1,
    ) -> None:
        self._find = find
        self._connect = connect
        self._token = token
        self._source = streams.StreamReader(source)
        self._sink = streams.StreamWriter(sink)
        self._tracker = MessageTracker()
        self._instance: SharedInstance | None = None
        self._server: ServerConnection | None = None
        # Whether the current server, and whether any server, has sent its greeting.
        self._is_greeted = False
        self._was_greeted = False
        self._tries = 0
        self._client_lines = LineSplitter()
        self._server_lines = LineSplitter(MAX_SERVER_LINE)
        self._to_client = bytearray()
        self._to_server = bytearray()
        self._drain = DRAIN_TIMEOUT
        self._deadline: float | None = None
        self._input_ended = False
        self._is_over = False
        # A signal writes a byte to the second socket, which wakes the poll of the first one.
        self._wakeup, self._wake = socket.socketpair()

    def run(self) -> None:
        """Relay until the end of the input or a signal, and until requests in flight have their responses.

        Raises StartError if the server does not start before it has served this client.
        """
        self._handle_signals()
        self._connect_to_server()
        while not self._is_finished():
            self._step()
        self._finish()

    def _step(self) -> None:
        """Wait for something to happen, and handle it."""
        poll = streams.make_poll()
        wakeup, source, sink = self._wakeup.fileno(), self._source.fileno(), self._sink.fileno()
        poll.register(wakeup, streams.POLLIN)
        poll.register(sink, streams.POLLERR | (streams.POLLOUT if self._to_client else 0))
        if not self._input_ended and len(self._to_server) < MAX_BUFFERED and len(self._to_client) < MAX_BUFFERED:
            poll.register(source, streams.POLLIN)
        server = self._server.connection.socket.fileno() if self._server is not None else -1
        if server >= 0:
            server_events = 0
            if len(self._to_client) < MAX_BUFFERED:
                server_events |= streams.POLLIN
            if self._to_server and self._is_greeted:
                server_events |= streams.POLLOUT
            poll.register(server, server_events)
        timeout = None
        if self._deadline is not None:
            timeout = max(0.0, self._deadline - time.monotonic()) * 1000
        for descriptor, events in poll.poll(timeout):
            if descriptor == wakeup:
                self._receive_signals()
            elif descriptor == sink:
                # The client has closed its end.
                if events & (streams.POLLERR | streams.POLLNVAL):
                    self._is_over = True
            elif descriptor == source:
                self._read_from_client()
            elif self._server is not None and descriptor == server and events & ~streams.POLLOUT:
                self._read_from_server()
        self._write_to_server()
        self._write_to_client()

    # The methods below read from the client and write to it.

    def _read_from_client(self) -> None:
        data = self._source.read_some(READ_SIZE)
        lines = self._client_lines.feed(data) if data else self._client_lines.finish()
        for line in lines:
            self._accept_client_line(line)
        if not data:
            self._input_ended = True
            self._begin_drain()

    def _accept_client_line(self, line: bytes | None) -> None:
        """Pass a line to the server, or respond to it. None is a line with too many bytes."""
        if line is None:
            self._to_client += TOO_LONG
            return
        new_request = None
        # After a signal, new requests are rejected. The lines at the end of the input still belong to it.
        if self._deadline is not None and not self._input_ended:
            new_request = find_new_request(line)
        if new_request is not None:
            self._to_client += make_error(new_request, SHUTDOWN_MESSAGE)
        elif self._tracker.accept_client_line(line):
            self._to_server += line + b"\n"
            if self._server is None:
                self._connect_to_server()

    def _write_to_client(self) -> None:
        try:
            del self._to_client[: self._sink.write_now(self._to_client)]
        except OSError:
            self._is_over = True

    # The methods below connect to the server, read from it and write to it.

    def _connect_to_server(self) -> None:
        """Connect to the server. Raises StartError if no server has served this client yet."""
        while self._server is None:
            self._tries += 1
            try:
                self._instance = self._find()
                self._server = self._connect(self._instance)
                self._server.connection.socket.sendall(f"{self._token}\n".encode())
                self._server.connection.socket.setblocking(False)
                self._is_greeted = False
                self._server_lines = LineSplitter(MAX_SERVER_LINE)
            except OSError as error:
                if self._tries >= START_TRIES:
                    self._fail_start(StartError(f"cannot start the shared server: {error}", 1), str(error))
                    return

    def _write_to_server(self) -> None:
        if self._server is None or not self._is_greeted or not self._to_server:
            return
        # The buffer of the socket may be full. If the connection is lost, `_read_from_server` handles that.
        with contextlib.suppress(OSError):
            count = self._server.connection.socket.send(self._to_server)
            del self._to_server[:count]

    def _read_from_server(self) -> None:
        assert self._server is not None
        try:
            data = self._server.connection.receive(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for line in self._server_lines.feed(data):
            if line is not None:
                self._accept_server_line(line)
        if not data:
            self._lose_server()

    def _accept_server_line(self, line: bytes) -> None:
        if not self._is_greeted:
            self._drain = float(json.loads(line).get("drain", DRAIN_TIMEOUT))
            self._is_greeted = True
            self._was_greeted = True
            self._tries = 0
            # The replays come before the lines that have been waiting.
            self._to_server[:0] = b"".join(replay + b"\n" for replay in self._tracker.list_replays())
        elif self._tracker.accept_server_line(line):
            self._to_client += line + b"\n"
        if self._deadline is not None:
            self._to_server += b"".join(self._tracker.end_streams())

    def _lose_server(self) -> None:
        """Handle the end of the connection: respond to the requests by errors, or connect again without a greeting."""
        server = self._server
        assert server is not None
        self._server = None
        server.connection.socket.close()
        if not server.connection.is_verified and self._instance is not None:
            # The server was killed, and another program has its port. Another client may have started a new server.
            path = self._instance.socket
            with contextlib.suppress(OSError), lock_folder(path.parent):
                if server.connection.belongs_to(path):
                    path.unlink()
        if self._is_greeted:
            self._to_server.clear()
            self._to_client += b"".join(self._tracker.lose_server())
            return
        error = self._read_start_error(server)
        if error is not None or self._tries >= START_TRIES:
            assert self._instance is not None
            # The log may contain secrets in the output of tools, so the client gets only its path.
            reason = f"The reason is in {self._instance.log}"
            self._fail_start(error or StartError(f"the shared server does not start. {reason}", 1), reason)
        else:
            self._connect_to_server()

    def _read_start_error(self, server: ServerConnection) -> StartError | None:
        """Return why the server does not start, or None if it is running, or another process has started it."""
        if server.process is None or self._instance is None:
            return None
        import subprocess

        try:
            code = server.process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            return None
        with self._instance.log.open("rb") as log:
            log.seek(server.log_size)
            text = log.read().decode(errors="replace").strip()
        return StartError(text or f"the shared server has ended with code {code}", code if code > 0 else 1)

    def _fail_start(self, error: StartError, reason: str) -> None:
        """Raise the error, or report it if a server has served this client. The client receives the `reason`."""
        if not self._was_greeted:
            raise error
        self._tries = 0
        self._to_server.clear()
        print(escape_text(str(error)), file=sys.stderr, flush=True)
        self._to_client += b"".join(self._tracker.lose_server(f"{NO_START_MESSAGE}{reason}"))

    # The methods below end the relay.

    def _handle_signals(self) -> None:
        """Let signals wake the poll."""
        for end in (self._wakeup, self._wake):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in system.list_shutdown_signals():
            # The wake-up descriptor receives the signal.
            signal.signal(number, lambda number, frame: None)

    def _receive_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in self._wakeup.recv(64):
                # The first signal drains, and the second one ends the relay.
                if self._deadline is not None:
                    self._is_over = True
                self._begin_drain()

    def _begin_drain(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._drain
            self._to_server += b"".join(self._tracker.end_streams())

    def _is_finished(self) -> bool:
        if self._is_over:
            return True
        if self._deadline is None:
            return False
        has_lines_for_server = bool(self._to_server) and self._server is not None
        if self._tracker.open_requests or self._to_client or has_lines_for_server:
            return time.monotonic() >= self._deadline
        return True

    def _finish(self) -> None:
        """Respond to the remaining requests by errors, if the client still reads, and close the connection."""
        for request_id in self._tracker.open_requests:
            self._to_client += make_error(request_id, SHUTDOWN_MESSAGE)
        self._is_over = False
        self._write_to_client()
        self._sink.flush()
        if self._server is not None:
            with contextlib.suppress(OSError):
                self._server.connection.socket.shutdown(socket.SHUT_RDWR)
