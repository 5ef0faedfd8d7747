"""A run of the benchmarks measures every workload on every server that is installed with the tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.workloads import WORKLOADS
from tests.kits.paths import ROOT

SERVERS = ("bridge", "sdk", "mcpserver")


@pytest.mark.skipif(sys.platform == "win32", reason="the client of the benchmarks uses pipes of POSIX")
def test_every_server_responds_to_every_workload(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    words = ("everything", "calls", "stdio", "handshake", "8-in-flight", "10", "0-hooks", *SERVERS)
    options = ("--rounds", "1", "--calls", "20", "--seconds", "0.01", "--json", str(file))
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", *options, "--only", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=110,
    )
    assert file.exists(), process.stderr
    document = json.loads(file.read_text())
    assert document["failures"] == []
    measured = {(case["case"]["server"], case["case"]["workload"]) for case in document["cases"]}
    assert measured == {(server, workload) for server in SERVERS for workload in WORKLOADS}
    for case in document["cases"]:
        (sample,) = case["samples"]
        assert sample["cost"] > 0
        assert 0 < sample["latency_p50"] <= sample["latency_p99"]
