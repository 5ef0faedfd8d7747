"""The environments of frameworks agree with pyproject.toml, and no framework is silently left out."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.kits.frameworks import environments, fastmcp_suite

EXTRAS = tomllib.loads((environments.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


def test_each_environment_has_an_extra_and_each_extra_an_environment() -> None:
    assert {name.removeprefix("test-") for name in EXTRAS if name.startswith("test-")} == set(environments.ENVIRONMENTS)


def test_each_environment_has_tests() -> None:
    for name, frameworks in environments.ENVIRONMENTS.items():
        assert environments.list_tests(frameworks), name


def test_the_environment_of_each_test_file_is_found() -> None:
    needed = {
        name
        for path in (environments.ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r'^require_framework\("(\w+)"\)$', path.read_text("utf-8"), re.MULTILINE)
    }
    assert needed <= set(environments.MODULES)


def test_tests_fail_if_a_required_framework_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(environments.MODULES, "nowhere", "no_such_package_anywhere.at_all")
    monkeypatch.setenv(environments.CLAIMED, "langchain,nowhere")
    with pytest.raises(RuntimeError, match="nowhere is not installed, and this environment should have it"):
        environments.require_framework("nowhere")


def test_tests_of_other_environments_are_skipped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(environments.MODULES, "nowhere", "no_such_package_anywhere")
    monkeypatch.setenv(environments.CLAIMED, "langchain")
    with pytest.raises(pytest.skip.Exception, match="make test-frameworks"):
        environments.require_framework("nowhere")


def test_by_default_the_frameworks_of_the_extra_test_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(environments.CLAIMED, raising=False)
    assert {"langchain", "openai_agents", "pydantic_ai", "smolagents", "utcp"} <= environments.get_required_packages()
    assert "fastmcp" not in environments.get_required_packages()


def test_only_an_unlisted_test_that_fails_twice_makes_the_run_of_fastmcps_tests_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fastmcp_suite, "MINIMUM", 5)
    passed = {"a::listed": False, "a::fixed": True, "a::forms[x]": False, "a::slow": False, "a::broken": False}
    exceptions = {"a::listed", "a::fixed", "a::forms"}
    second_run = {"a::slow": True, "a::broken": False}
    assert fastmcp_suite.find_unlisted_failures(passed, exceptions) == ["a::slow", "a::broken"]
    assert list(fastmcp_suite.list_problems(passed, second_run, exceptions)) == [
        "it fails and is not listed: a::broken"
    ]
    assert [note.rpartition(": ")[2] for note in fastmcp_suite.list_notes(passed, second_run, exceptions)] == [
        "a::fixed",
        "a::slow",
    ]
    assert list(fastmcp_suite.list_problems({}, {}, exceptions)) == [
        "only 0 tests have reached a server; at least 5 are expected"
    ]


def test_each_reason_for_a_difference_from_fastmcp_is_in_the_documentation() -> None:
    page = " ".join((environments.ROOT / "docs" / "fastmcp-servers.md").read_text("utf-8").split())
    for group in fastmcp_suite.read_differences():
        assert group["reason"] in page
