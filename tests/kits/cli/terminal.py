"""Runs `call` at a pseudo-terminal, and answers its questions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.kits.cli.cli_running import COMMAND
from tests.kits.constants import TIMEOUT

INTERRUPT = "\x03"


PROMPT = re.compile(rb"An empty line.*\n")
"""The end of a question, after which the command waits for a line."""


@dataclass
class TerminalResult:
    """The output of a command, and its exit code."""

    code: int
    out: str
    shown: str


def call_at_terminal(
    folder: Path,
    *arguments: str,
    answers: list[str],
    early: str = "",
    prompt: re.Pattern[bytes] = PROMPT,
    wait: Callable[[], object] = lambda: None,
) -> TerminalResult:
    """Run `call` at a terminal, and type an answer after each `prompt`; INTERRUPT is Ctrl-C.

    `wait` is called before each answer.
    """
    controller, terminal = os.openpty()
    os.write(controller, early.encode())
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(
        [*COMMAND, "call", *arguments],
        cwd=folder, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, env=environ,
    ) as process:  # fmt: skip
        os.close(terminal)
        output, waiting = b"", list(answers)
        while True:
            try:
                data = os.read(controller, 4096)
            except OSError:
                # Linux raises OSError if the other end is closed.
                break
            output += data
            while waiting and len(prompt.findall(output)) > len(answers) - len(waiting):
                wait()
                answer = waiting.pop(0)
                # The terminal does not control the command, so it sends no signal by itself.
                if answer == INTERRUPT:
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(controller, answer.encode())
        os.close(controller)
        assert process.stdout is not None
        return TerminalResult(process.wait(TIMEOUT), process.stdout.read().decode(), output.decode())
