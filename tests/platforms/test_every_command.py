"""Every command of `mcp-bridge` works on the simulated systems, and docs/platforms.md says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import typer.main

from mcp_bridge._cli.app import app
from tests.kits.paths import ROOT
from tests.kits.platforms.command_smokes import FEATURES, Feature
from tests.kits.platforms.simulated_systems import SYSTEMS, SimulatedComputer, make_computer
from tests.kits.platforms.smoke_files import prepare


@pytest.fixture(scope="module", params=SYSTEMS)
def prepared(request: pytest.FixtureRequest) -> Iterator[SimulatedComputer]:
    """A computer with the files of the smokes."""
    if sys.platform != "linux":
        pytest.skip("Linux simulates the other systems")
    with make_computer(request.param) as computer:
        prepare(computer)
        yield computer


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.run.__name__)
def test_a_command_works_on_a_simulated_system(prepared: SimulatedComputer, feature: Feature) -> None:
    feature.run(prepared)


def list_commands(group: object = None, prefix: str = "") -> set[str]:
    """Return the names of all commands on the command line."""
    group = group or typer.main.get_command(app)
    names = set()
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        names |= list_commands(command, f"{prefix}{name} ") if hasattr(command, "commands") else {f"{prefix}{name}"}
    return names


def test_every_command_has_a_smoke() -> None:
    covered = {name for feature in FEATURES for name in feature.commands}
    assert covered == list_commands()


def test_the_page_about_systems_has_the_results_of_the_smokes() -> None:
    text = (ROOT / "docs/platforms.md").read_text(encoding="utf-8")
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4:
            rows[cells[0]] = cells[1:]
    expected = {
        feature.title: [
            "tested",
            *("not available" if system in feature.missing_on else "simulated" for system in ("darwin", "win32")),
        ]
        for feature in FEATURES
    }
    assert {title: cells for title, cells in rows.items() if title in expected} == expected
    words = {word for cells in rows.values() for word in cells} - {"Linux", "macOS", "Windows"}
    assert words <= {"tested", "simulated", "not tested", "not available"}
