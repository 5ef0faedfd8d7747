"""The mechanism of a sandbox is chosen at the start. Without any that works, the server or source does not start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.sandbox import check_installation
from tests.app.survival.test_survival_sandbox import TOOLS
from tests.kits.constants import TIMEOUT
from tests.kits.sandbox.sandbox_kit import needs_landlock


def fail_to_start(folder: Path, path: str) -> tuple[int, str]:
    """Start a server with this PATH whose only source requires a sandbox, and return its exit code and errors."""
    (folder / "own_tools.py").write_text("import pathlib\npathlib.Path('imported').touch()\n" + TOOLS)
    (folder / "bridge.yaml").write_text(
        "sources:\n  - type: python\n    path: own_tools.py\n    isolation:\n      sandbox: bubblewrap\n"
    )
    command = [sys.executable, "-m", "mcp_bridge", "serve", "bridge.yaml"]
    env = {**os.environ, "PATH": path}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            # The end of its input would end the process as well.
            code = process.wait(TIMEOUT)
        finally:
            process.kill()
        assert process.stderr is not None
        return code, process.stderr.read()


def test_without_bubblewrap_the_server_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    code, errors = fail_to_start(tmp_path, str(tmp_path / "bin"))
    assert code == 2
    assert "bridge.yaml:5" in errors
    assert "bubblewrap is not installed" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "imported").exists()


def test_a_kernel_that_forbids_the_sandbox_is_an_error_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    code, errors = fail_to_start(tmp_path, f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert code != 0
    assert "bubblewrap cannot create a sandbox here: bwrap: No permissions to create new namespace" in errors
    assert not (tmp_path / "imported").exists()


@needs_landlock
@pytest.mark.parametrize("reason", ["it is not installed", "No permissions to create new namespace"])
def test_landlock_takes_the_place_of_a_bubblewrap_that_does_not_work(reason: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    if reason.startswith("No"):
        fake = tmp_path / "bin" / "bwrap"
        fake.write_text(f"#!/bin/sh\necho 'bwrap: {reason}' >&2\nexit 1\n")
        fake.chmod(0o755)
    (tmp_path / "own_tools.py").write_text(TOOLS)
    (tmp_path / "bridge.json").write_text(
        json.dumps({"sources": [{"type": "python", "path": "own_tools.py", "isolation": {"sandbox": True}}]})
    )
    words = ["call", "reads", "path=/proc/1/cmdline", "--file", "bridge.json", "--log-level", "info"]
    result = subprocess.run(
        [sys.executable, "-m", "mcp_bridge", *words],
        cwd=tmp_path,
        env={**os.environ, "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert "run in a sandbox with Landlock, because bubblewrap cannot create a sandbox here" in result.stderr
    assert reason in result.stderr
    assert "PermissionError" in result.stderr


@needs_landlock
def test_landlock_is_not_used_for_what_it_cannot_do(tmp_path: Path) -> None:
    tool = {"command": ["true"]}
    sandbox = {"type": "landlock", "network": ["example.com"]}
    settings = {"sources": [{"type": "command", "tools": {"t": tool}, "sandbox": sandbox}]}
    (tmp_path / "bridge.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "mcp_bridge", "validate", "bridge.json"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert result.returncode != 0
    assert "Landlock cannot limit the network to a list of hosts" in result.stdout + result.stderr


def test_without_both_mechanisms_the_settings_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bridge._runtime.sandbox.bubblewrap.PROGRAM", "no-such-bwrap")
    monkeypatch.setattr("mcp_bridge._runtime.sandbox.landlock.get_abi", lambda: 4)
    with pytest.raises(ConfigError) as caught:
        check_installation("auto")
    assert caught.value.problem == (
        "bubblewrap is not installed; Landlock of this kernel (version 4) cannot restrict "
        "devices (Linux 6.10), signals and abstract sockets (Linux 6.12)"
    )
