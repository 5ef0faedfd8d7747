"""Logging to stderr and optionally to a rotating file: one line per record, with secrets redacted."""

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
    """Formats a record so that it cannot be mistaken for several: control characters are escaped, tracebacks indented.

    The same is done with `exc_text`, which the formatter of another handler may have set.
    """

    def __init__(self, *, all_frames: bool = False) -> None:
        super().__init__(FORMAT)
        self._all_frames = all_frames
        self._redactor = Redactor()

    def hide_secrets(self, secrets: Iterable[str]) -> None:
        self._redactor.add_secrets(secrets)

    def add_substitution(self, substitute: Callable[[str], str]) -> None:
        self._redactor.add_substitution(substitute)

    def format(self, record: logging.LogRecord) -> str:
        record.asctime = self.formatTime(record, self.datefmt)
        try:
            record.message = record.getMessage()
            if record.name == "py.warnings":  # without the line of source that Python adds
                record.message = re.sub(r"(\n  [^\n]*)?\n\Z", "", record.message)
            parts = [self.formatMessage(record)]
            if record.exc_info:
                parts.append(self.formatException(record.exc_info))
            elif record.exc_text:
                parts.append(self._indent(record.exc_text))
            if record.stack_info:
                parts.append(self._indent(record.stack_info))
            return "\n".join(parts)
        except Exception as error:  # from the `__str__` of an argument, or because the arguments do not fit the message
            kind = type(error).__name__
            record.message = f"a record from {record.pathname}:{record.lineno} cannot be formatted ({kind})"
            return self.formatMessage(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escape_line(self._redactor.redact_text(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:
        """Format a traceback, whose last lines may be text from third-party code."""
        if self._all_frames or ei[1] is None:
            return self._indent(super().formatException(ei))
        from mcp_bridge._runtime.tracebacks import format_exception

        return self._indent(format_exception(ei[1]))

    def _indent(self, text: str) -> str:
        return "\n".join(f"  {escape_line(line)}" for line in self._redactor.redact_text(text).splitlines())


class StartErrors(logging.Filter):
    """Holds the errors of sources back from stderr until the start has succeeded or failed.

    The errors that end a start are reported by the command itself; without this, they would be shown twice.
    """

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler
        self._held: list[logging.LogRecord] | None = []

    def filter(self, record: logging.LogRecord) -> bool:
        if self._held is None or record.name != "mcp_bridge.bridge" or record.levelno < logging.ERROR:
            return True
        self._held.append(record)
        return False

    def release(self, reported: str = "") -> None:
        """Log what was held back, except the lines that are reported anyway."""
        held, self._held = self._held or [], None
        lines = tuple(filter(None, reported.splitlines()))
        for record in held:
            if not record.getMessage().endswith(lines):
                self._handler.handle(record)


@contextmanager
def hold_start_errors() -> Iterator[Callable[[], None]]:
    """Hold errors of the start back until the returned function is called, or the block ends."""
    on_stderr = [each for each in logging.getLogger().handlers if type(each) is logging.StreamHandler]
    handler = next(iter(on_stderr), logging.NullHandler())
    held = StartErrors(handler)
    handler.addFilter(held)
    try:
        yield held.release
    except BridgeError as error:
        held.release(str(error))
        raise
    finally:
        held.release()
        handler.removeFilter(held)


def hide_secrets(secrets: Iterable[str]) -> None:
    secrets = list(secrets)
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, OneLineFormatter):
            handler.formatter.hide_secrets(secrets)


def add_substitutions(substitutions: Iterable[Callable[[str], str]]) -> None:
    """Apply functions that replace text to all lines from now on."""
    formatters = {handler.formatter for handler in logging.getLogger().handlers}
    for formatter in formatters:
        if isinstance(formatter, OneLineFormatter):
            for substitute in substitutions:
                formatter.add_substitution(substitute)


def configure_logging(level: str, file: Path | None = None) -> None:
    """Configure logging. Raises ConfigError for an unknown level or a file that cannot be written."""
    if level.lower() not in LEVELS:
        raise ConfigError(f"unknown log level '{level}'", where="--log-level", hint=f"Use one of: {', '.join(LEVELS)}")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if file is not None:
        handlers.append(_open_log_file(file))
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
    logging.getLogger("stamina").setLevel(logging.ERROR)  # the policy `retry` logs each attempt itself
    root.setLevel(logging.WARNING)
    logging.getLogger("mcp_bridge").setLevel(level.upper())
    uncaught_errors.install_hooks()


def _open_log_file(file: Path) -> logging.Handler:
    from logging.handlers import RotatingFileHandler

    try:
        return RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=BACKUP_FILES, encoding="utf-8")
    except OSError as error:
        problem = f"cannot write the log to {file}: {error.strerror}"
        raise ConfigError(problem, where="--log-file", hint="Use a file in an existing folder") from error


def _is_not_interrupt(record: logging.LogRecord) -> bool:
    # asyncio logs a Ctrl-C during the import of a tool's file as an unhandled exception.
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is None
    return not isinstance(error, KeyboardInterrupt)
