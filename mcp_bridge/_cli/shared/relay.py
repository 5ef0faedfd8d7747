"""The relay: the process that a client starts with `serve --shared`. It copies lines between stdio and the server.

It uses neither asyncio nor anyio, whose import would take longer than everything else here, and it survives the server:
requests in flight receive an error, and the next message of the client starts a server again.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

from mcp_bridge._cli.shared.instance import SharedInstance
from mcp_bridge._cli.shared.launch import ServerConnection
from mcp_bridge._cli.shared.messages import SHUTDOWN_MESSAGE, MessageTracker, find_new_request, make_error
from mcp_bridge._runtime.line_splitter import LineSplitter
from mcp_bridge._runtime.terminal_text import escape_text

READ_SIZE = 65_536
"""The maximum number of bytes of one read."""
WRITE_SIZE = 4_096
"""PIPE_BUF: this much can be written without blocking once a descriptor polls as writable."""
MAX_BUFFERED = 1024 * 1024
"""Bytes that wait for one side before nothing more is read from the other."""
MAX_SERVER_LINE = 1024**3
"""The longest line of the server, which limits its results itself."""
DRAIN_TIMEOUT = 10.0
"""Seconds that requests in flight have after the end of input or a signal, unless the server names another time."""
START_TRIES = 3
"""How often a server is started or connected to, before the relay reports that it does not start."""
EXIT_TIMEOUT = 2.0
"""Seconds in which a server that has closed its connections ends."""
NO_START_MESSAGE = "The call has not run, because the shared server does not start. "
TOO_LONG = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: the line is too long"}}\n'


class StartError(Exception):
    """The server does not start. `code` is the exit code that it has ended with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Relay:
    """Copies lines between one client and its server. `connect` returns a connection, and raises OSError.

    `token` identifies the client to the server, and to the next one.
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
        self._find, self._connect = find, connect
        self._token = token
        self._source, self._sink = source, sink
        self._tracker = MessageTracker()
        self._instance: SharedInstance | None = None
        self._server: ServerConnection | None = None
        self._is_greeted = self._was_greeted = False
        self._tries = 0
        self._client_lines, self._server_lines = LineSplitter(), LineSplitter(MAX_SERVER_LINE)
        self._to_client, self._to_server = bytearray(), bytearray()
        self._drain = DRAIN_TIMEOUT
        self._deadline: float | None = None
        self._input_ended = self._is_over = False
        self._wakeup, self._wake = os.pipe()
        self._sink_poll = select.poll()
        self._sink_poll.register(sink, select.POLLOUT)

    def run(self) -> None:
        """Relay until the client has gone or a signal has come, and requests in flight are answered.

        Raises StartError if the server does not start before it has served this client.
        """
        self._handle_signals()
        self._connect_to_server()
        while not self._is_finished():
            self._step()
        self._finish()

    def _step(self) -> None:
        """Wait for something to happen, and handle it."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._sink, select.POLLOUT if self._to_client else 0)
        if not self._input_ended and len(self._to_server) < MAX_BUFFERED and len(self._to_client) < MAX_BUFFERED:
            poll.register(self._source, select.POLLIN)
        server = self._server.socket.fileno() if self._server is not None else -1
        if server >= 0:
            reads = select.POLLIN if len(self._to_client) < MAX_BUFFERED else 0
            poll.register(server, reads | (select.POLLOUT if self._to_server and self._is_greeted else 0))
        timeout = None if self._deadline is None else max(0.0, self._deadline - time.monotonic()) * 1000
        for descriptor, events in poll.poll(timeout):
            if descriptor == self._wakeup:
                self._receive_signals()
            elif descriptor == self._sink:
                self._is_over = self._is_over or bool(events & (select.POLLERR | select.POLLNVAL))
            elif descriptor == self._source:
                self._read_from_client()
            elif self._server is not None and descriptor == server and events & ~select.POLLOUT:
                self._read_from_server()
        self._write_to_server()
        self._write_to_client()

    # The client

    def _read_from_client(self) -> None:
        data = os.read(self._source, READ_SIZE)
        for line in self._client_lines.feed(data) if data else self._client_lines.finish():
            self._accept_client_line(line)
        if not data:
            self._input_ended = True
            self._begin_drain()

    def _accept_client_line(self, line: bytes | None) -> None:
        if line is None:
            self._to_client += TOO_LONG
            return
        if self._deadline is not None and (number := find_new_request(line)) is not None and not self._input_ended:
            self._to_client += make_error(number, SHUTDOWN_MESSAGE)
        elif self._tracker.accept_client_line(line):
            self._to_server += line + b"\n"
            if self._server is None:
                self._connect_to_server()

    def _write_to_client(self) -> None:
        view, written = memoryview(self._to_client), 0
        with view:
            try:
                while written < len(view) and not self._is_over and self._sink_poll.poll(0):
                    written += os.write(self._sink, view[written : written + WRITE_SIZE])
            except BlockingIOError:
                pass
            except OSError:
                self._is_over = True
        del self._to_client[:written]

    # The server

    def _connect_to_server(self) -> None:
        """Connect to the server. What waits for it is sent once it has greeted. Raises StartError for the first one."""
        while self._server is None:
            self._tries += 1
            try:
                self._instance = self._find()
                self._server = self._connect(self._instance)
                self._server.socket.sendall(f"{self._token}\n".encode())
                self._server.socket.setblocking(False)
                self._is_greeted = False
                self._server_lines = LineSplitter(MAX_SERVER_LINE)
            except OSError as error:
                if self._tries >= START_TRIES:
                    self._fail_start(StartError(f"cannot start the shared server: {error}", 1), str(error))
                    return

    def _write_to_server(self) -> None:
        if self._server is None or not self._is_greeted or not self._to_server:
            return
        with contextlib.suppress(OSError):  # full; or lost, which is handled once what it has sent is read
            del self._to_server[: self._server.socket.send(self._to_server)]

    def _read_from_server(self) -> None:
        assert self._server is not None
        try:
            data = self._server.socket.recv(READ_SIZE)
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
            self._is_greeted = self._was_greeted = True
            self._tries = 0
            self._to_server[:0] = b"".join(replay + b"\n" for replay in self._tracker.list_replays())
        elif self._tracker.accept_server_line(line):
            self._to_client += line + b"\n"
        if self._deadline is not None:
            self._to_server += b"".join(self._tracker.end_streams())

    def _lose_server(self) -> None:
        """Handle the end of the connection: by errors for what was sent, or another start if nothing was read yet."""
        server, self._server = self._server, None
        assert server is not None
        server.socket.close()
        if self._is_greeted:
            self._to_server.clear()
            self._to_client += b"".join(self._tracker.lose_server())
            return
        error = self._read_start_error(server)
        if error is not None or self._tries >= START_TRIES:
            assert self._instance is not None
            reason = f"The reason is in {self._instance.log}"  # which may contain what the tools have printed
            self._fail_start(error or StartError(f"the shared server does not start. {reason}", 1), reason)
        else:
            self._connect_to_server()

    def _read_start_error(self, server: ServerConnection) -> StartError | None:
        """Return why a server that this process has started has ended; None if another process has started it."""
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
        """Raise the error, or report it if the client has been served: `reason` is what the client receives."""
        if not self._was_greeted:
            raise error
        self._tries = 0
        self._to_server.clear()
        print(escape_text(str(error)), file=sys.stderr, flush=True)
        self._to_client += b"".join(self._tracker.lose_server(f"{NO_START_MESSAGE}{reason}"))

    # Shutdown

    def _handle_signals(self) -> None:
        for end in (self._wakeup, self._wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _ignore_signal)  # received through the wake-up descriptor

    def _receive_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in os.read(self._wakeup, 64):
                self._is_over = self._is_over or self._deadline is not None
                self._begin_drain()

    def _begin_drain(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._drain
            self._to_server += b"".join(self._tracker.end_streams())

    def _is_finished(self) -> bool:
        if self._deadline is None or self._is_over:
            return self._is_over
        is_idle = not (self._tracker.open_requests or self._to_client or (self._to_server and self._server is not None))
        return is_idle or time.monotonic() >= self._deadline

    def _finish(self) -> None:
        """Answer what is left, as far as the client still reads."""
        for number in self._tracker.open_requests:
            self._to_client += make_error(number, SHUTDOWN_MESSAGE)
        self._is_over = False
        self._write_to_client()
        if self._server is not None:
            with contextlib.suppress(OSError):
                self._server.socket.shutdown(socket.SHUT_RDWR)


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wake-up descriptor has received the signal."""
