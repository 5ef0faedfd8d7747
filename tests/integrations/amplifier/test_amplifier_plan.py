"""Mount plans: reading, problems with their places, and plans as settings files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._integrations.amplifier.mount_plan import read_plan
from mcp_bridge._settings import load
from tests.kits.amplifier.amplifier_modules import MODULE, write_files


def test_an_orchestrator_by_name_has_keys_for_its_source_and_its_config() -> None:
    beside = {
        "session": {"orchestrator": "loop-x", "orchestrator_source": "./loop", "context": "context-x"},
        "orchestrator": {"config": {"a": 1}},
        "context": {"config": {"b": 2}},
    }
    full_plan = {
        "session": {
            "orchestrator": {"module": "loop-x", "source": "./loop", "config": {"a": 1}},
            "context": {"module": "context-x", "config": {"b": 2}},
        }
    }
    mixed_plan = {**beside, "session": {**beside["session"], "orchestrator": {"module": "loop-x"}}}
    assert (
        read_plan(beside)[0].list_modules()
        == read_plan(full_plan)[0].list_modules()
        == read_plan(mixed_plan)[0].list_modules()
    )
    for plan in (beside, full_plan, mixed_plan):
        assert read_plan(plan)[1] == []


def test_a_module_as_text_has_no_source_and_no_config() -> None:
    plan, problems = read_plan(
        {"tools": ["tool-a", {"module": "tool-b", "source": None, "config": None}], "hooks": None}
    )
    assert problems == []
    assert [(spec.module, spec.section, spec.source, spec.config) for spec in plan.modules] == [
        ("tool-a", "tools", None, {}),
        ("tool-b", "tools", None, {}),
    ]


def test_dependencies_are_mounted_first() -> None:
    plan, problems = read_plan(
        {"hooks": ["h"], "tools": ["t"], "providers": ["p"], "session": {"context": "c", "orchestrator": "o"}}
    )
    assert ([spec.module for spec in plan.list_modules()], problems) == (["o", "c", "p", "t", "h"], [])
    assert [spec.module for spec in plan.get_section("tools")] == ["t"]


def test_agents_and_the_keys_of_modules_are_kept_unchanged() -> None:
    decision = {"agents": {"a": {"x": 1}}, "session": {"injection_size_limit": 5}, "tools": [{"module": "t", "id": 7}]}
    plan, problems = read_plan(decision)
    assert (plan.agents, plan.session, problems) == ({"a": {"x": 1}}, {"injection_size_limit": 5}, [])


WRONG: dict[str, tuple[Any, str, str]] = {
    "no mapping": ([], "", "expected a mapping"),
    "session": ({"session": "x"}, "session", "expected a mapping"),
    "agents": ({"agents": ["x"]}, "agents", "expected a mapping"),
    "a section": ({"tools": {"module": "x"}}, "tools", "expected a list of modules"),
    "a module": ({"hooks": ["a", 5]}, "hooks[1]", "expected a module: its name, or a mapping with 'module'"),
    "an empty name": ({"tools": [""]}, "tools[0]", "expected a module: its name, or a mapping with 'module'"),
    "no module": (
        {"tools": [{"name": "x", "source": "y"}]},
        "tools[0]",
        "expected a mapping with 'module', the id of a module. Its keys are: name, source",
    ),
    "text for a section": ({"tools": "cnt"}, "tools", "expected a list of modules, such as tools: [{module: cnt}]"),
    "a mapping for a section": (
        {"hooks": {"tool:pre": "x"}},
        "hooks",
        "expected a list of modules, such as hooks: [{module: ID}]",
    ),
    "orchestrator beside the session": (
        {"orchestrator": "loop-basic"},
        "orchestrator",
        "the orchestrator of a session belongs under 'session'. Write: session: {orchestrator: loop-basic}",
    ),
    "context of an agent beside its session": (
        {"agents": {"a": {"context": {"module": "c", "config": {}}}}},
        "agents.a.context",
        "the context of a session belongs under 'session'. Write: session: {context: c}",
    ),
    "limit": ({"session": {"injection_size_limit": "5"}}, "session.injection_size_limit", "expected a whole number"),
    "no section": (
        {"modules": ["x"]},
        "",
        "expected modules under session, providers, tools, hooks, agents. Its keys are: modules",
    ),
    "bundles": ({"includes": [{"bundle": "x"}]}, "includes", "the bundles that it includes are not read. Convert"),
    "files of agents": (
        {"agents": {"include": ["x:y"]}},
        "agents.include",
        "the files of agents that a bundle includes are not read. Convert",
    ),
    "module of another type": ({"tools": [{"module": ["x"]}]}, "tools[0].module", "expected the id of a module"),
    "module misspelt": ({"tools": [{"modul": "x"}]}, "tools[0].modul", "unknown key 'modul', did you mean 'module'?"),
    "config misspelt": (
        {"tools": [{"module": "x", "confg": {}}]},
        "tools[0].confg",
        "unknown key 'confg', did you mean 'config'?",
    ),
    "section misspelt": ({"tool": ["x"]}, "tool", "unknown key 'tool', did you mean 'tools'?"),
    "session key misspelt": (
        {"session": {"orchestrater": "x"}},
        "session.orchestrater",
        "unknown key 'orchestrater', did you mean 'orchestrator'?",
    ),
    "config": ({"providers": [{"module": "x", "config": [1]}]}, "providers[0].config", "expected a mapping"),
    "orchestrator": ({"session": {"orchestrator": 5}}, "session.orchestrator", "expected a module"),
    "context": ({"session": {"context": {"config": {}}}}, "session.context", "expected a mapping with 'module'"),
    "config beside": (
        {"session": {"orchestrator": "x"}, "orchestrator": {"config": 5}},
        "orchestrator.config",
        "expected a mapping",
    ),
    "what is beside": ({"session": {"context": "x"}, "context": "y"}, "context", "expected a mapping"),
}


@pytest.mark.parametrize(("value", "path", "problem"), WRONG.values(), ids=WRONG.keys())
def test_a_problem_has_its_path_in_the_plan(value: Any, path: str, problem: str) -> None:
    _, problems = read_plan(value)
    assert [line.path for line in problems] == [path]
    assert problems[0].problem.startswith(problem)


def test_every_problem_is_reported_and_the_rest_is_a_plan() -> None:
    plan, problems = read_plan({"tools": [{"module": 1}, "good", {"config": {}}], "hooks": 5})
    assert [line.path for line in problems] == ["tools[0].module", "tools[2]", "hooks"]
    assert [spec.module for spec in plan.list_modules()] == ["good"]


SETTINGS = """
sources:
  - type: amplifier
    plan:
      tools:
        - module: here
          confg: {}
        - here
      hooks: {a: 1}
"""


def get_error(path: Path) -> str:
    """Return the error of a bridge from these settings."""
    with pytest.raises(ConfigError) as caught:
        build_from_settings(load(path, {"SECRET": "hunter2hunter2"}))
    return str(caught.value)


def test_errors_of_settings_have_the_file_the_line_and_the_place_in_a_plan(tmp_path: Path) -> None:
    write_files(tmp_path, {"s.yaml": SETTINGS.lstrip()})
    output = get_error(tmp_path / "s.yaml").splitlines()
    assert len(output) == 2
    assert output[0].startswith(
        f"{tmp_path}/s.yaml:6: sources[0].plan.tools[0].confg: unknown key 'confg', did you mean"
    )
    expected = "expected a list of modules, such as hooks: [{module: a}], found a mapping"
    assert output[1] == f"{tmp_path}/s.yaml:8: sources[0].plan.hooks: {expected}"


def test_errors_of_a_plan_show_no_secret(tmp_path: Path) -> None:
    write_files(tmp_path, {"s.yaml": "sources: [{type: amplifier, plan: {tools: [{module: x, config: '${SECRET}'}]}}]"})
    output = get_error(tmp_path / "s.yaml")
    assert "plan.tools[0].config: expected a mapping" in output
    assert "hunter2" not in output


PLAN = """
session:
  orchestrator: loop-nowhere
  context: {module: context-nowhere}
tools:
  - module: here
    source: ${FOLDER}/here.py
    config: {word: "${WORD:-hello}", deep: [{secret: "${SECRET}"}]}
"""


def test_a_plan_is_a_settings_file_as_it_is_and_variables_are_expanded(tmp_path: Path) -> None:
    write_files(tmp_path, {"plan.yaml": PLAN})
    settings = load(tmp_path / "plan.yaml", {"FOLDER": "modules", "SECRET": "hunter2hunter2"})
    [source] = settings.sources
    assert (source.type, source.options["plan"]["tools"][0]) == (
        "amplifier",
        {
            "module": "here",
            "source": "modules/here.py",
            "config": {"word": "hello", "deep": [{"secret": "hunter2hunter2"}]},
        },
    )
    assert "hunter2hunter2" in settings.hidden_from_clients
    build_from_settings(settings)


def test_problems_of_a_plan_that_is_the_whole_file_have_lines(tmp_path: Path) -> None:
    write_files(tmp_path, {"plan.yaml": "tools:\n  - module: here\nhooks:\n  - {module: x, config: 5}\nagents: []\n"})
    output = get_error(tmp_path / "plan.yaml").splitlines()
    assert output[0].startswith(f"{tmp_path}/plan.yaml:4: hooks[0].config: expected a mapping, found")
    assert output[1].startswith(f"{tmp_path}/plan.yaml:5: agents: expected a mapping of names to agents, such as")


@pytest.mark.parametrize("text", ["tools: [{name: x}]", "tools: {x: 1}", "hooks: []", "session: x", "session: {}"])
def test_other_files_without_sources_are_not_plans(text: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"s.yaml": text})
    problem = get_error(tmp_path / "s.yaml")
    assert "unknown key" in problem
    assert problem.endswith("each module is a mapping with `module`; all other tools are listed under `sources`.")


@pytest.mark.parametrize("text", ["cnt", "[cnt, 5]", "{module: cnt}"])
def test_a_file_that_names_modules_in_another_form_is_a_plan(text: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"s.yaml": f"tools: {text}"})
    assert f"{tmp_path / 's.yaml'}:1: tools" in (problem := get_error(tmp_path / "s.yaml"))
    assert "expected a" in problem


def test_a_bundle_is_a_plan_except_for_what_it_includes(tmp_path: Path) -> None:
    bundle = "bundle: {name: mine, version: 1.0.0}\n"
    write_files(tmp_path, {"s.yaml": f"{bundle}tools: [here]\nspawn: {{}}\n", "more.yaml": f"{bundle}includes: [x]\n"})
    assert load(tmp_path / "s.yaml", {}).sources[0].options["plan"]["tools"] == ["here"]
    build_from_settings(load(tmp_path / "s.yaml", {}))
    assert get_error(tmp_path / "more.yaml").startswith(f"{tmp_path / 'more.yaml'}:2: includes: the bundles that it")


def run_validate(path: Path) -> Any:
    """Return the exit code and the output of `mcp-bridge validate` for a file."""
    command = [sys.executable, "-m", "mcp_bridge", "validate", str(path), "--json"]
    process = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=100, check=False)
    return process.returncode, json.loads(process.stdout)


def test_validate_lists_published_tools_and_modules_that_are_not_mounted(tmp_path: Path) -> None:
    write_files(tmp_path, {"here.py": MODULE, "plan.yaml": "tools: [{module: here, source: here.py}, {module: gone}]"})
    code, output = run_validate(tmp_path / "plan.yaml")
    assert (code != 0, output["ok"], output["tools"]) == (True, False, ["here"])
    assert output["problems"]["amplifier"][0].startswith("gone: module 'gone' is not an entry point")
    write_files(tmp_path, {"good.yaml": "tools: [{module: here, source: here.py}]", "bad.yaml": "tools: [{module: 5}]"})
    assert run_validate(tmp_path / "good.yaml")[0] == 0
    code, output = run_validate(tmp_path / "bad.yaml")
    assert (code != 0, output["errors"][0].split(": ", 1)[1][:20]) == (True, "tools[0].module: exp")
