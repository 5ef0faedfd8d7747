"""The tools of a release: the manual page, the check of licences, and the audit of dependencies."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._cli.commands import COMMANDS, EXPORT_COMMANDS
from mcp_bridge._version import __version__
from tests.kits.constants import TIMEOUT
from tests.kits.paths import ROOT

VULNERABLE = {
    "dependencies": [
        {"name": "good", "version": "1.0", "vulns": []},
        {"name": "bad", "version": "2.0", "vulns": [{"id": "CVE-2026-1", "fix_versions": ["2.1"]}]},
    ]
}
UNKNOWN = {"dependencies": [{"name": "good", "skip_reason": "not on the index"}]}
HEALTHY = {"dependencies": [{"name": "good", "version": "1.0", "vulns": []}]}


def run_script(name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script of release/."""
    return subprocess.run(
        [sys.executable, ROOT / "release" / name],
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the manual page."""
    process = run_script("manual.py", SOURCE_DATE_EPOCH="1767225600")
    assert process.returncode == 0, process.stderr
    path = tmp_path_factory.mktemp("manual") / "mcp-bridge.1"
    path.write_text(process.stdout, encoding="utf-8")
    return path


def test_the_manual_page_has_every_command(manual: Path) -> None:
    text = manual.read_text(encoding="utf-8").replace("\\-", "-")
    assert f'"2026-01-01" "mcp-bridge {__version__}"' in text.splitlines()[0]
    for name in COMMANDS:
        assert f"\n.SS mcp-bridge {name} [OPTIONS]" in text
    for name in EXPORT_COMMANDS:
        assert f"\n.SS mcp-bridge export {name} [OPTIONS]" in text
    assert "--token-env NAME" in text


def test_groff_formats_the_manual_page_without_warnings(manual: Path) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed (Debian: apt-get install groff)")
    process = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", manual], capture_output=True, encoding="utf-8", timeout=TIMEOUT
    )
    assert process.stderr == ""
    assert "Serve over HTTP on this address" in " ".join(process.stdout.split())


@pytest.mark.parametrize(
    ("license_text", "is_allowed"),
    [
        ("MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("Mozilla Public License 2.0 (MPL 2.0)", True),
        ("BSD License; MIT License", True),
        ("UNKNOWN", False),
        ("GPL-3.0-or-later", False),
        ("MIT AND AGPL-3.0-only", False),
        ("GNU General Public License v3 (GPLv3)", False),
    ],
)
def test_unknown_and_forbidden_licences_stop_a_release(license_text: str, is_allowed: bool) -> None:
    find_forbidden_licenses = runpy.run_path(str(ROOT / "release" / "build.py"))["find_forbidden_licenses"]
    problems = find_forbidden_licenses([{"Name": "thing", "Version": "1.0", "License": license_text}])
    assert problems == ([] if is_allowed else [f"thing 1.0: {license_text}"])


@pytest.mark.parametrize(
    ("report", "code", "text"),
    [
        (VULNERABLE, 1, "bad 2.0: CVE-2026-1, fixed in 2.1"),
        (UNKNOWN, 0, "NOT AUDITED: the index here has no data about 1 of 1 packages"),
        (HEALTHY, 0, "1 packages without known vulnerabilities"),
        (None, 0, "NOT AUDITED: pip-audit cannot look up vulnerabilities here: no network"),
    ],
    ids=["vulnerable", "unknown", "healthy", "offline"],
)
def test_the_audit_fails_for_a_vulnerability_and_reports_what_it_could_not_look_up(
    report: Any, code: int, text: str, tmp_path: Path
) -> None:
    body = "raise SystemExit('no network')" if report is None else f"print({json.dumps(json.dumps(report))})"
    (tmp_path / "pip_audit.py").write_text(body, encoding="utf-8")
    process = run_script("audit.py", PYTHONPATH=str(tmp_path))
    assert process.returncode == code
    assert text in process.stdout + process.stderr
