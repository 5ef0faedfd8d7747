"""The referee passes only what it has seen, and the judged server imports only public modules."""

from __future__ import annotations

import ast
import importlib
import sys

import pytest

from tests.kits.conformance.referee import HERE, Requirements, Verdict

REQUIREMENTS = Requirements(revision="2026-07-28", required=("one", "two"), unscored={"more": "pending"})
PASSED = {"id": "a-check", "status": "SUCCESS", "description": "It works."}


def make_verdict(**scenarios: list[dict[str, str]]) -> Verdict:
    return Verdict(requirements=REQUIREMENTS, scenarios=scenarios, output="")


def test_scenarios_whose_checks_all_succeed_have_passed() -> None:
    fine = make_verdict(one=[PASSED], two=[PASSED, {**PASSED, "status": "INFO"}], more=[PASSED])
    assert (fine.passed, fine.problems, fine.problems_of_unscored) == (("one", "two"), [], {"more": []})
    assert fine.line.startswith("2 of 2 required scenarios passed; 2 checks passed, 0 failed")


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED"])
def test_a_scenario_with_one_unsuccessful_check_has_not_passed(status: str) -> None:
    spoilt = make_verdict(one=[PASSED], two=[PASSED, {**PASSED, "status": status, "errorMessage": "It does not."}])
    assert spoilt.passed == ("one",)
    assert spoilt.problems == [f"two: {status} a-check: It does not."]


def test_a_call_with_an_error_has_not_passed_although_the_suite_accepts_it() -> None:
    failed = {**PASSED, "details": {"result": {"content": [], "isError": True, "resultType": "complete"}}}
    assert make_verdict(one=[PASSED], two=[failed]).passed == ("one",)
    assert make_verdict(one=[PASSED], two=[{**failed, "id": "tools-call-error"}]).passed == ("one", "two")


def test_a_scenario_that_did_not_run_has_not_passed() -> None:
    assert make_verdict(one=[PASSED]).problems == ["two: did not run"]
    assert make_verdict(one=[PASSED], two=[]).passed == ("one",)


def test_a_scenario_that_checked_nothing_has_not_passed() -> None:
    nothing = make_verdict(one=[PASSED], two=[{**PASSED, "status": "INFO"}])
    assert nothing.passed == ("one",)
    assert nothing.problems == ["two: nothing was checked"]


def test_required_and_optional_scenarios_are_distinguished() -> None:
    assert make_verdict(one=[PASSED], two=[PASSED]).problems_of_unscored == {"more": ["more: did not run"]}


def test_the_server_with_everything_needs_only_the_public_face() -> None:
    files = {path.stem: ast.parse(path.read_text()) for path in (HERE / "everything").glob("*.py")}
    assert len(files) > 5
    for tree in files.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {name.name for name in node.names} <= {*sys.stdlib_module_names, *files}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcp_bridge"):
                public = importlib.import_module(str(node.module))
                assert "._" not in public.__name__
                assert all(hasattr(public, name.name) for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] in {*sys.stdlib_module_names, *files}
