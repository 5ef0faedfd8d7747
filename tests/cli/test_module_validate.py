"""`module validate`: the contract suite of a module's type, and the rules of its structure, as one report."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kits.cli.cli_running import CommandResult, RunHere
from tests.kits.cli.validated_modules import BODIES, CONFIGS, write_module, write_project
from tests.kits.paths import ROOT

ENTRY_POINT = "its_pyproject_has_an_entry_point_that_names_it"
RETURNS_TEXT = write_module("tool").replace("return ToolResult(output=text)", "return text")


def check(run_here: RunHere, target: Path | str, module_type: str = "", *args: str) -> CommandResult:
    """Run the command with --json."""
    return run_here("module", "validate", target, "--json", "--config", CONFIGS.get(module_type, "{}"), *args)


@pytest.mark.parametrize("module_type", BODIES)
def test_a_good_module_of_each_type_follows_all_rules(run_here: RunHere, tmp_path: Path, module_type: str) -> None:
    result = check(run_here, write_project(tmp_path / "sample", write_module(module_type)), module_type)
    assert (result.json["failed"], result.json["type"], result.code) == ([], module_type, 0)
    assert [outcome["rule"] for outcome in result.json["rules"]][:4] == [
        "its_import_name_is_valid",
        ENTRY_POINT,
        "it_can_be_imported",
        "it_mounts_what_its_type_requires",
    ]


@pytest.mark.skipif(find_spec("amplifier_core") is None, reason="the extra is not installed")
@pytest.mark.parametrize("module_type", ["tool", "hook"])
def test_modules_with_the_names_of_amplifier_core_follow_them_too(
    run_here: RunHere, tmp_path: Path, module_type: str
) -> None:
    code = write_module(module_type).replace("from mcp_bridge.amplifier import", "from amplifier_core import")
    assert check(run_here, write_project(tmp_path / "sample", code), module_type).json["failed"] == []


@pytest.mark.parametrize("name", ["greeter.py", "manners.py"])
def test_the_examples_follow_all_rules(run_here: RunHere, name: str) -> None:
    assert check(run_here, ROOT / "config" / "amplifier" / name).json["failed"] == []


def test_no_model_is_called(run_here: RunHere, tmp_path: Path) -> None:
    result = check(run_here, write_project(tmp_path / "sample", write_module("provider")), "provider")
    outcomes = {outcome["rule"]: outcome["state"] for outcome in result.json["rules"]}
    assert outcomes["complete_reports_usage"] == outcomes["list_models_describes_models"] == "skipped"


def test_the_report_has_a_line_for_each_rule_and_a_summary(run_here: RunHere, tmp_path: Path) -> None:
    result = run_here("module", "validate", write_project(tmp_path / "sample", RETURNS_TEXT))
    lines = result.out.splitlines()
    rule = "valid_arguments_give_a_result_and_are_not_changed"
    assert (result.code, result.err) == (1, "")
    assert "ok   it_has_a_name_and_a_description" in lines
    reason = "'sample' with {'text': 'sample'} returned a str instead of a ToolResult"
    assert f"FAIL {rule}: {reason}" in lines
    assert lines[-1] == f"{tmp_path / 'sample'}: tool (from __amplifier_module_type__); 1 rule broken: {rule}"


def test_json_has_every_documented_key(run_here: RunHere, tmp_path: Path) -> None:
    result = check(run_here, write_project(tmp_path / "sample", write_module("tool")))
    assert result.err == ""
    assert set(result.json) == {"module", "type", "type_from", "ok", "failed", "rules"}
    assert all(set(outcome) == {"rule", "state", "reason"} for outcome in result.json["rules"])


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["nowhere.py"], "nowhere.py: no such file or folder"),
        (["file:///nowhere/at/all"], "no such file or folder"),
        (
            ["no-such-module"],
            "'no-such-module' is neither a folder nor a file, and no module of that name is installed",
        ),
        (["git+https://localhost/it@main"], "git+https://localhost/it@main is a URL, and this command fetches nothing"),
        (["notes.txt"], "notes.txt is a file, but not a Python file"),
        ([".", "--config", "{"], "--config: invalid JSON"),
        ([".", "--config", "[]"], "--config: found list"),
        ([".", "--timeout", "nan"], "--timeout: found nan"),
        ([".", "--type", "tools"], "--type"),
        # From Python 3.14 on, `Path.exists` is False for such a name.
        (["./" + "x" * 5000], "File name too long" if sys.version_info < (3, 14) else "no such file or folder"),
    ],
)
def test_invalid_arguments_are_usage_errors(run_here: RunHere, tmp_path: Path, args: list[str], problem: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    result = run_here("module", "validate", *args)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err


@pytest.mark.parametrize(
    ("module_type", "declares", "args", "expected"),
    [
        ("tool", True, [], ("tool", "__amplifier_module_type__")),
        ("hook", False, [], ("hook", "what it mounts")),
        ("context", False, [], ("context", "what it mounts")),
        ("tool", False, ["--type", "tool"], ("tool", "--type")),
    ],
)
def test_the_type_is_given_or_declared_or_what_is_mounted(
    run_here: RunHere, tmp_path: Path, module_type: str, declares: bool, args: list[str], expected: tuple[str, str]
) -> None:
    code = write_module(module_type)
    if not declares:
        code = code.replace(f'__amplifier_module_type__ = "{module_type}"', "")
    result = check(run_here, write_project(tmp_path / "sample", code), module_type, *args)
    assert (result.json["type"], result.json["type_from"], result.json["failed"]) == (*expected, [])


def test_a_module_of_another_type_than_requested_breaks_the_rule(run_here: RunHere, tmp_path: Path) -> None:
    result = check(run_here, write_project(tmp_path / "sample", write_module("tool")), "", "--type", "hook")
    assert result.json["failed"] == ["it_mounts_what_its_type_requires"]
    assert result.json["rules"][-2]["reason"] == "`mount` mounted nothing at 'hooks'"


def test_a_module_that_needs_the_extra_names_it(run_here: RunHere, tmp_path: Path) -> None:
    raises = 'raise ModuleNotFoundError("No module named \'amplifier_core\'", name="amplifier_core.models")\nlogger = '
    result = check(run_here, write_project(tmp_path / "sample", write_module("tool").replace("logger = ", raises)))
    assert result.json["failed"] == ["it_can_be_imported"]
    assert "pip install 'mcp-tool-bridge[amplifier]'" in result.out


def test_the_configuration_is_passed_and_its_secrets_are_redacted(run_here: RunHere, tmp_path: Path) -> None:
    raises = "    raise RuntimeError(str(config))\n"
    code = write_module("tool").replace(
        "async def mount(coordinator, config):\n", f"async def mount(coordinator, config):\n{raises}"
    )
    config = '{"level": "visible", "api_key": "not to be seen", "auth": {"users": ["nor this one"]}}'
    result = run_here("module", "validate", write_project(tmp_path / "sample", code), "--json", "--config", config)
    assert result.json["failed"] == ["it_mounts_what_its_type_requires"]
    assert "visible" in result.out
    assert "not to be seen" not in result.out
    assert "nor this one" not in result.out


@pytest.mark.parametrize("target", ["project/sample", "source", "one/alone.py", "sample", "file"])
def test_a_module_is_found_as_the_loader_finds_it(run_here: RunHere, tmp_path: Path, target: str) -> None:
    code = write_module("tool")
    folder = write_project(tmp_path / "project", code)
    write_project(tmp_path / "amplifier-module-sample", code)
    write_project(tmp_path / "source", "", {"src/sample/__init__.py": code})
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "alone.py").write_text(code, "utf-8")
    (tmp_path / "one" / "pyproject.toml").write_text("[project]\nname = 'more'\n", "utf-8")
    result = check(run_here, f"file://{folder}" if target == "file" else target)
    assert (result.json["failed"], result.json["type"]) == ([], "tool"), result.out


def test_an_installed_module_is_found_by_its_name(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project(tmp_path / "project", write_module("tool"))
    info = folder / "sample-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[amplifier.modules]\nmy-sample = sample:mount\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
    result = check(run_here, "my-sample")
    assert result.json["failed"] == [], result.out
    assert ENTRY_POINT not in {outcome["rule"] for outcome in result.json["rules"]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[project", "cannot be read"),
        ("[project]\nentry-points = 3\n", "no entry point"),
        ('[project.entry-points."amplifier.modules"]\na = "one:mount"\nb = "two:mount"\n', "names 'sample'"),
        ("", "has no pyproject.toml"),
    ],
)
def test_a_pyproject_without_the_entry_point_is_found(
    run_here: RunHere, tmp_path: Path, text: str, problem: str
) -> None:
    result = check(run_here, write_project(tmp_path / "sample", write_module("tool"), {"pyproject.toml": text}))
    assert result.json["failed"] == [ENTRY_POINT]
    assert problem in result.json["rules"][1]["reason"]


def test_names_that_cannot_be_imported_are_found(run_here: RunHere, tmp_path: Path) -> None:
    for name, problem in (("class", "not valid in an import"), ("json", "of the standard library")):
        (tmp_path / f"{name}.py").write_text(write_module("tool"))
        result = check(run_here, f"{name}.py")
        assert problem in result.json["rules"][0]["reason"]
