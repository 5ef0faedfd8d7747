"""`doctor` and isolation: it reports which mechanism each sandbox and container uses, and whether it works."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.kits.cli.cli_running import RunHere
from tests.kits.isolation.container_kit import IMAGE, run_engine
from tests.kits.sandbox.sandbox_kit import needs_bubblewrap, on_both_mechanisms

TOOLS = "from mcp_bridge import tool\n\n@tool\ndef greet() -> str:\n    return 'Hello'\n"


def write_settings(folder: Path, *sources: Any, **more: Any) -> Path:
    (folder / "own_tools.py").write_text(TOOLS)
    path = folder / "bridge.json"
    path.write_text(json.dumps({"sources": sources, **more}))
    return path


def find_checks(text: str, word: str) -> dict[str, Any]:
    """Return the results of the checks with a word in their names, by name."""
    return {check["check"]: check for check in json.loads(text)["checks"] if word in check["check"]}


@on_both_mechanisms
def test_each_sandbox_is_reported_with_its_mechanism(mechanism: str, run_here: RunHere, tmp_path: Path) -> None:
    isolated = {"type": "python", "path": "own_tools.py", "isolation": {"sandbox": mechanism}}
    command = {
        "type": "command",
        "sandbox": {"type": mechanism, "network": True},
        "tools": {"t": {"command": ["true"]}},
    }
    plain = {"type": "python", "path": "own_tools.py", "name": "plain", "prefix": "plain"}
    path = write_settings(tmp_path, isolated, command, plain)
    result = run_here("doctor", path)
    assert result.code == 0, result.out
    label = {"bubblewrap": "bubblewrap 0.", "landlock": "Landlock (version "}[mechanism]
    lines = [line for line in result.out.splitlines() if ".sandbox: " in line]
    assert len(lines) == 2
    assert lines[0].startswith(f"ok   sources[0].isolation.sandbox: works, with {label}")
    assert lines[1].startswith(f"ok   sources[1].sandbox: works, with {label}")


def test_a_sandbox_that_does_not_work_is_a_failure(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    path = write_settings(tmp_path, servers={"git": {"command": "true", "sandbox": "bubblewrap"}})
    result = run_here("doctor", path, "--json")
    assert result.code == 1
    check = find_checks(result.out, "sandbox")["servers.git.sandbox"]
    assert not check["ok"]
    assert "bwrap: No permissions to create new namespace" in check["detail"]


@needs_bubblewrap
@pytest.mark.parametrize(
    ("is_running", "detail"),
    [
        (True, f"works, with Docker version 28.2.2 and the image {IMAGE}"),
        (False, "`docker info` has failed ("),
    ],
)
def test_a_container_is_reported_with_its_engine(
    is_running: bool, detail: str, run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"type": "python", "path": "own_tools.py", "isolation": {"container": "docker"}}
    path = write_settings(tmp_path, source)
    with run_engine(tmp_path, "docker") as engine:
        engine.change(is_running=is_running)
        monkeypatch.setenv("PATH", engine.env["PATH"])
        result = run_here("doctor", path, "--json")
    assert (result.code == 0) is is_running, result.out
    check = find_checks(result.out, "container")["sources[0].isolation.container"]
    assert check["ok"] is is_running
    assert check["detail"].startswith(detail)
