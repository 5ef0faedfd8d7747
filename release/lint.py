"""Check the image definitions, the Helm chart and the workflows, in the environment of release/lock/lint.txt.

`make lint-release`. Helm's own code lints the chart and renders it with several values. The result is validated with
the schemas of Kubernetes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import yaml

ROOT = Path(__file__).parent.parent
CHART = ROOT / "config" / "deploy" / "chart"
DOCKERFILES = (ROOT / "release" / "Dockerfile", ROOT / "config" / "deploy" / "Dockerfile")
KUBERNETES = ("1.29", "1.33")
OPTIONAL = {
    "image": {"digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "files": {"mcp-bridge.yaml": "sources: [{type: python, path: tools.py}]\n", "tools.py": "# {{ no template }}\n"},
    "env": [{"name": "LEVEL", "value": "1"}],
    "ingress": {"host": "tools.example.org", "className": "nginx", "annotations": {"a/b": "c"}, "tlsSecretName": "tls"},
    "redis": {"enabled": False, "url": "rediss://redis.example.org"},
    "worker": {"replicas": 0},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "tools", "operator": "Exists"}],
}
VALUES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "defaults": ({}, {"Deployment", "Service", "PodDisruptionBudget", "StatefulSet", "NetworkPolicy"}),
    "everything optional": (OPTIONAL, {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "Ingress"}),
}
"""The values to try and the kinds of objects that they create, by a description."""
INVALID: tuple[dict[str, Any], ...] = (
    {"server": {"replicas": 0}},
    {"redis": {"enabled": False}},
    {"image": {"digest": "latest"}},
    {"replicas": 3},
)


def run(*words: str | Path) -> None:
    """Run a program of this environment. Exits with its code if it fails."""
    scripts = Path(sys.executable).parent
    process = subprocess.run([scripts / words[0], *words[1:]], check=False, cwd=ROOT)
    if process.returncode:
        raise SystemExit(process.returncode)


def check_chart(chart: helm_python.Chart, values: dict[str, Any], kinds: set[str]) -> int:
    """Lint and render the chart with values, and validate the objects. Return their number."""
    report = helm_python.lint(CHART, values, strict=True)
    problems = [message["error"] for message in report["messages"] if message["severity"] > 1] + report["errors"]
    objects = []
    for path, text in chart.render(values, name="tools", namespace="default").items():
        if not path.endswith("NOTES.txt"):
            objects += [item for item in yaml.safe_load_all(text) if item]
    if {item["kind"] for item in objects} != kinds:
        problems.append(f"the kinds are {sorted(item['kind'] for item in objects)}, not {sorted(kinds)}")
    for item in objects:
        for version in KUBERNETES:
            try:
                kubernetes_validate.validate(item, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                problems.append(f"{item['kind']} {item['metadata']['name']}, Kubernetes {version}: {error.message}")
    if problems:
        raise SystemExit("\n".join(problems))
    return len(objects)


def find_accepted(chart: helm_python.Chart, invalid: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the values that the schema of the chart should reject, and accepts."""
    accepted = []
    for values in invalid:
        try:
            chart.validate_schema(chart.merge_values(values))
            accepted.append(values)
        except helm_python.HelmError:
            pass
    return accepted


def main() -> None:
    """Run all checks."""
    run("hadolint", *DOCKERFILES)
    print("hadolint: no problem in", ", ".join(str(path.relative_to(ROOT)) for path in DOCKERFILES))
    chart = helm_python.Chart.load(CHART)
    for name, (values, kinds) in VALUES.items():
        print(f"chart with {name}: {check_chart(chart, values, kinds)} valid objects")
    if accepted := find_accepted(chart, INVALID):
        raise SystemExit(f"the schema of the chart accepts {accepted}")
    run("zizmor", "--offline", "--quiet", "--persona", "pedantic", ".github/workflows")
    print("zizmor: no problem in the workflows")


if __name__ == "__main__":
    main()
