"""Durations are shown with at most three decimals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from mcp_bridge.tool_use import ChainResult, Result, ResultStatus


def test_a_call_shows_its_duration_to_the_microsecond(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        'from mcp_bridge import tool\n\n\n@tool\ndef a() -> int:\n    """A."""\n    return 1\n'
    )
    command = [sys.executable, "-m", "mcp_bridge", "call", "a", "--json"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    duration = json.loads(result.stdout)["duration_ms"]
    assert duration == round(duration, 3)


def test_results_show_their_duration_to_the_microsecond() -> None:
    result = Result(ResultStatus.SUCCESS, duration_ms=0.123456789)
    assert result.to_dict()["duration_ms"] == 0.123
    chain = ChainResult(step_results=[result], duration_ms=1.98765)
    assert (chain.to_dict()["duration_ms"], chain.to_dict()["step_results"][0]["duration_ms"]) == (1.988, 0.123)
