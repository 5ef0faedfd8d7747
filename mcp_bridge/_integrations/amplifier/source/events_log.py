"""The events log: a line of JSON for each event of a session, in the format of Amplifier's module hooks-logging.

Hook handlers format the lines, and a background thread writes them, so no disk holds up a call.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from mcp_bridge._integrations.amplifier.events import ALL_EVENTS
from mcp_bridge._integrations.amplifier.sessions.client_session import EVENTS_LOG
from mcp_bridge._integrations.amplifier.source.status import collect_contributions
from mcp_bridge._json_schema.secret_names import is_secret_key
from mcp_bridge._protocol.wire.values import Unreadable, sanitize_text, to_plain
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.redaction import MARK, Redactor

logger = logging.getLogger("mcp_bridge.amplifier")

MAX_BYTES = 10 * 1024 * 1024  # size at which a file is rotated
BACKUPS = 3  # how many rotated files are kept: `NAME.1` is the newest
MAX_PENDING = 16 * 1024 * 1024  # bytes that may wait for a slow disk. Lines beyond that are dropped and counted
PATIENCE = 5.0  # seconds that a shutdown waits for the pending lines
SCHEMA = {"name": "amplifier.log", "ver": "1.0.0"}
EVENTS_CHANNEL = "observability.events"  # channel and capability in which modules list the events that they emit
SESSION = "{session_id}"  # placeholder in a path
LAST = 2**31 - 1  # the lowest priority, so that a line shows the data as all other handlers have left it
_TOP_LEVEL = frozenset(
    {"redaction", "status", "duration_ms", "module", "component", "error", "request_id"}
    | {"span_id", "parent_span_id", "session_id"}
)
_INVISIBLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON allows unescaped, but that control a terminal or an editor."""
_OPEN_FLAGS = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a pipe without a reader fails instead of blocking
)


class EventsLog:
    """Writes the events of sessions to `path`, with `{session_id}` replaced by the id of the session.

    Its handlers decide nothing and never fail. A file is rotated before it would exceed `max_bytes`.
    """

    def __init__(self, path: Path, redactor: Redactor, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._redactor = redactor
        self._writer = LineWriter(max_bytes)

    def record_standard_events(self, coordinator: Any) -> None:
        """Register for all standard events, before modules load, because a failed load is an event as well."""
        self._register(coordinator, ALL_EVENTS)

    async def record_module_events(self, coordinator: Any) -> None:
        """Register for the events that the modules of a session list, once all of them are ready."""
        listed = _read_event_names(coordinator.get_capability(EVENTS_CHANNEL))
        for contribution in await collect_contributions(coordinator, EVENTS_CHANNEL):
            listed += _read_event_names(contribution.get("value"))
        self._register(coordinator, [event for event in dict.fromkeys(listed) if event not in ALL_EVENTS])

    def close(self) -> None:
        """Write the pending lines. Blocks for at most `PATIENCE` seconds."""
        self._writer.close()

    def _register(self, coordinator: Any, events: Iterable[str]) -> None:
        path = Path(str(self._path).replace(SESSION, str(coordinator.session_id)))

        def write_event(event: str, data: dict[str, Any]) -> None:
            self._writer.write(path, _format_line(format_event(event, self._redact(data))))

        for event in events:
            coordinator.hooks.register(event, write_event, LAST, EVENTS_LOG)

    def _redact(self, data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            redacted: dict[str, Any] = self._redactor.redact_value(to_plain(data))
        except Unreadable as error:
            return {"session_id": data.get("session_id"), "error": {"type": "Unreadable", "msg": str(error)}}
        return redacted


class LineWriter(QueueHandler):
    """Appends lines to files from a background thread, which runs from the first line until `close`.

    The bound is in bytes, because one event may carry megabytes. `logging.shutdown` closes each handler when the
    interpreter exits, so pending lines are written even where nothing else has called `close`.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, *, backups: int = BACKUPS, max_pending: int = MAX_PENDING) -> None:
        super().__init__(SimpleQueue())
        self._files = SharedFileHandler(max_bytes, backups)
        self._max_pending = max_pending
        self._counts = threading.Lock()  # not the handler's, which `logging.shutdown` holds while it closes
        self._pending = self._dropped = 0
        self._newest: logging.LogRecord | None = None
        self._listener: _LineListener | None = None

    def write(self, path: Path, line: bytes) -> None:
        """Queue a line, which ends in a newline. Returns at once, in any thread."""
        name = str(path)
        with self._counts:
            if self._pending and self._pending + len(line) > self._max_pending:
                self._dropped += 1
                return
            self._pending += len(line)
            if self._newest is not None and self._newest.name == name:
                lines: Any = self._newest.msg
                lines.append(line)  # a burst of lines is one write
                return
            record = self._newest = logging.makeLogRecord({"name": name, "msg": [line]})
        self.handle(record)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Queue the record as it is: its message is a list of lines."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record, and start the thread with the first one. Runs under the handler's lock."""
        if self._listener is None:
            self.queue = SimpleQueue()  # a listener that was abandoned still reads the old one
            self._listener = _LineListener(self, self._files)
            self._listener.start()
        super().enqueue(record)

    def take(self, record: logging.LogRecord) -> int:
        """Close a record, which is written now, to more lines. Return how many were dropped since the last record."""
        with self._counts:
            if record is self._newest:
                self._newest = None
            self._pending -= sum(map(len, record.msg))
            dropped, self._dropped = self._dropped, 0
        return dropped

    def close(self, patience: float = PATIENCE) -> None:
        """Write the pending lines and end the thread; abandon both after `patience` seconds."""
        self.acquire()
        listener, self._listener = self._listener, None
        self.release()
        with self._counts:
            self._newest = None
        if listener is not None:
            stopping = threading.Thread(target=listener.stop, daemon=True)  # `stop` itself has no timeout
            stopping.start()
            stopping.join(patience)
            if stopping.is_alive():
                logger.error("the last lines were not written within %g seconds", patience)
        super().close()


class _LineListener(QueueListener):
    def __init__(self, writer: LineWriter, files: SharedFileHandler) -> None:
        super().__init__(writer.queue, files)
        self._writer = writer

    def handle(self, record: logging.LogRecord) -> None:
        if dropped := self._writer.take(record):
            logger.error("%d events were dropped: they come faster than they can be written", dropped)
        super().handle(record)


class SharedFileHandler(RotatingFileHandler):
    """Appends each record to the file that it is named after. Several processes may append to one file.

    Every stdio client starts a bridge of its own, so each write locks the file and appends whole lines. Windows has no
    such locks (`fcntl`): there, a file belongs to one bridge. Only the first of several failures in a row is logged.
    """

    def __init__(self, max_bytes: int, backups: int) -> None:
        super().__init__(os.devnull, maxBytes=max_bytes, backupCount=backups, encoding="utf-8", delay=True)
        self._is_failing = False

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record's lines, and rotate the file wherever it is full."""
        self.baseFilename = record.name
        lines: Any = record.msg
        try:
            while lines:
                lines = self._append(lines)
        except OSError as error:
            if not self._is_failing:
                logger.error("%s cannot be written, and events are dropped: %s", record.name, error.strerror or error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _append(self, lines: list[bytes]) -> list[bytes]:
        """Append the lines that the file has room for. Rotate it where there are more, and return those."""
        with _open_locked(self.baseFilename) as (file, status):
            size, count = status.st_size, 0
            is_endless = not stat.S_ISREG(status.st_mode)
            while count < len(lines) and (is_endless or not size or size + len(lines[count]) <= self.maxBytes):
                size += len(lines[count])
                count += 1
            data = b"".join(lines[:count])
            try:
                while data:
                    data = data[os.write(file, data) :]
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, status.st_size)  # half a line would corrupt the next one
                raise
            if count < len(lines):
                self.doRollover()
        return lines[count:]


@contextlib.contextmanager
def _open_locked(path: str) -> Iterator[tuple[int, os.stat_result]]:
    while True:
        try:
            file = os.open(path, _OPEN_FLAGS, 0o600)
        except FileNotFoundError:
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, _OPEN_FLAGS, 0o600)
        try:
            _lock(file)
            status = os.fstat(file)
            if _is_current(path, status):  # another process may have rotated it meanwhile
                yield file, status
                return
        finally:
            os.close(file)  # releases the lock


def _is_current(path: str, status: os.stat_result) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), status)
    return False


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:
        return
    if stat.S_ISREG(os.fstat(file).st_mode):
        fcntl.flock(file, fcntl.LOCK_EX)


def format_event(event: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """An event as its line shows it: known fields at the top level, all others under `data`."""
    top = {key: value for key, value in data.items() if key in _TOP_LEVEL}
    rest = {key: value for key, value in data.items() if key not in _TOP_LEVEL}
    level = data.get("lvl", "INFO")
    if level != "DEBUG" and (top.get("status") == "error" or top.get("error") or "error" in event):
        level = "ERROR"
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = {"ts": now, "lvl": level, "schema": SCHEMA, "event": event, **top}
    return {**line, "data": rest} if rest else line


def redact_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without the values whose keys name a secret. Empty where it cannot be converted to JSON."""
    try:
        redacted: dict[str, Any] = _redact_named_secrets(to_plain(config))
    except Unreadable:
        return {}
    return redacted


def _redact_named_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: MARK if item and is_secret_key(key) else _redact_named_secrets(item) for key, item in value.items()
        }
    return [_redact_named_secrets(item) for item in value] if isinstance(value, list) else value


def _format_line(event: dict[str, Any]) -> bytes:
    line = dump_json(event)
    if not line.isascii() or b"\x7f" in line:
        line = _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", line.decode()).encode()
    return line + b"\n"


def _read_event_names(given: Any) -> list[str]:
    """Event names in what a module has registered or contributed, which may be anything."""
    names = [given] if isinstance(given, str) else given if isinstance(given, list | tuple | set | frozenset) else ()
    return [text for name in names if (text := sanitize_text(name))]
