"""What does not go through the log by itself: uncaught exceptions, warnings, records that cannot be written."""

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


class Odd:
    """Whose own text cannot be had."""

    def __repr__(self) -> str:
        raise ValueError(SECRET)


class Dying:
    """That raises as it goes."""

    def __del__(self) -> None:
        raise ValueError(f"dying {SECRET}")


def fails() -> None:
    raise ValueError(f"broken\n{SECRET}")


def in_thread() -> None:
    """Raise in a thread."""
    thread = threading.Thread(target=fails, name="its\nname")
    thread.start()
    thread.join()


def in_del() -> None:
    """Raise where nothing can be raised."""
    Dying()


def at_the_end() -> None:
    """Raise where the interpreter reports it."""
    try:
        fails()
    except ValueError:
        kind, error, traceback = sys.exc_info()
        assert kind is not None
        assert error is not None
        sys.excepthook(kind, error, traceback)


def warned() -> None:
    """Warn, as where warnings are no errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn(f"careful\n{SECRET}", stacklevel=1)


def unformatted() -> None:
    """Log with arguments that do not fit."""
    logging.getLogger("strays").error("too few %s %s", SECRET)  # noqa: PLE1206 - on purpose


def odd() -> None:
    """Log what has no text."""
    logging.getLogger("strays").error("odd %r of %s", Odd(), SECRET)


def with_stack() -> None:
    """Log the stack too."""
    logging.getLogger("strays").error("a stack", stack_info=True)


def written_before() -> None:
    """Log what another handler has formatted already."""
    record = logging.LogRecord("strays", logging.ERROR, "", 1, "before", (), None)
    record.exc_text = f"Traceback\nValueError: {SECRET}\nValueError: broken"
    logging.getLogger("strays").handle(record)


@pytest.fixture
def log(tmp_path: Path, unspoilt: None) -> Callable[[], str]:
    """The log's text so far, of a log that is set up here."""
    file = tmp_path / "the.log"
    logs.configure_logging("debug", file)
    logs.hide_secrets([SECRET])

    def text() -> str:
        for handler in logging.getLogger().handlers:
            handler.flush()
        return file.read_text()

    return text


@pytest.mark.parametrize(
    ("stray", "says"),
    [
        (in_thread, "ERROR mcp_bridge: uncaught in thread its\\nname\n"),
        (in_del, "ValueError: dying [secret]"),
        (at_the_end, "CRITICAL mcp_bridge: the command ended with an unexpected error\n"),
        (warned, "UserWarning: careful\\n[secret]\n"),
        (unformatted, f"ERROR strays: a record from {__file__}:"),
        (odd, "cannot be formatted (ValueError)"),
        (with_stack, "\n  Stack (most recent call last):\n"),
        (written_before, "before\n  Traceback\n  ValueError: [secret]\n  ValueError: broken\n"),
    ],
)
def test_it_is_one_record_without_the_secret(
    log: Callable[[], str], capsys: pytest.CaptureFixture[str], stray: Callable[[], None], says: str
) -> None:
    stray()
    text = log()
    assert says in text
    assert SECRET not in text + capsys.readouterr().err
    first, *others = text.splitlines()
    assert first[:4].isdecimal()
    assert all(line.startswith("  ") for line in others)


def test_an_exit_of_a_thread_is_no_error(log: Callable[[], str]) -> None:
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()
    assert log() == ""


def test_ctrl_c_is_told_as_python_does(log: Callable[[], str], capsys: pytest.CaptureFixture[str]) -> None:
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert "KeyboardInterrupt" in capsys.readouterr().err
    assert log() == ""
