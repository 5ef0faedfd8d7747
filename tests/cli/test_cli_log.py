"""The log on stderr and in a rotated file: one line for each record, without secrets."""

from __future__ import annotations

import asyncio
import logging
import re
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from mcp_bridge._cli import logs
from mcp_bridge._contracts.errors import ConfigError
from tests.kits.cli.cli_running import TOOLS, make_call, run, serve_requests, start_command

STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) [\w.]+: ")
SECRET = 'hunter2 "quoted"\nsecond line'
FORGED = "2026-01-01 00:00:00,000 ERROR forged: you are root"
LEAKS = '''
import logging, os
from mcp_bridge import tool

@tool
def leaks() -> str:
    """Puts its secret everywhere."""
    secret = os.environ["TEST_SECRET"]
    logging.getLogger("mcp_bridge.leaks").error("plain %s", secret)
    logging.getLogger("mcp_bridge.leaks").error("repr %r", {"a": secret})
    raise ValueError(f"wrong secret {secret}")
'''


@pytest.fixture
def secret_settings(tmp_path: Path) -> Path:
    (tmp_path / "leaks.py").write_text(LEAKS)
    file = tmp_path / "settings.yaml"
    file.write_text("title: ${TEST_SECRET}\nsources: [{type: python, path: leaks.py}]\n")
    return file


def find_secrets(text: str) -> list[str]:
    return [secret for secret in ("hunter2", "quoted", "second line") if secret in text]


def test_secrets_of_the_environment_are_redacted_in_every_log_message(secret_settings: Path) -> None:
    log = secret_settings.with_name("the.log")
    _, result = serve_requests(
        secret_settings, make_call("leaks"), options=("--log-file", str(log)), env={"TEST_SECRET": SECRET}
    )
    assert result.code == 0
    for text in (result.err, log.read_text()):
        assert not find_secrets(text)
        assert text.count("[secret]") == 3
        assert "ValueError: wrong secret [secret]" in text


def test_call_redacts_secrets_too(secret_settings: Path) -> None:
    result = run("call", "leaks", "-f", secret_settings, cwd=secret_settings.parent, env={"TEST_SECRET": SECRET})
    assert result.code == 1
    assert not find_secrets(result.err)
    assert result.err.count("[secret]") == 3


def test_the_bearer_token_is_redacted(secret_settings: Path) -> None:
    file = secret_settings.with_name("leaks.py")
    file.write_text('import logging\nlogging.getLogger("mcp_bridge.x").error("it is token-123")\n')
    options = ("serve", file, "--http", "0", "--token-env", "TEST_TOKEN")
    with start_command(*options, cwd=file.parent, env={"TEST_TOKEN": "token-123"}) as command:
        assert "it is [secret]" in command.wait_for("it is")


def test_short_values_are_not_redacted(caplog: pytest.LogCaptureFixture) -> None:
    formatter = logs.OneLineFormatter()
    formatter.redactor.add_secrets(["abc", "abcd"])
    record = logging.LogRecord("n", logging.ERROR, "", 1, "abc abcd", (), None)
    assert formatter.format(record).endswith("n: abc [secret]")


@pytest.mark.parametrize("breaker", ["\n", "\x85", "\u2028", "\x1b[2K\r"])
def test_a_log_line_cannot_be_forged(tmp_path: Path, breaker: str, restored_process: None) -> None:
    log = tmp_path / "the.log"
    logs.configure_logging("debug", log)
    logger = logging.getLogger("mcp_bridge.x")
    try:
        raise ValueError(f"broken{breaker}{FORGED}")
    except ValueError as error:
        logger.error("tool %s%s%s failed", "name", breaker, FORGED, exc_info=error)
    for handler in logging.getLogger().handlers:
        handler.flush()
    lines = log.read_text().splitlines()
    assert [line for line in lines if STAMP.match(line)] == lines[:1]
    assert all(line.startswith("  ") for line in lines[1:])
    assert all(line.isprintable() for line in lines)
    assert "you are root" in lines[0]
    assert "you are root" in lines[-1]


def test_a_tool_with_a_forging_name_writes_one_line(tmp_path: Path) -> None:
    result = run("call", "st\x1b[31meers\nforged", "-f", TOOLS, cwd=tmp_path)
    assert result.code == 1
    assert "\x1b" not in result.err
    assert sum(bool(STAMP.match(line)) for line in result.err.splitlines()) == 1


def test_a_log_file_gets_the_lines_of_stderr_and_later_runs_append(tmp_path: Path) -> None:
    log = tmp_path / "the.log"
    for count in (1, 2):
        _, result = serve_requests(TOOLS, make_call("breaks", text="xyz"), options=("--log-file", str(log)))
        assert "ValueError: broken xyz" in result.err
        assert log.read_text().count("ValueError: broken xyz") == count


def test_a_log_file_is_rotated(tmp_path: Path, restored_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 1000)
    log = tmp_path / "the.log"
    logs.configure_logging("info", log)
    for _ in range(100):
        logging.getLogger("mcp_bridge.x").info("x" * 100)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["the.log", "the.log.1", "the.log.2", "the.log.3"]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())


def test_a_second_configuration_replaces_the_first(tmp_path: Path, restored_process: None) -> None:
    for _ in range(2):
        logs.configure_logging("warning", tmp_path / "the.log")
    assert [type(handler) for handler in logging.getLogger().handlers] == [logging.StreamHandler, RotatingFileHandler]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error", "critical"]),
        ("INFO", ["info", "warning", "error", "critical"]),
        ("critical", ["critical"]),
    ],
)
def test_the_level_is_that_of_this_package_and_others_warn(
    level: str, expected: list[str], restored_process: None, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure_logging(level)
    for name in ("debug", "info", "warning", "error", "critical"):
        getattr(logging.getLogger("mcp_bridge.x"), name)("level %s", name)
    logging.getLogger("others").info("chatter")
    logging.getLogger("others").warning("warned")
    out, err = capsys.readouterr()
    assert [line.rpartition("level ")[2] for line in err.splitlines()[:-1]] == expected
    assert err.endswith("others: warned\n")
    assert "chatter" not in err
    assert out == ""


@pytest.mark.parametrize(
    ("error", "is_reported"),
    [
        (KeyboardInterrupt(), False),
        (BaseExceptionGroup("", [KeyboardInterrupt()]), False),
        (BaseExceptionGroup("", [ValueError()]), True),
        (None, True),
    ],
)
def test_asyncio_does_not_report_a_ctrl_c(
    error: BaseException | None, is_reported: bool, restored_process: None, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure_logging("warning")
    logging.getLogger("asyncio").error("unhandled exception", exc_info=error)
    assert ("unhandled exception" in capsys.readouterr().err) is is_reported


def test_only_a_future_that_the_loop_itself_sets_too_late_is_not_reported(
    restored_process: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async def set_cancelled_future(*, in_callback: bool) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        future.cancel()

        def set_future() -> None:
            future.set_result(None)

        if in_callback:
            loop.call_soon(set_future)
        else:
            loop.call_soon(future.set_result, None)
        await asyncio.sleep(0)

    logs.configure_logging("warning")
    asyncio.run(set_cancelled_future(in_callback=False))
    assert capsys.readouterr().err == ""
    asyncio.run(set_cancelled_future(in_callback=True))
    assert "InvalidStateError" in capsys.readouterr().err


def test_an_unknown_level_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown log level 'loud'\. Use one of: debug, info, warning, error, critical"
    ):
        logs.configure_logging("loud")
