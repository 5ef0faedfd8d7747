"""Types into interactive shells at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.kits.constants import TIMEOUT

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(mcp-bridge completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -Uz compinit; compinit -u; eval "$(mcp-bridge completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "mcp-bridge completion fish | source"),
}
"""The command of each shell, and the line that sets up completion."""


class InteractiveShell:
    """A shell in a folder, with completion set up. Use it as a context manager."""

    def __init__(self, name: str, folder: Path) -> None:
        self._command, self._setup = SHELLS[name]
        self._folder = folder
        self._output = ""
        self._pid = self._terminal = -1

    def __enter__(self) -> InteractiveShell:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            environ = {"PATH": programs, "TERM": "xterm", "HOME": str(self._folder), "LANG": "C.UTF-8"}
            os.chdir(self._folder)
            os.execvpe(self._command[0], self._command, environ)
        # The quotes are not in the output, so that it differs from the echo of the line.
        self.type(f'{self._setup}; echo "rea""dy"\n')
        self.wait_for("ready")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._terminal)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def type(self, text: str) -> None:
        """Type text, and forget the output so far."""
        self._output = ""
        os.write(self._terminal, text.encode())

    def wait_for(self, *texts: str) -> str:
        """Return the output since the last text was typed, when it contains all of `texts`. Raises TimeoutError."""
        deadline = time.monotonic() + TIMEOUT
        while not all(text in self._output for text in texts):
            if not select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"{texts} is not in {self._output!r}")
            self._output += os.read(self._terminal, 4096).decode(errors="replace")
        return self._output


def list_shells() -> list[str]:
    """Return the shells of this machine."""
    return [name for name, (command, _) in SHELLS.items() if shutil.which(command[0])]
