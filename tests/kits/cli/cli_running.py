"""The command as a real process, and what it left on its three ways out."""

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
from tests.kits.forked_commands import forked_command

TOOLS = Path(__file__).with_name("cli_tools.py")
COMMAND = [sys.executable, "-m", "mcp_bridge"]


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.out)


Inside = Callable[..., Done]
"""`main` in this process, see conftest."""


def run(*args: str | Path, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
    """Run the command in a fork of a process that has imported it."""
    return _run([*forked_command(), "mcp_bridge"], args, cwd, stdin, env)


def run_alone(*args: str | Path, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
    """Run the command in a new interpreter, where it matters how that starts or ends."""
    return _run(COMMAND, args, cwd, stdin, env)


def _run(
    command: list[str], args: tuple[str | Path, ...], cwd: Path, stdin: str, env: Mapping[str, str] | None
) -> Done:
    done = subprocess.run(
        [*command, *map(str, args)],
        cwd=cwd,
        input=stdin,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def requests(*asked: tuple[str, dict[str, Any]]) -> str:
    """Lines of a client that then hangs up."""
    return "".join(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": ENVELOPE}}) + "\n"
        for number, (method, params) in enumerate(asked)
    )


def calls(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """A tools/call."""
    return "tools/call", {"name": name, "arguments": arguments}


LIST: tuple[str, dict[str, Any]] = ("tools/list", {})


def serve(
    file: Path, *asked: tuple[str, dict[str, Any]], options: tuple[str, ...] = (), env: Mapping[str, str] | None = None
) -> tuple[list[dict[str, Any]], Done]:
    """Serve a file to a client that asks and hangs up: the answers in the order of the questions, and the rest."""
    done = run("serve", file, *options, cwd=file.parent, stdin=requests(*asked), env=env)
    answers = {message["id"]: message for message in map(json.loads, done.out.splitlines())}
    return [answers.get(number, {}).get("result", answers.get(number)) for number in range(len(asked))], done


def names(result: dict[str, Any]) -> list[str]:
    """The names in an answer to tools/list."""
    return [tool["name"] for tool in result["tools"]]


def text(result: dict[str, Any]) -> str:
    """The text in an answer to tools/call."""
    return str(result["content"][0]["text"])


class Started:
    """A running command whose stderr can be waited for."""

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
        self._watchdog = threading.Timer(TIMEOUT, self.process.kill)
        self._watchdog.start()
        self.said = ""

    def until(self, words: str) -> str:
        """The line of stderr that has these words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if words in line:
                return line
        raise AssertionError(f"it never said {words!r}, but: {self.said}")

    def ask(self, *asked: tuple[str, dict[str, Any]]) -> None:
        """Send requests and keep the input open."""
        assert self.process.stdin is not None
        self.process.stdin.write(requests(*asked))
        self.process.stdin.flush()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def end(self) -> Done:
        """Wait until it has ended by itself, its input still open."""
        code = self.process.wait(TIMEOUT)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return Done(code, self.process.stdout.read(), self.said + self.process.stderr.read())

    def close(self) -> None:
        """Leave nothing behind."""
        self._watchdog.cancel()
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.wait()


@contextlib.contextmanager
def started(*args: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Started]:
    """A command that runs for the block and not longer."""
    command = Started(*args, cwd=cwd, env=env)
    try:
        yield command
    finally:
        command.close()
