"""Runs the official conformance suite against the fixture server: `python -m tests.kits.conformance.referee`.

It prints a line for each run, and exits with 1 if a required scenario does not run, fails or warns. There is no list
of expected failures.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.kits.conformance.front import RoundRobinProxy
from tests.kits.node.served import run_server
from tests.kits.node.toolchain import Toolchain, ToolchainUnavailable, find_toolchain, run
from tests.kits.paths import ROOT

HERE = Path(__file__).resolve().parent
REVISIONS = ("2025-11-25", "2026-07-28")
INSTANCES = "2026-07-28"
"""The revision for runs against several processes. It is stateless, so any process can serve any request."""

SUITE_TIMEOUT = 240.0
"""Seconds. A run took 5."""
ATTEMPTS = 3
"""How often scenarios run that have problems: on a busy machine, the suite's own timeouts are too short."""

GATEWAY_TASKS = {
    "tools": {
        "slow_compute": {"after": 0},
        "failing_job": {"mode": "required", "after": 0},
        "protocol_error_job": {"after": 0},
        "confirm_delete": {"after": 0},
        "multi_input": {"after": 0},
        "test_tool_with_task": {"mode": "required", "after": 1.5},
        "*": {"mode": "forbidden"},
    },
}
"""The settings of tasks for the gateway. It needs the same as the fixture server, because calls through it become tasks
of the gateway.
"""

SIGN_IN = "auth/"
"""The prefix of scenarios about authorization. Signing in is a separate command (`mcp-bridge login`), which the clients
here do not run.
"""

CALLS_ONE_TOOL = "`call` calls a tool that its user names, and nothing else."
CLIENTS: Mapping[str, Mapping[str, str]] = {
    "gateway_client": {},
    "call_client": dict.fromkeys(
        ("sep-2322-client-request-state", "http-standard-headers", "http-invalid-tool-headers"), CALLS_ONE_TOOL
    ),
}
"""The clients in this folder. Each maps scenarios that it cannot pass to the reason."""

RESULT = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
"""The name of the folder with a scenario's results, which includes the time."""

Check = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The requirements for servers at one revision, from the files of the suite."""

    revision: str
    required: tuple[str, ...]
    unscored: Mapping[str, str]
    """Scenarios that run without being counted, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one run: the checks of each scenario."""

    requirements: Requirements
    scenarios: Mapping[str, Sequence[Check]]
    output: str

    @property
    def passed(self) -> tuple[str, ...]:
        """The required scenarios without problems."""
        return tuple(
            name for name in self.requirements.required if not list_problems(name, self.scenarios.get(name, ()))
        )

    @property
    def problems(self) -> list[str]:
        """One line for each problem of a required scenario."""
        return [
            line for name in self.requirements.required for line in list_problems(name, self.scenarios.get(name, ()))
        ]

    @property
    def problems_of_unscored(self) -> Mapping[str, Sequence[str]]:
        """The scenarios that the suite does not count, except extensions, with the problems of each."""
        names = [name for name, reason in self.requirements.unscored.items() if reason != "extension"]
        return {name: list_problems(name, self.scenarios.get(name, ())) for name in names}

    @property
    def tasks(self) -> Mapping[str, Sequence[str]]:
        """The scenarios of the tasks extension, with the problems of each. The suite itself skips one of them."""
        names = [name for name in self.requirements.unscored if name.startswith("tasks-")]
        checks = {name: self.scenarios.get(name, ()) for name in names}
        skipped = {name for name in names if {check["status"] for check in checks[name]} == {"SKIPPED"}}
        return {name: [] if name in skipped else list_problems(name, checks[name]) for name in names}

    @property
    def line(self) -> str:
        """The line with the counts of scenarios and checks."""
        required = self.requirements.required
        counts = Counter(check["status"] for name in required for check in self.scenarios.get(name, ()))
        unscored = self.problems_of_unscored
        passed_unscored = [name for name, problems in unscored.items() if not problems]
        return (
            f"{len(self.passed)} of {len(required)} required scenarios passed; {counts['SUCCESS']} checks passed, "
            f"{counts['FAILURE']} failed, {counts['WARNING']} warned, {counts['SKIPPED']} skipped; "
            f"{len(passed_unscored)} of {len(unscored)} other scenarios passed"
        )


def list_problems(scenario: str, checks: Sequence[Check]) -> list[str]:
    """Return the problems of a scenario. They include warnings and missing checks, which the suite itself accepts."""
    if not checks:
        return [f"{scenario}: did not run"]
    if {check["status"] for check in checks} == {"INFO"}:
        return [f"{scenario}: nothing was checked"]
    return [
        f"{scenario}: {check['status']} {check['id']}: {check.get('errorMessage') or check['description']}"
        for check in checks
        if check["status"] not in {"SUCCESS", "INFO"}
    ] + [
        f"{scenario}: {check['id']}: an error came where an answer was expected"
        for check in checks
        if is_unexpected_error(check)
    ]


def is_unexpected_error(check: Check) -> bool:
    """Whether a call has ended with an error that the suite accepts: most of its checks do not look at `isError`."""
    result = (check.get("details") or {}).get("result")
    return isinstance(result, dict) and result.get("isError") is True and check["id"] != "tools-call-error"


def read_requirements(node: Toolchain, revision: str) -> Requirements:
    """Return the requirements of the installed suite."""
    content = YAML(typ="safe").load(node.conformance / "requirements" / f"{revision}.yaml")
    unscored = {entry["scenario"]: entry["reason"] for entry in content["not_scored"] if entry["leg"] == "server"}
    return Requirements(revision=revision, required=tuple(content["server"]), unscored=unscored)


def run_scenario(node: Toolchain, url: str, scenario: str, folder: Path) -> list[str]:
    """Run one scenario of 2026-07-28 with results below `folder`, and return its problems."""
    results = folder / "results"
    options = ["server", "--url", url, "--scenario", scenario, "--spec-version", INSTANCES, "--force"]
    options += ["--output-dir", results]
    script = node.conformance / "dist/index.js"
    process = run([node.node, script, *options], node.environment(folder), SUITE_TIMEOUT, folder)
    checks = [json.loads(file.read_bytes()) for file in results.glob("*/checks.json")]
    return list_problems(scenario, checks[0]) if checks else [f"{process.stdout}{process.stderr}"]


def run_requirements(node: Toolchain, url: str, revision: str, folder: Path) -> Verdict:
    """Run the requirements of a revision against a server, with results below `folder`.

    Scenarios with problems run again, because the suite waits only 0.6 seconds for some messages.
    """
    script = node.conformance / "dist/index.js"
    requirements = read_requirements(node, revision)
    scenarios: dict[str, list[Check]] = {}
    for attempt in range(ATTEMPTS):
        results = folder / f"results{attempt}"
        options = ["server", "--url", url, "--requirements", revision, "--output-dir", results]
        process = run([node.node, script, *options], node.environment(folder), SUITE_TIMEOUT, folder)
        for file in sorted(results.glob("*/checks.json")):
            match = RESULT.fullmatch(file.parent.name)
            if match and list_problems(match["scenario"], scenarios.get(match["scenario"], [])):
                scenarios[match["scenario"]] = json.loads(file.read_bytes())
        verdict = Verdict(requirements=requirements, scenarios=scenarios, output=f"{process.stdout}{process.stderr}")
        if not verdict.problems:
            break
    return verdict


def list_client_scenarios(node: Toolchain, revision: str, client: str) -> list[str]:
    """Return the required client scenarios of a revision, except those impossible for this client."""
    content = YAML(typ="safe").load(node.conformance / "requirements" / f"{revision}.yaml")
    return [name for name in content["client"] if not name.startswith(SIGN_IN) and name not in CLIENTS[client]]


def run_client_scenarios(node: Toolchain, client: str, revision: str, folder: Path) -> dict[str, list[str]]:
    """Run the client scenarios. Return the problems of each, without skipped checks."""
    problems_by_scenario = {}
    for scenario in list_client_scenarios(node, revision, client):
        for attempt in range(ATTEMPTS):
            results = folder / client / revision / scenario / str(attempt)
            problems = _run_client_scenario(node, client, revision, scenario, results)
            if not problems:
                break
        problems_by_scenario[scenario] = problems
    return problems_by_scenario


def _run_client_scenario(node: Toolchain, client: str, revision: str, scenario: str, results: Path) -> list[str]:
    """Run one client scenario with results in a folder. Return its problems, without skipped checks."""
    command = f"{sys.executable} -m tests.kits.conformance.{client}"
    options = ["client", "--command", command, "--scenario", scenario, "--spec-version", revision]
    results.mkdir(parents=True)
    environment = {**node.environment(results), "PYTHONPATH": str(ROOT)}
    script = node.conformance / "dist/index.js"
    process = run([node.node, script, *options, "--output-dir", results], environment, SUITE_TIMEOUT, results)
    checks = [json.loads(file.read_bytes()) for file in results.glob("*/checks.json")]
    problems = list_problems(scenario, checks[0]) if checks else [f"{process.stdout}{process.stderr}"]
    return [line for line in problems if not line.startswith(f"{scenario}: SKIPPED")]


def run_everything_server(folder: Path, *options: str) -> contextlib.AbstractContextManager[str]:
    """Return a context with the URL of a fixture server process. It raises RuntimeError if the server does not run."""
    return run_server((sys.executable, str(HERE / "everything"), *options), folder)


@contextlib.contextmanager
def run_instances(folder: Path, count: int = 2) -> Iterator[Sequence[str]]:
    """Yield the URLs of fixture servers in separate processes with the same sealing keys."""
    shared = folder / "instances"
    shared.mkdir()
    options = ("--instances", str(shared), f"--key={secrets.token_urlsafe(32)}")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(run_everything_server(folder, *options)) for _ in range(count)]


@contextlib.contextmanager
def run_behind_front(folder: Path) -> Iterator[RoundRobinProxy]:
    """Run two such processes behind a round-robin proxy, and yield the proxy."""
    with run_instances(folder) as urls, RoundRobinProxy(urls).run_in_thread() as front:
        yield front


@contextlib.contextmanager
def run_behind_gateway(folder: Path) -> Iterator[str]:
    """Run a gateway with the fixture server as its only upstream, and yield the gateway's URL."""
    with run_everything_server(folder) as url:
        settings = folder / "gateway.yaml"
        source = {"type": "mcp", "name": "upstream", "prefix": "", "url": url}
        settings.write_text(json.dumps({"sources": [source], "tasks": GATEWAY_TASKS}))
        with serve_settings(settings, folder) as gateway:
            yield gateway


def serve_settings(settings: Path, folder: Path) -> contextlib.AbstractContextManager[str]:
    """Return a context with the URL of a server process with these settings."""
    command = (sys.executable, "-m", "mcp_bridge", "serve", str(settings), "--http", "127.0.0.1:0")
    return run_server((*command, "--log-level", "info"), folder)


def main() -> int:
    """Run everything, print the counts and return the exit code."""
    try:
        node = find_toolchain()
    except ToolchainUnavailable as missing:
        print(f"the conformance suite cannot run: {missing}", file=sys.stderr)
        return 2
    verdicts = []
    for revision in REVISIONS:
        with tempfile.TemporaryDirectory() as folder, run_everything_server(Path(folder)) as url:
            verdicts.append(print_verdict(revision, run_requirements(node, url, revision, Path(folder))))
    with tempfile.TemporaryDirectory() as folder, run_behind_front(Path(folder)) as front:
        verdicts.append(
            print_verdict(f"{INSTANCES}, two processes", run_requirements(node, front.url, INSTANCES, Path(folder)))
        )
    for revision in REVISIONS:
        with tempfile.TemporaryDirectory() as folder, run_behind_gateway(Path(folder)) as url:
            verdicts.append(
                print_verdict(f"{revision}, through a gateway", run_requirements(node, url, revision, Path(folder)))
            )
    failures = sum(print_client_report(node, client, revision) for client in CLIENTS for revision in REVISIONS)
    return int(failures > 0 or any(verdict.problems for verdict in verdicts))


def print_client_report(node: Toolchain, client: str, revision: str) -> int:
    """Run a client and print the result. Return the number of failed scenarios."""
    with tempfile.TemporaryDirectory() as folder:
        verdict = run_client_scenarios(node, client, revision, Path(folder))
    failures = sum(map(bool, verdict.values()))
    print(f"{revision}, {client}: {len(verdict) - failures} of {len(verdict)} scenarios passed", flush=True)
    for problem in itertools.chain(*verdict.values()):
        print(f"  {problem}", flush=True)
    return failures


def print_verdict(title: str, verdict: Verdict) -> Verdict:
    """Print the result of a run."""
    print(f"{title}: {verdict.line}", flush=True)
    for problem in itertools.chain(verdict.problems, *verdict.problems_of_unscored.values()):
        print(f"  {problem}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
