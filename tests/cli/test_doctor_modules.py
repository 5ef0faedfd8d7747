"""`doctor` and Amplifier modules: one that is not in place is a finding, and so is a source that has ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._cli.doctor.checks import check_modules, find_ended_sources
from mcp_bridge._cli.doctor.conversation import Conversation, StartCommand
from mcp_bridge._cli.doctor.report import CheckResult
from tests.kits.cli.cli_running import Inside

pytestmark = pytest.mark.usefixtures("forgotten")
MODULES = {
    "good": "from mcp_bridge.amplifier.testing import MockTool\nasync def mount(c, d): return MockTool('good')\n",
    "bad": "1 / 0\n",
    "unready": (
        "from mcp_bridge.amplifier.testing import MockTool\nasync def mount(c, d): return MockTool('t')\n"
        "async def on_session_ready(c): raise ValueError('why')\n"
    ),
    "plain": "from mcp_bridge import tool\n\n@tool\ndef plain() -> int:\n    return 1\n",
}
STRANGER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answers = {
        "initialize": {"capabilities": {"resources": {}}, "protocolVersion": "2025-11-25"},
        "server/discover": {"capabilities": {"resources": {}}},
        "tools/list": {"tools": []},
        "resources/list": {"resources": [{"uri": "amplifier://x/status"}, {"uri": "other://x"}, 7, {}]},
        "resources/read": {"contents": [{"text": TEXT}]},
    }
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answers[request["method"]]}), flush=True)
"""


def written(folder: Path, *tools: str, more: str = "") -> Path:
    """A settings file with modules."""
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    named = ", ".join(f"{{module: {name}, source: {name}.py}}" for name in tools)
    path = folder / "s.yaml"
    path.write_text(f"sources:\n  - {{type: amplifier, name: mine, plan: {{tools: [{named}]}}}}\n{more}")
    return path


def test_modules_and_sources_that_are_not_in_place_are_findings_and_each_is_told_once(
    inside: Inside, tmp_path: Path
) -> None:
    gone = "  - {type: amplifier, name: gone, plan: {tools: [{module: bad, source: bad.py}]}}\n"
    done = inside("doctor", written(tmp_path, "good", "bad", "unready", more=gone))
    assert done.code == 1
    assert "ok   modules of 'mine': 1 module of 3 mounted and ready" in done.out.splitlines()
    assert done.out.count("FAIL module 'bad' of 'mine': ") == 1
    assert "ZeroDivisionError" in done.out
    assert done.out.count("FAIL module 'unready' of 'mine': on_session_ready failed: ValueError: why") == 1
    assert done.out.count("FAIL source 'gone': it has ended: bad: module 'bad' cannot be imported") == 1


def test_validate_names_what_is_not_in_place_too(inside: Inside, tmp_path: Path) -> None:
    done = inside("validate", written(tmp_path, "good", "bad", "unready"))
    assert done.code == 1
    assert "source 'mine': bad: module 'bad' cannot be imported: ZeroDivisionError" in done.out
    assert "source 'mine': unready: on_session_ready failed: ValueError: why" in done.out


@pytest.mark.parametrize("text", ["'no JSON'", "'[]'", "json.dumps({'source': 'x', 'session': None})"])
def test_a_stranger_that_says_odd_things_at_such_an_address_is_no_finding(
    inside: Inside, tmp_path: Path, text: str
) -> None:
    (tmp_path / "stranger.py").write_text(STRANGER.replace("TEXT", text))
    done = inside("doctor", "--command", f"{sys.executable} '{tmp_path / 'stranger.py'}'", "--json")
    assert (done.code, len(done.json["checks"])) == (0, 2), done.err


@pytest.mark.parametrize("introduction", [{}, {"capabilities": None}], ids=str)
async def test_a_server_that_declares_no_resources_is_not_asked(tmp_path: Path, introduction: dict[str, Any]) -> None:
    start = StartCommand(argv=[sys.executable], folder=tmp_path, timeout=30, environ={})
    assert await check_modules(Conversation(start), introduction, {}) == []


def test_ends_of_sources_are_told_from_what_others_say() -> None:
    said = (
        "2026-01-01 ERROR mcp_bridge.bridge: source 'it's' ended: why: 1\n"
        "2026-01-01 ERROR mcp_bridge.bridge: source 'x': a problem\n"
        "source 'y' ended: not in the log\n"
    )
    assert [(one.check, one.detail) for one in find_ended_sources(said)] == [("source 'it's'", "it has ended: why: 1")]
    assert all(isinstance(one, CheckResult) and not one.ok for one in find_ended_sources(said))
