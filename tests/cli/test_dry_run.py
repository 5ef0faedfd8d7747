"""`call --dry-run`: the steps of a chain and the command line of a command, without running anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.cli.cli_running import Inside

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


def test_the_steps_of_a_chain_are_shown_with_their_arguments(inside: Inside) -> None:
    done = inside("call", "s.yaml", "whole", "url=x", "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        '1. fetch {"url": "x"}',
        '2. count {"words": "<page.text from step 1, fetch>", "extra": 2}',
    ]


def test_values_that_a_step_merges_into_the_context_are_unknown(inside: Inside) -> None:
    done = inside("call", "s.yaml", "merged", "url=x", "--dry-run", "--json")
    assert done.json == {
        "steps": [
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
    }


def test_the_command_line_of_a_command_is_shown(inside: Inside, tmp_path: Path) -> None:
    done = inside("call", "s.yaml", "list", "folder=a b", "pattern=*.py", "--dry-run")
    assert done.out == f"""1. ls -I '*.py' -- 'a b' {{"cwd": "{tmp_path}"}}\n"""
    with_fixed_pattern = inside("call", "s.yaml", "texts", "folder=a b", "--dry-run")
    assert with_fixed_pattern.out == done.out


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("whole",), 1, "- $.url: required field missing"),
        (("list", "folder=.."), 1, "- $.folder: this path leads out of the folder"),
        (("fetch", "url=x"), 2, "'fetch' is neither a chain nor a command. Leave out --dry-run to call it"),
        (("whol", "url=x"), 3, "Unknown tool: whol. Did you mean 'whole'?"),
    ],
)
def test_what_cannot_run_is_an_error(inside: Inside, words: tuple[str, ...], code: int, problem: str) -> None:
    done = inside("call", "s.yaml", *words, "--dry-run")
    assert done.out == ""
    assert problem in done.err
    assert done.code == code


def test_another_server_cannot_show_what_it_would_run(inside: Inside) -> None:
    done = inside("call", "http://127.0.0.1:1/mcp", "t", "--dry-run")
    assert done.code == 2
    assert "only a bridge in this process can show what a call would run" in done.err
