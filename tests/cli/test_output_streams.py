"""Commands work although a standard stream is closed, is a device that is full, or has lost its reader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.cli.cli_running import COMMAND

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no sh")

TOOLS = """
from mcp_bridge import tool

@tool
def repeat(count: int) -> str:
    print("printed")
    return "line\\n" * count
"""


def run_in_shell(folder: Path, words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    (folder / "tools.py").write_text(TOOLS)
    script = f'"$@" {words} {redirection}'
    return subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND], cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize(
    ("redirection", "out"), [("<&-", "line\n\n"), (">&-", ""), ("2>&-", "line\n\n"), ("<&- >&- 2>&-", "")]
)
def test_a_command_runs_with_closed_streams(tmp_path: Path, redirection: str, out: str) -> None:
    result = run_in_shell(tmp_path, "call tools.py repeat count=1", redirection)
    assert (result.returncode, result.stdout) == (0, out), result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", ["list tools.py", "call tools.py repeat count=100000", "--help"])
def test_a_full_device_is_reported_in_one_line(tmp_path: Path, words: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    result = run_in_shell(tmp_path, words, ">/dev/full")
    lines = [line for line in result.stderr.splitlines() if line != "printed"]
    assert lines == ["mcp-bridge: nothing more can be written, because the device is full"]
    assert result.returncode == 1


@pytest.mark.parametrize(
    "words", ["list tools.py --json", "call tools.py repeat count=1000000", "--help-all", "schema"]
)
def test_a_reader_that_stops_early_causes_no_message(tmp_path: Path, words: str) -> None:
    result = run_in_shell(tmp_path, words, "| head -n 1")
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr in ("", "printed\n")
