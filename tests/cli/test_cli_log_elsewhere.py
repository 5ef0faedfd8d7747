"""The log of messages from elsewhere: uncaught exceptions, warnings, and records with formatting errors."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bridge._cli import logs

SECRET = "hunter2-and-more"


class WithoutText:
    """An object with a `__repr__` that raises."""

    def __repr__(self) -> str:
        raise ValueError(SECRET)


class Dying:
    """An object that raises in its finalizer."""

    def __del__(self) -> None:
        raise ValueError(f"dying {SECRET}")


def raise_error() -> None:
    raise ValueError(f"broken\n{SECRET}")


def raise_in_thread() -> None:
    thread = threading.Thread(target=raise_error, name="its\nname")
    thread.start()
    thread.join()


def raise_in_finalizer() -> None:
    Dying()


def raise_at_exit() -> None:
    """Report an error as the interpreter does before its exit."""
    try:
        raise_error()
    except ValueError:
        error_type, error, traceback = sys.exc_info()
        assert error_type is not None
        assert error is not None
        sys.excepthook(error_type, error, traceback)


def warn() -> None:
    """Warn as in a process without warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn(f"careful\n{SECRET}", stacklevel=1)


def log_too_few_arguments() -> None:
    logging.getLogger("elsewhere").error("too few %s %s", SECRET)  # noqa: PLE1206 - on purpose


def log_without_text() -> None:
    logging.getLogger("elsewhere").error("no text %r of %s", WithoutText(), SECRET)


def log_stack() -> None:
    logging.getLogger("elsewhere").error("a stack", stack_info=True)


def log_formatted_traceback() -> None:
    """Log a record with a traceback already formatted by another handler."""
    record = logging.LogRecord("strays", logging.ERROR, "", 1, "before", (), None)
    record.exc_text = f"Traceback\nValueError: {SECRET}\nValueError: broken"
    logging.getLogger("elsewhere").handle(record)


@pytest.fixture
def log(tmp_path: Path, restored_process: None) -> Callable[[], str]:
    """Configure logging, and return a reader of the log file."""
    file = tmp_path / "the.log"
    logs.configure_logging("debug", file)
    logs.hide_secrets([SECRET])

    def text() -> str:
        for handler in logging.getLogger().handlers:
            handler.flush()
        return file.read_text()

    return text


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (raise_in_thread, "ERROR mcp_bridge: uncaught in thread its\\nname\n"),
        (raise_in_finalizer, "ValueError: dying [secret]"),
        (raise_at_exit, "CRITICAL mcp_bridge: the command ended with an unexpected error\n"),
        (warn, "UserWarning: careful\\n[secret]\n"),
        (log_too_few_arguments, f"ERROR elsewhere: a record from {__file__}:"),
        (log_without_text, "cannot be formatted (ValueError)"),
        (log_stack, "\n  Stack (most recent call last):\n"),
        (log_formatted_traceback, "before\n  Traceback\n  ValueError: [secret]\n  ValueError: broken\n"),
    ],
)
def test_an_uncaught_error_is_one_record_without_the_secret(
    log: Callable[[], str], capsys: pytest.CaptureFixture[str], report: Callable[[], None], expected: str
) -> None:
    report()
    text = log()
    assert expected in text
    assert SECRET not in text + capsys.readouterr().err
    first, *further_lines = text.splitlines()
    assert first[:4].isdecimal()
    assert all(line.startswith("  ") for line in further_lines)


def test_an_exit_of_a_thread_is_no_error(log: Callable[[], str]) -> None:
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()
    assert log() == ""


def test_ctrl_c_is_reported_as_by_python(log: Callable[[], str], capsys: pytest.CaptureFixture[str]) -> None:
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert "KeyboardInterrupt" in capsys.readouterr().err
    assert log() == ""
