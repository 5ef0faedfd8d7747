"""The command line in this process, for tests that do not need a separate process."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bridge._cli import exits, main
from mcp_bridge._runtime.platform import server_supervisor
from tests.kits.cli.cli_running import CommandResult, RunHere


@pytest.fixture
def run_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, restored_process: None
) -> RunHere:
    """Return a function that runs `main` in `tmp_path`, and returns its exit code and its output."""
    monkeypatch.chdir(tmp_path)
    # The test forks no supervisor, ignores the threads of the test runner, and may import amplifier-core.
    monkeypatch.setattr(server_supervisor, "start_supervisor", lambda: None)
    monkeypatch.setattr(exits, "has_running_threads", lambda: False)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    monkeypatch.setattr(exits, "CRASHING_PACKAGE", "")

    def run(*args: str | Path) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["mcp-bridge", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        streams = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return CommandResult(end.value.code, streams.out, streams.err)

    return run


@pytest.fixture
def restored_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the process after a command: handlers and hooks of the log, importable folders, imports."""
    for module, hook in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, hook, getattr(module, hook))
    monkeypatch.setattr(logging, "raiseExceptions", logging.raiseExceptions)
    root, ours = logging.getLogger(), logging.getLogger("mcp_bridge")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    monkeypatch.setattr(sys, "path", sys.path[:])
    modules = set(sys.modules)
    yield
    logging.captureWarnings(False)
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    for name in set(sys.modules) - modules:
        if "mcp_bridge" not in name and name.rpartition("_")[0] in {"tools", "cli_tools", "first", "second"}:
            del sys.modules[name]
