"""`explain` with arguments: the steps of a chain and the command line of a command, without running anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.cli.cli_running import RunHere

SETTINGS = """
sources:
  - {type: python, path: tools.py}
  - type: command
    tools:
      list:
        command: [ls, [-I, "{pattern}"], --, "{folder}"]
        parameters: {folder: path, pattern: string}
      texts:
        command: [ls, [-I, "{pattern}"], --, "{folder}"]
        parameters: {folder: path, pattern: string}
    overrides:
      texts: {arguments: {pattern: {value: "*.py"}}}
chains:
  whole:
    steps:
      - {tool: fetch, input: {url: url}, output: page}
      - {tool: count, input: {words: page.text, extra: {value: 2}}, output: total}
  merged:
    steps:
      - {tool: fetch, input: {url: url}}
      - {tool: count, input: {words: text}, output: total}
      - {tool: anything}
"""
TOOLS = """
from mcp_bridge import ToolEntry, tool

def run(data):
    raise SystemExit("this tool must not run")

fetch = ToolEntry("fetch", "", run, {"properties": {"url": {"type": "string"}}, "required": ["url"]})
count = ToolEntry("count", "", run, {"properties": {"words": {}}})
anything = ToolEntry("anything", "", run, {})
"""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, forgotten: None) -> None:
    (tmp_path / "s.yaml").write_text(SETTINGS)
    (tmp_path / "tools.py").write_text(TOOLS)


def test_the_steps_of_a_chain_are_shown_with_their_arguments(run_here: RunHere) -> None:
    result = run_here("explain", "s.yaml", "whole", "url=x")
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith(
        "\n\n'whole' would run:\n"
        '  1. fetch {"url": "x"}\n'
        '  2. count {"words": "<page.text from step 1, fetch>", "extra": 2}\n'
        "\nThe call to 'whole' would run.\n"
    )


def test_values_that_a_step_merges_into_the_context_are_unknown(run_here: RunHere) -> None:
    assert run_here("explain", "s.yaml", "merged", "url=x", "--json").json["steps"] == [
        {"action": "fetch", "arguments": {"url": "x"}},
        {"action": "count", "arguments": {"words": "<text from step 1, fetch>"}},
        {
            "action": "anything",
            "arguments": {
                "url": "x",
                "total": "<total from step 2, count>",
                "<output of step 1, fetch>": "<all of it>",
            },
        },
    ]


def test_the_command_line_of_a_command_is_shown(run_here: RunHere, tmp_path: Path) -> None:
    steps = [{"action": "ls -I '*.py' -- 'a b'", "arguments": {"cwd": str(tmp_path)}}]
    assert run_here("explain", "s.yaml", "list", "folder=a b", "pattern=*.py", "--json").json["steps"] == steps
    assert run_here("explain", "s.yaml", "texts", "folder=a b", "--json").json["steps"] == steps


def test_arguments_that_only_the_command_checks_stop_the_call(run_here: RunHere) -> None:
    result = run_here("explain", "s.yaml", "list", "folder=..")
    assert "$.folder: this path leads out of the folder" in result.out
    assert result.out.endswith("The call to 'list' would be stopped by: run the tool.\n")
    assert result.code == 1


@pytest.mark.parametrize("words", [["whole"], ["whole", "url:=5"], ["fetch", "url=x"]])
def test_no_steps_are_shown_without_valid_arguments_or_for_a_single_tool(run_here: RunHere, words: list[str]) -> None:
    assert run_here("explain", "s.yaml", *words, "--json").json["steps"] == []
