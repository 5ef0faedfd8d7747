"""`doctor` and Amplifier modules: it reports missing and useless modules, and sources that have ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._cli.doctor.checks import check_modules, find_ended_sources
from mcp_bridge._cli.doctor.conversation import Conversation, StartCommand
from mcp_bridge._cli.doctor.report import CheckResult
from tests.kits.cli.cli_running import RunHere

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
REMINDS = """
async def mount(coordinator, config):
    coordinator.hooks.register("provider:request", lambda event, data: None)
"""
THIRD_PARTY_SERVER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    results = {
        "initialize": {"capabilities": {"resources": {}}, "protocolVersion": "2025-11-25"},
        "server/discover": {"capabilities": {"resources": {}}},
        "tools/list": {"tools": []},
        "resources/list": {"resources": [{"uri": "amplifier://x/status"}, {"uri": "other://x"}, 7, {}]},
        "resources/read": {"contents": [{"text": TEXT}]},
    }
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]}), flush=True)
"""


def write_settings(folder: Path, *tools: str, sources: str = "") -> Path:
    """Write a settings file with modules, and with further sources."""
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    modules = ", ".join(f"{{module: {name}, source: {name}.py}}" for name in tools)
    path = folder / "s.yaml"
    path.write_text(f"sources:\n  - {{type: amplifier, name: mine, plan: {{tools: [{modules}]}}}}\n{sources}")
    return path


def test_each_missing_module_and_source_is_reported_once(run_here: RunHere, tmp_path: Path) -> None:
    missing_source = "  - {type: amplifier, name: gone, plan: {tools: [{module: bad, source: bad.py}]}}\n"
    result = run_here("doctor", write_settings(tmp_path, "good", "bad", "unready", sources=missing_source))
    assert result.code == 1
    assert "ok   modules of 'mine': 1 module of 3 mounted and ready" in result.out.splitlines()
    assert result.out.count("FAIL module 'bad' of 'mine': ") == 1
    assert "ZeroDivisionError" in result.out
    assert result.out.count("FAIL module 'unready' of 'mine': on_session_ready failed: ValueError: why") == 1
    assert result.out.count("FAIL source 'gone': it has ended: bad: module 'bad' cannot be imported") == 1


def test_validate_reports_missing_modules_too(run_here: RunHere, tmp_path: Path) -> None:
    result = run_here("validate", write_settings(tmp_path, "good", "bad", "unready"))
    assert result.code == 1
    assert "source 'mine': bad: module 'bad' cannot be imported: ZeroDivisionError" in result.out
    assert "source 'mine': unready: on_session_ready failed: ValueError: why" in result.out


@pytest.mark.parametrize("text", ["'no JSON'", "'[]'", "json.dumps({'source': 'x', 'session': None})"])
def test_a_third_party_resource_at_the_address_of_a_status_is_ignored(
    run_here: RunHere, tmp_path: Path, text: str
) -> None:
    (tmp_path / "third_party.py").write_text(THIRD_PARTY_SERVER.replace("TEXT", text))
    result = run_here("doctor", "--command", f"{sys.executable} '{tmp_path / 'third_party.py'}'", "--json")
    assert (result.code, len(result.json["checks"])) == (0, 2), result.err


@pytest.mark.parametrize("introduction", [{}, {"capabilities": None}], ids=str)
async def test_a_server_without_resources_receives_no_request_for_them(
    tmp_path: Path, introduction: dict[str, Any]
) -> None:
    start = StartCommand(argv=[sys.executable], folder=tmp_path, timeout=30, environ={})
    assert await check_modules(Conversation(start), introduction, {}) == []


def test_ends_of_sources_are_found_among_other_log_messages() -> None:
    log = (
        "2026-01-01 ERROR mcp_bridge.bridge: source 'it's' ended: why: 1\n"
        "2026-01-01 ERROR mcp_bridge.bridge: source 'x': a problem\n"
        "source 'y' ended: not in the log\n"
    )
    assert [(finding.check, finding.detail) for finding in find_ended_sources(log)] == [
        ("source 'it's'", "it has ended: why: 1")
    ]
    assert all(isinstance(finding, CheckResult) and not finding.ok for finding in find_ended_sources(log))


def test_validate_and_doctor_report_useless_modules(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "reminds.py").write_text(REMINDS)
    path = tmp_path / "plan.yaml"
    path.write_text("hooks: [{module: reminds, source: reminds.py}]\n")
    for command in ("validate", "doctor"):
        result = run_here(command, path)
        assert result.code == 1
        assert "it has no effect, because its hooks only receive 'provider:request'" in result.out + result.err
