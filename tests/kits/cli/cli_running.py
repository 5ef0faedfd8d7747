"""Runs the command as a process, and returns its exit code and its output."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kits.constants import ENVELOPE, TIMEOUT
from tests.kits.forked_commands import get_forked_command

TOOLS = Path(__file__).with_name("cli_tools.py")
COMMAND = [sys.executable, "-m", "mcp_bridge"]


@dataclass(frozen=True)
class CommandResult:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.out)


RunHere = Callable[..., CommandResult]
"""Run `main` in this process, see conftest."""


def run(*args: str | Path, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> CommandResult:
    """Run the command in a fork of a process with the imports already done."""
    return _run([*get_forked_command(), "mcp_bridge"], args, cwd, stdin, env)


def run_in_interpreter(
    *args: str | Path, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None
) -> CommandResult:
    """Run the command in a new interpreter, for tests of its start or end."""
    return _run(COMMAND, args, cwd, stdin, env)


def _run(
    command: list[str], args: tuple[str | Path, ...], cwd: Path, stdin: str, env: Mapping[str, str] | None
) -> CommandResult:
    result = subprocess.run(
        [*command, *map(str, args)],
        cwd=cwd,
        input=stdin,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    return CommandResult(result.returncode, result.stdout, result.stderr)


def format_requests(*messages: tuple[str, dict[str, Any]]) -> str:
    """Return these requests as lines of JSON, with their positions as ids."""
    return "".join(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": ENVELOPE}}) + "\n"
        for number, (method, params) in enumerate(messages)
    )


def make_call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Return the method and the parameters of a call."""
    return "tools/call", {"name": name, "arguments": arguments}


LIST: tuple[str, dict[str, Any]] = ("tools/list", {})


def serve_requests(
    file: Path,
    *messages: tuple[str, dict[str, Any]],
    options: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, Any]], CommandResult]:
    """Send these requests to a server of a file. Return their results in order, and the result of the command."""
    result = run("serve", file, *options, cwd=file.parent, stdin=format_requests(*messages), env=env)
    responses = {message["id"]: message for message in map(json.loads, result.out.splitlines())}
    return [responses.get(number, {}).get("result", responses.get(number)) for number in range(len(messages))], result


def list_names(result: dict[str, Any]) -> list[str]:
    """Return the names in a result of tools/list."""
    return [tool["name"] for tool in result["tools"]]


def get_text(result: dict[str, Any]) -> str:
    """Return the text in a result of tools/call."""
    return str(result["content"][0]["text"])


class RunningCommand:
    """A running command."""

    def __init__(self, *args: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, args)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stderr = ""

    def wait_for(self, words: str) -> str:
        """Return the next line of stderr with these words."""
        assert self.process.stderr is not None
        # The command may be silent forever, and reading has no timeout.
        watchdog = threading.Timer(TIMEOUT, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stderr:
                self.stderr += line
                if words in line:
                    return line
        finally:
            watchdog.cancel()
        raise AssertionError(f"{words!r} is not in stderr: {self.stderr}")

    def send(self, *messages: tuple[str, dict[str, Any]]) -> None:
        """Send requests and keep the input open."""
        assert self.process.stdin is not None
        self.process.stdin.write(format_requests(*messages))
        self.process.stdin.flush()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def end(self) -> CommandResult:
        """Wait for the exit, while stdin is open."""
        code = self.process.wait(TIMEOUT)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return CommandResult(code, self.process.stdout.read(), self.stderr + self.process.stderr.read())

    def close(self) -> None:
        """Kill the process, and close its streams."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.wait()


@contextlib.contextmanager
def start_command(*args: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[RunningCommand]:
    """Start a command, and end it after the block."""
    command = RunningCommand(*args, cwd=cwd, env=env)
    try:
        yield command
    finally:
        command.close()
