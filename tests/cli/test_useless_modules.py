"""`validate` and `doctor` report modules that can have no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.cli.cli_running import Inside

pytestmark = pytest.mark.usefixtures("forgotten")
REMINDS = """
async def mount(coordinator, config):
    coordinator.hooks.register("provider:request", lambda event, data: None)
"""


def test_validate_and_doctor_report_them(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "reminds.py").write_text(REMINDS)
    path = tmp_path / "plan.yaml"
    path.write_text("hooks: [{module: reminds, source: reminds.py}]\n")
    for command in ("validate", "doctor"):
        done = inside(command, path)
        assert done.code == 1
        assert "it has no effect, because its hooks only receive 'provider:request'" in done.out + done.err
