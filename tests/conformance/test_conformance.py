"""The official conformance suite finds nothing to object to, at either revision, in one process, two, and a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.conformance.front import RoundRobinProxy
from tests.kits.conformance.referee import (
    CLIENTS,
    HERE,
    Toolchain,
    Verdict,
    read_requirements,
    run_behind_front,
    run_behind_gateway,
    run_client_scenarios,
    run_everything_server,
    run_instances,
    run_requirements,
    run_scenario,
    serve_settings,
)
from tests.kits.haproxy import run_haproxy

pytestmark = pytest.mark.npm

REQUIRED = {"2025-11-25": 30, "2026-07-28": 37}
"""How many scenarios each revision requires; an empty or shortened list would pass too easily."""

BEYOND = {
    "2025-11-25": {"json-schema-2020-12", "server-session-lifecycle", "server-sse-polling"},
    "2026-07-28": {"http-custom-header-server-validation", "http-header-validation", "json-schema-2020-12"},
}
"""What the suite runs beyond the required, extensions aside."""


TASK_SCENARIOS = {
    "tasks-capability-negotiation", "tasks-dispatch-and-envelope", "tasks-lifecycle", "tasks-mrtr-composition",
    "tasks-mrtr-input", "tasks-request-headers", "tasks-request-state-removal", "tasks-required-task-error",
    "tasks-status-notifications", "tasks-wire-fields",
}  # fmt: skip
"""Those of io.modelcontextprotocol/tasks. The suite itself skips tasks-status-notifications."""


@pytest.fixture(scope="module", params=sorted(REQUIRED))
def verdict(request: pytest.FixtureRequest, node: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """Return the verdict of a run against a new process."""
    folder = tmp_path_factory.mktemp("one")
    with run_everything_server(folder) as url:
        return run_requirements(node, url, request.param, folder)


@pytest.fixture(scope="module")
def front(node: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundRobinProxy]:
    """Run two server processes behind one address."""
    with run_behind_front(tmp_path_factory.mktemp("two")) as running:
        yield running


@pytest.mark.parametrize("revision", sorted(REQUIRED))
def test_the_suite_has_the_expected_number_of_required_scenarios(node: Toolchain, revision: str) -> None:
    assert len(set(read_requirements(node, revision).required)) == REQUIRED[revision]


def test_every_required_scenario_passes(verdict: Verdict) -> None:
    assert verdict.problems == [], verdict.output
    assert set(verdict.passed) == set(verdict.requirements.required)
    assert len(verdict.passed) == REQUIRED[verdict.requirements.revision]


def test_every_other_scenario_except_extensions_passes(verdict: Verdict) -> None:
    assert verdict.problems_of_unscored == {name: [] for name in BEYOND[verdict.requirements.revision]}, verdict.output


def test_every_scenario_of_the_tasks_extension_passes(verdict: Verdict) -> None:
    expected = TASK_SCENARIOS if verdict.requirements.revision == "2026-07-28" else set()
    assert verdict.tasks == {name: [] for name in expected}, verdict.output


@pytest.mark.parametrize("scenario", ["enumeration", "manifest", "directory"])
def test_every_scenario_of_the_skills_extension_passes(node: Toolchain, scenario: str, tmp_path: Path) -> None:
    with serve_settings(HERE.parents[2] / "config" / "skills.yaml", tmp_path) as url:
        assert run_scenario(node, url, f"sep-2640-skills-{scenario}", tmp_path) == []


def test_processes_that_share_nothing_but_keys_answer_in_turn(
    node: Toolchain, front: RoundRobinProxy, tmp_path: Path
) -> None:
    verdict = run_requirements(node, front.url, "2026-07-28", tmp_path)
    assert verdict.problems == [], verdict.output
    assert len(verdict.passed) == REQUIRED["2026-07-28"]
    first, second = front.response_counts
    assert abs(first - second) <= 1
    assert min(first, second) > len(verdict.passed)


@pytest.mark.parametrize("revision", sorted(REQUIRED))
def test_every_scenario_passes_behind_the_proxy_of_the_example_too(
    node: Toolchain, revision: str, tmp_path: Path
) -> None:
    with run_instances(tmp_path) as urls, run_haproxy(urls, tmp_path) as url:
        verdict = run_requirements(node, url, revision, tmp_path)
    assert verdict.problems == [], verdict.output
    assert len(verdict.passed) == REQUIRED[revision]


@pytest.mark.parametrize("revision", sorted(REQUIRED))
def test_every_scenario_passes_through_a_gateway_too(node: Toolchain, revision: str, tmp_path: Path) -> None:
    with run_behind_gateway(tmp_path) as url:
        verdict = run_requirements(node, url, revision, tmp_path)
    assert verdict.problems == [], verdict.output
    assert len(verdict.passed) == REQUIRED[revision]
    assert verdict.problems_of_unscored == {name: [] for name in BEYOND[revision]}, verdict.output
    expected = TASK_SCENARIOS if revision == "2026-07-28" else set()
    assert verdict.tasks == {name: [] for name in expected}, verdict.output


@pytest.mark.parametrize("revision", sorted(REQUIRED))
@pytest.mark.parametrize("client", CLIENTS)
def test_every_scenario_of_clients_passes_but_those_of_signing_in(
    node: Toolchain, client: str, revision: str, tmp_path: Path
) -> None:
    verdict = run_client_scenarios(node, client, revision, tmp_path)
    assert len(verdict) == {"2025-11-25": 4, "2026-07-28": 7 - len(CLIENTS[client])}[revision]
    assert not any(verdict.values()), verdict
