"""The log: stderr, and a rotating file where asked for; one line a record, secrets left out."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcp_bridge.cli.exits import escaped
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.runtime import uncaught_errors
from mcp_bridge.runtime.redaction import Redactor

LEVELS = ("debug", "info", "warning", "error", "critical")
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FILE_BYTES = 5 * 1024 * 1024
FILES = 3


class OneLine(logging.Formatter):
    """A record cannot pose as several: control characters are escaped, and a traceback's lines are indented.

    What a record keeps of another handler's formatting (`exc_text`) is not trusted either.
    """

    def __init__(self) -> None:
        super().__init__(FORMAT)
        self._redactor = Redactor()

    def hide(self, secrets: Iterable[str]) -> None:
        """Leave these out from now on."""
        self._redactor.hide(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, and below it what was raised."""
        record.asctime = self.formatTime(record, self.datefmt)
        try:
            record.message = record.getMessage()
            return self._whole(record)
        except Exception as error:  # a stranger's `__str__`, or arguments that do not fit their text
            kind = type(error).__name__
            record.message = f"a record of {record.pathname}:{record.lineno} cannot be written ({kind})"
            return self.formatMessage(record)

    def _whole(self, record: logging.LogRecord) -> str:
        parts = [self.formatMessage(record)]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        elif record.exc_text:
            parts.append(self._below(record.exc_text))
        if record.stack_info:
            parts.append(self._below(record.stack_info))
        return "\n".join(parts)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The record's line."""
        return escaped(self._redactor.text(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:
        """The traceback, whose last lines are a stranger's text."""
        return self._below(super().formatException(ei))

    def _below(self, text: str) -> str:
        return "\n".join(f"  {escaped(line)}" for line in self._redactor.text(text).splitlines())


def hide(secrets: Iterable[str]) -> None:
    """Leave these values out of the log from now on."""
    secrets = list(secrets)
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, OneLine):
            handler.formatter.hide(secrets)


def configure(level: str, file: Path | None = None) -> None:
    """Set up the log of this process. Raises ConfigError for an unknown level or a file that cannot be written."""
    if level.lower() not in LEVELS:
        raise ConfigError(f"unknown log level '{level}'", where="--log-level", hint=f"One of: {', '.join(LEVELS)}")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if file is not None:
        handlers.append(_rotating(file))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        if isinstance(old.formatter, OneLine):
            old.close()
    formatter = OneLine()
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    logging.getLogger("asyncio").addFilter(_worth_saying)
    root.setLevel(logging.WARNING)
    logging.getLogger("mcp_bridge").setLevel(level.upper())
    uncaught_errors.catch()


def _rotating(file: Path) -> logging.Handler:
    from logging.handlers import RotatingFileHandler

    try:
        return RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=FILES, encoding="utf-8")
    except OSError as error:
        problem = f"cannot write the log to {file}: {error.strerror}"
        raise ConfigError(problem, where="--log-file", hint="Name a file in a folder that exists") from error


def _worth_saying(record: logging.LogRecord) -> bool:
    """asyncio reports a Ctrl-C that came while a tool's file was imported as an unhandled exception."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is None
    return not isinstance(error, KeyboardInterrupt)
