"""The end of commands: by Ctrl-C, at the end of input, and with threads without an end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from mcp_bridge._cli import command_line
from tests.kits.cli.cli_running import (
    LIST,
    TOOLS,
    RunHere,
    RunningCommand,
    format_requests,
    make_call,
    run_in_interpreter,
    start_command,
)

BEGIN = 'print("begun", file=sys.stderr, flush=True)'
LIFESPAN = f"""
import contextlib, sys
import anyio
from mcp_bridge import tool
from mcp_bridge.serving import ServerInfo

@contextlib.asynccontextmanager
async def open_never():
    {BEGIN}
    await anyio.sleep_forever()
    yield

server = ServerInfo(lifespan=open_never)

@tool
def greet() -> str:
    return "hello"
"""
SERVER = f"import sys, time\nsys.stdin.readline()\n{BEGIN}\ntime.sleep(3600)\n"


def check_quiet_end(command: RunningCommand) -> None:
    """Check that the command ends with the exit code 0 and without a traceback."""
    result = command.end()
    assert result.code == 0
    for ugly in ("Traceback", "Error", "Exception", "KeyboardInterrupt"):
        assert ugly not in result.err, result.err


def test_ctrl_c_ends_stdio_quietly(tmp_path: Path) -> None:
    with start_command("serve", TOOLS, cwd=tmp_path) as command:
        command.send(LIST)
        assert command.process.stdout is not None
        assert "tools" in command.process.stdout.readline()
        command.interrupt()
        check_quiet_end(command)


def test_ctrl_c_ends_http_quietly(tmp_path: Path) -> None:
    with start_command("serve", TOOLS, "--http", "0", cwd=tmp_path) as command:
        url = command.wait_for("Serving").split()[4]
        with httpx2.Client(timeout=100) as client:
            assert client.get(url.replace("/mcp", "/health")).status_code == 200
            command.interrupt()
            check_quiet_end(command)


def check_still_running(command: RunningCommand) -> None:
    """Check that the command still runs after one Ctrl-C."""
    with pytest.raises(subprocess.TimeoutExpired):
        command.process.wait(0.5)


@pytest.mark.parametrize("options", [(), ("--http", "0")])
def test_ctrl_c_ends_serve_while_tools_are_imported(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "tools.py").write_text(f"import sys, time\n{BEGIN}\ntime.sleep(3600)\n")
    with start_command("serve", *options, cwd=tmp_path) as command:
        command.wait_for("begun")
        command.interrupt()
        check_quiet_end(command)


@pytest.mark.parametrize("options", [(), ("--http", "0")])
@pytest.mark.parametrize("send_signal", [RunningCommand.interrupt, RunningCommand.terminate])
@pytest.mark.parametrize("source", [LIFESPAN, SERVER], ids=["lifespan", "server"])
def test_a_signal_ends_serve_while_a_source_never_finishes_its_start(
    tmp_path: Path, source: str, send_signal: Callable[[RunningCommand], None], options: tuple[str, ...]
) -> None:
    (tmp_path / "tools.py").write_text(source)
    (tmp_path / "server.json").write_text(
        json.dumps({"mcpServers": {"silent": {"command": sys.executable, "args": ["tools.py"]}}})
    )
    target = "server.json" if source is SERVER else "tools.py"
    with start_command("serve", target, *options, cwd=tmp_path) as command:
        command.wait_for("begun")
        send_signal(command)
        check_quiet_end(command)


@pytest.mark.parametrize("command", ["list", "call", "read"])
def test_one_ctrl_c_ends_a_command_with_130_while_tools_are_imported(tmp_path: Path, command: str) -> None:
    source = "import time\nprint('begun')\nfor _ in range(600):\n    time.sleep(0.1)\n"
    (tmp_path / "tools.py").write_text(source)
    with start_command(command, "tools.py", *(["x"] if command != "list" else []), cwd=tmp_path) as running:
        running.wait_for("begun")
        running.interrupt()
        result = running.end()
    assert (result.code, result.out, result.err) == (130, "", "begun\n")


@pytest.mark.parametrize("tool", ["waits", "blocks"])
def test_ctrl_c_ends_a_call_with_130_and_no_traceback(tmp_path: Path, tool: str) -> None:
    with start_command("call", tool, "-f", TOOLS, cwd=tmp_path) as command:
        command.wait_for("begun")
        command.interrupt()
        result = command.end()
    assert (result.code, result.out, result.err) == (130, "", "begun\n")


def test_a_tool_that_ignores_cancellation_ends_at_the_second_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "import anyio\nfrom mcp_bridge import tool\n\n@tool\nasync def stubborn() -> str:\n    print('begun')\n"
        "    with anyio.CancelScope(shield=True):\n        await anyio.sleep(3600)\n    return ''\n"
    )
    with start_command("call", "stubborn", cwd=tmp_path) as command:
        command.wait_for("begun")
        command.interrupt()
        check_still_running(command)
        command.interrupt()
        result = command.end()
    assert (result.code, result.out, result.err) == (130, "", "begun\n")


def test_ctrl_c_ends_doctor_without_waiting_for_the_server(tmp_path: Path) -> None:
    start_file = tmp_path / "begun"
    os.mkfifo(start_file)
    source = f"import sys, time; sys.stdin.readline(); open({str(start_file)!r}, 'w').close(); time.sleep(3600)"
    command = f'{sys.executable} -c "{source}"'
    with start_command("doctor", "--command", command, "--timeout", "3600", cwd=tmp_path) as doctor:
        # This read of a named pipe waits for the server.
        start_file.read_text()
        doctor.interrupt()
        result = doctor.end()
    assert (result.code, result.out, result.err) == (130, "", "")


def test_a_thread_that_never_ends_does_not_keep_a_server_at_the_end_of_input(tmp_path: Path) -> None:
    result = run_in_interpreter("serve", TOOLS, cwd=tmp_path, stdin=format_requests(make_call("leaves_a_thread"), LIST))
    assert result.code == 0
    assert '"left"' in result.out
    assert len(result.out.splitlines()) == 2


def test_a_thread_that_never_ends_does_not_keep_a_call(tmp_path: Path) -> None:
    result = run_in_interpreter("call", "leaves_a_thread", "-f", TOOLS, cwd=tmp_path)
    assert (result.code, result.out, result.err) == (0, "left\n", "")


def test_a_call_ends_at_its_timeout_although_its_thread_does_not(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(f"limits: {{timeout: 200ms}}\nsources: [{{type: python, path: '{TOOLS}'}}]\n")
    result = run_in_interpreter("call", "blocks", "-f", "x.yaml", cwd=tmp_path)
    assert (result.code, result.out) == (1, "")
    assert "did not finish within 0.2 seconds" in result.err


def test_ctrl_c_before_any_command_causes_no_traceback(run_here: RunHere, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "run_command_line", interrupted)
    result = run_here("list")
    assert (result.code, result.out, result.err) == (130, "", "")
