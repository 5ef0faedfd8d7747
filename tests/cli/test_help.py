"""`--help` has whole sentences, and a wrong command line is explained."""

from __future__ import annotations

import re

import pytest

from mcp_bridge._cli.commands import COMMANDS, EXPORT_COMMANDS
from mcp_bridge._cli.groups import RootGroup
from tests.kits.cli.cli_running import RunHere


def test_the_first_screen_explains_six_commands_and_names_the_others_in_groups(run_here: RunHere) -> None:
    help_text = run_here("--help").out
    everyday, _, others = help_text.partition("\nMore commands:\n")
    for name in RootGroup.everyday:
        assert re.search(rf"^  {name} +[A-Z]", everyday, re.MULTILINE)
    for title, names in RootGroup.sections.items():
        assert re.search(rf"^  {title} +{', '.join(names)}$", others, re.MULTILINE)
    assert run_here().err == help_text


def test_the_full_help_explains_every_command_in_its_group(run_here: RunHere) -> None:
    help_text = run_here("--help-all").out
    names = list(RootGroup.everyday)
    for title, section in RootGroup.sections.items():
        assert f"\n{title}:\n" in help_text
        names += section
    assert sorted(names) == sorted([*COMMANDS, "export", "module", "import", "approvals"])
    for name in names:
        assert re.search(rf"^  {name} +[A-Z]", help_text, re.MULTILINE)
    for text in (help_text, run_here("export", "--help").out):
        assert "..." not in text.replace("[ARGS]...", "")


@pytest.mark.parametrize(
    ("words", "pair"),
    [
        (["--item", "pears"], "item=pears"),
        (["--item=two pears"], "'item=two pears'"),
        (["--dry_run"], "dry_run=VALUE"),
        (["--item", "p" * 1000], "item=VALUE"),
    ],
)
def test_an_argument_of_a_tool_that_is_written_as_an_option_is_explained(
    run_here: RunHere, words: list[str], pair: str
) -> None:
    result = run_here("call", "tools.py", "take", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(f", write {pair}\n")


def test_words_after_two_dashes_are_the_options_of_another_program(run_here: RunHere) -> None:
    result = run_here("list", "--", "no-such-program", "--item", "pears")
    assert "has no option" not in result.err
    assert "no-such-program" in result.err


@pytest.mark.parametrize("words", [*([name] for name in COMMANDS), *(["export", name] for name in EXPORT_COMMANDS)])
def test_metavars_are_words_in_capitals(run_here: RunHere, words: list[str]) -> None:
    help_text = run_here(*words, "--help").out
    assert not re.search(r"<\w+|\{\w+\}|list\[", help_text)
    usage = help_text.splitlines()[0].partition("[OPTIONS]")[2]
    assert usage == usage.upper()


def test_the_parts_of_a_call_are_explained_one_by_one(run_here: RunHere) -> None:
    help_text = run_here("call", "--help").out
    assert help_text.startswith("Usage: mcp-bridge call [OPTIONS] [TARGET] TOOL [KEY=VALUE]...\n")
    for word in ("TARGET", "TOOL", "KEY=VALUE"):
        assert re.search(rf"^  {word} +[A-Z]", help_text, re.MULTILINE)
