"""The files of a release agree with the package: locked dependencies, the chart, the images and the workflows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement

from mcp_bridge._version import DISTRIBUTION, __version__
from tests.kits.constants import TIMEOUT
from tests.kits.paths import ROOT

LOCKS = sorted((ROOT / "release" / "lock").glob("*.txt"))
CHART = ROOT / "config" / "deploy" / "chart"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PIN = re.compile(
    r"^([a-z0-9-]+)==(\S+)(?: ; [^\\]*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)
IMAGE_EXTRAS = ("jwt", "oauth", "openapi", "prometheus", "rate-limit", "redact", "tasks", "uvloop")


def read_lock(name: str) -> dict[str, str]:
    """Return the locked versions by the names of their distributions."""
    text = (ROOT / "release" / "lock" / f"{name}.txt").read_text(encoding="utf-8")
    return {match[1]: match[2] for match in PIN.finditer(text)}


def list_requirements(*extras: str) -> list[Requirement]:
    """Return what the installed package requires with extras, without itself."""
    requirements = []
    for line in requires(DISTRIBUTION) or ():
        requirement = Requirement(line)
        is_wanted = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        )
        if is_wanted and requirement.name != DISTRIBUTION:
            requirements.append(requirement)
    return requirements


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_locked_file_has_a_hash_and_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert PIN.sub("", text).strip() == ""
    assert "://" not in text


@pytest.mark.parametrize(("name", "extras"), [("core", ()), ("image", IMAGE_EXTRAS)])
def test_the_locked_versions_are_those_that_the_package_requires(name: str, extras: tuple[str, ...]) -> None:
    versions = read_lock(name)
    requirements = list_requirements(*extras)
    assert len(requirements) > 10
    problems = []
    for requirement in requirements:
        version = versions.get(re.sub(r"[-_.]+", "-", requirement.name).lower())
        if version is None or version not in requirement.specifier:
            problems.append(f"{requirement}: {version} is locked (run make lock)")
    assert problems == []


def test_the_chart_the_example_and_the_docs_have_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["name"], chart["version"], chart["appVersion"]) == (DISTRIBUTION, __version__, __version__)
    files = [ROOT / "config" / "deploy" / "Dockerfile", *(ROOT / "docs").glob("*.md")]
    pattern = rf"{DISTRIBUTION}(?::|-)(\d+\.\d+\.\d+)"
    versions = {version for path in files for version in re.findall(pattern, path.read_text(encoding="utf-8"))}
    assert versions == {__version__}


def test_the_default_values_of_the_chart_match_its_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(values, schema)
    assert values.keys() == schema["properties"].keys() - {"global"}


def test_the_image_runs_the_package_as_an_unprivileged_user() -> None:
    final_stage = (ROOT / "release" / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    assert "\nUSER 10001:10001\n" in final_stage
    assert '\nENTRYPOINT ["python", "-m", "mcp_bridge"]\n' in final_stage
    assert "pip" not in final_stage


def test_the_workflows_match_their_schema() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert process.returncode == 0, process.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_pin_actions_by_commit_and_grant_permissions_to_single_jobs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    uses = re.findall(r"uses: (.*)", text)
    assert uses
    assert [line for line in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    assert all("permissions" in job for job in workflow["jobs"].values())
    assert "secrets." not in text


def test_only_the_job_that_publishes_can_sign_in_to_the_package_index() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    (publishing_job,) = [job for job in jobs.values() if any("pypi-publish" in str(step) for step in job["steps"])]
    assert publishing_job["permissions"] == {"id-token": "write"}
    assert publishing_job["environment"] == "release"
    assert publishing_job["needs"] == "build"
