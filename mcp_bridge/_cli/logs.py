"""Configures logging to stderr, and optionally to a rotating file. Each record is one line, with secrets redacted."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import BridgeError, ConfigError
from mcp_bridge._runtime import uncaught_errors
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.terminal_text import escape_line

LEVELS = ("debug", "info", "warning", "error", "critical")
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FILE_BYTES = 5 * 1024 * 1024
BACKUP_FILES = 3


class OneLineFormatter(logging.Formatter):
    """Formats a record as one line with control characters escaped, and a traceback as indented lines below it.

    With `all_frames`, tracebacks also have the frames of this package.
    """

    def __init__(self, *, all_frames: bool = False) -> None:
        super().__init__(FORMAT)
        self._all_frames = all_frames
        self.redactor = Redactor()

    def format(self, record: logging.LogRecord) -> str:
        record.asctime = self.formatTime(record, self.datefmt)
        try:
            record.message = record.getMessage()
            # Python adds the line of source to a warning.
            if record.name == "py.warnings":
                record.message = re.sub(r"(\n  [^\n]*)?\n\Z", "", record.message)
            lines = [self.formatMessage(record)]
            if record.exc_info:
                lines.append(self.formatException(record.exc_info))
            elif record.exc_text:
                # The formatter of another handler may have formatted the traceback.
                lines.append(self._indent(record.exc_text))
            if record.stack_info:
                lines.append(self._indent(record.stack_info))
            return "\n".join(lines)
        except Exception as error:
            # The `__str__` of an argument has failed, or the arguments do not fit the message.
            place = f"{record.pathname}:{record.lineno}"
            record.message = f"a record from {place} cannot be formatted ({type(error).__name__})"
            return self.formatMessage(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escape_line(self.redactor.redact_text(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:
        """Format a traceback. Its last lines may be text from third-party code."""
        if self._all_frames or ei[1] is None:
            return self._indent(super().formatException(ei))
        from mcp_bridge._runtime.tracebacks import format_exception

        return self._indent(format_exception(ei[1]))

    def _indent(self, text: str) -> str:
        return "\n".join(f"  {escape_line(line)}" for line in self.redactor.redact_text(text).splitlines())


class StartErrors(logging.Filter):
    """Delays the errors of sources on stderr until the start has succeeded or failed.

    The command itself reports the errors of a failed start. Without this filter, they would be shown twice.
    """

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler
        self._records: list[logging.LogRecord] | None = []

    def filter(self, record: logging.LogRecord) -> bool:
        if self._records is None or record.name != "mcp_bridge.bridge" or record.levelno < logging.ERROR:
            return True
        self._records.append(record)
        return False

    def release(self, report: str = "") -> None:
        """Stop delaying errors. Log the delayed ones, except those in the report of the command."""
        records = self._records or []
        self._records = None
        lines = tuple(line for line in report.splitlines() if line)
        for record in records:
            if not record.getMessage().endswith(lines):
                self._handler.handle(record)


@contextmanager
def delay_start_errors() -> Iterator[Callable[[], None]]:
    """Delay errors of the start until the yielded function is called, or the block ends."""
    handler: logging.Handler = logging.NullHandler()
    for root_handler in logging.getLogger().handlers:
        # Handlers of files derive from this class, so the type is compared.
        if type(root_handler) is logging.StreamHandler:
            handler = root_handler
    errors = StartErrors(handler)
    handler.addFilter(errors)
    try:
        yield errors.release
    except BridgeError as error:
        errors.release(str(error))
        raise
    finally:
        errors.release()
        handler.removeFilter(errors)


def hide_secrets(secrets: Iterable[str]) -> None:
    """Redact these values in all lines from now on."""
    secrets = list(secrets)
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, OneLineFormatter):
            handler.formatter.redactor.add_secrets(secrets)


def add_substitutions(substitutions: Iterable[Callable[[str], str]]) -> None:
    """Apply functions for the replacement of text to all lines from now on."""
    # The handlers share one formatter, which must get each function only once.
    for formatter in {handler.formatter for handler in logging.getLogger().handlers}:
        if isinstance(formatter, OneLineFormatter):
            for substitute in substitutions:
                formatter.redactor.add_substitution(substitute)


def configure_logging(level: str, file: Path | None = None) -> None:
    """Configure logging. Raises ConfigError if the level is unknown or the file cannot be written."""
    if level.lower() not in LEVELS:
        raise ConfigError(f"unknown log level '{level}'", where="--log-level", hint=f"Use one of: {', '.join(LEVELS)}")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if file is not None:
        from logging.handlers import RotatingFileHandler

        try:
            handlers.append(RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=BACKUP_FILES, encoding="utf-8"))
        except OSError as error:
            problem = f"cannot write the log to {file}: {error.strerror}"
            raise ConfigError(problem, where="--log-file", hint="Use a file in an existing folder") from error
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        if isinstance(old.formatter, OneLineFormatter):
            old.close()
    formatter = OneLineFormatter(all_frames=level.lower() == "debug")
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    logging.getLogger("asyncio").addFilter(_is_not_interrupt)
    root.setLevel(logging.WARNING)
    logging.getLogger("mcp_bridge").setLevel(level.upper())
    uncaught_errors.install_hooks()


def _is_not_interrupt(record: logging.LogRecord) -> bool:
    """Return whether a record is about something else than Ctrl-C.

    asyncio logs a Ctrl-C during the import of a tool's file as an unhandled exception. It logs an InvalidStateError if
    Ctrl-C cancels a task that reads a Unix socket of anyio, and the socket becomes readable at the same moment. Then
    the event loop itself has called the method of a future, so the traceback has only its own frame.
    """
    import asyncio

    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is None
    if isinstance(error, asyncio.InvalidStateError):
        return error.__traceback__ is None or error.__traceback__.tb_next is not None
    return not isinstance(error, KeyboardInterrupt)
