"""`import command`: drafts of commands from the help texts of real programs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import anyio
import pytest
from ruamel.yaml import YAML

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._cli.drafting.help_text import parse_help
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.cli.cli_running import RunHere
from tests.kits.wire.speaking import call, get_text

BIN = Path(sys.executable).parent
CLICK = """
import click

@click.group()
def cli(): ...

@cli.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--count", "-c", default=1, help="How often.")
@click.option("--shout/--no-shout", default=None)
@click.option("--kind", type=click.Choice(["a", "b"]), multiple=True)
@click.option("--range", nargs=2, type=int)
@click.option("-q", is_flag=True)
def greet(names, count, shout, kind, range, q):
    \"\"\"Greet a user.

    More about it.
    \"\"\"
    print(f"{' '.join(names)} {count} {shout} {','.join(kind)} {range} {q}")

@cli.command(hidden=True)
def secret(): ...

@cli.command()
@click.argument("file", type=click.Path())
def show(file):
    print(file)
"""
TYPER = """
from typing import Annotated
import typer

app = typer.Typer()

@app.command()
def add(a: int, b: int, verbose: Annotated[bool, typer.Option(help="Say more.")] = False, note: str = ""):
    \"\"\"Add two numbers.\"\"\"
    print(a + b, verbose, note)

def main():
    app()
"""
ARGPARSE = """
import argparse
parser = argparse.ArgumentParser(description="Resize an image.")
parser.add_argument("image", help="the image")
parser.add_argument("others", nargs="*")
parser.add_argument("-w", "--width", type=int, required=True, metavar="N", help="the width in pixels")
parser.add_argument("--format", choices=["png", "jpg"], default="png", help="the format (default: %(default)s)")
parser.add_argument("--tag", nargs="+", help="tags")
text = "change nothing, but describe in detail what would be changed"
parser.add_argument("--dry-run", action="store_true", help=text)
parser.add_argument("--cache", action=argparse.BooleanOptionalAction)
given = parser.parse_args()
print(sorted(vars(given).items()))
"""


def write_script(folder: Path, name: str, code: str, call: str) -> str:
    """Write a module and a console script, as pip does, and return the command."""
    (folder / f"{name}_module.py").write_text(textwrap.dedent(code))
    script = folder / name
    script.write_text(
        f"#!{sys.executable}\n# -*- coding: utf-8 -*-\nimport sys\nfrom {name}_module import {call}\n"
        f"if __name__ == '__main__':\n    sys.exit({call}())\n"
    )
    script.chmod(0o755)
    return str(script)


def draft_source(run_here: RunHere, *command: str) -> Any:
    """Draft a command, and return the source of the settings."""
    result = run_here("import", "command", *command)
    assert result.code == 0, result.err
    (source,) = YAML(typ="safe").load(result.out)["sources"]
    return source


async def call_drafted(folder: Path, source: Any, name: str, **arguments: Any) -> str:
    """Serve a draft, and call a tool of it."""
    (folder / "settings.json").write_text(json.dumps({"sources": [source]}))
    async with connect(build_from_settings(load(folder / "settings.json", os.environ))) as client:
        result = await call(client, name, **arguments)
        assert not result["isError"], get_text(result)
        return get_text(result)


@pytest.fixture
def python_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make the modules of a test importable for programs, as if they were installed."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return {"PYTHONPATH": str(tmp_path)}


async def test_the_help_of_click_is_parsed_and_the_draft_works(
    run_here: RunHere, tmp_path: Path, python_path: dict[str, str]
) -> None:
    source = draft_source(run_here, write_script(tmp_path, "greeter", CLICK, "cli"), "greet")
    tool = source["tools"]["greeter_greet"]
    assert tool["description"] == "Greet a user."
    assert tool["parameters"]["count"] == {"type": "integer", "description": "How often."}
    output = await call_drafted(tmp_path, {**source, "env": python_path}, "greeter_greet", names=["a", "b"], count=2)
    assert output.splitlines()[-1] == "a b 2 None  None False"


async def test_the_help_of_typer_is_parsed_and_the_draft_works(
    run_here: RunHere, tmp_path: Path, python_path: dict[str, str]
) -> None:
    source = draft_source(run_here, write_script(tmp_path, "adder", TYPER, "main"))
    source |= {"env": python_path}
    assert await call_drafted(tmp_path, source, "adder", a="1", b="3", verbose=True, note="hi") == "4 True hi"


# Help texts


async def test_the_help_of_argparse_is_parsed_and_the_draft_works(run_here: RunHere, tmp_path: Path) -> None:
    script = tmp_path / "resize"
    script.write_text(f"#!{sys.executable}\n{ARGPARSE}")
    script.chmod(0o755)
    source = draft_source(run_here, str(script))
    assert source["tools"]["resize"] == {
        "description": "Resize an image.",
        "command": [
            str(script),
            "--width", "{width}",
            ["--format", "{format}"],
            {"if": "tag", "add": ["--tag", "{tag}"]},
            {"if": "dry_run", "add": "--dry-run"},
            {"if": "cache", "add": "--cache", "else": "--no-cache"},
            "{image}",
            ["{others}"],
        ],
        "parameters": {
            "width": {"type": "integer", "description": "the width in pixels"},
            "format": {"enum": ["png", "jpg"], "description": "the format (default: png)"},
            "tag": {"type": "string[]", "description": "tags"},
            "dry_run": {
                "type": "boolean", "description": "change nothing, but describe in detail what would be changed",
            },
            "cache": "boolean",
            "image": {"type": "string", "description": "the image"},
            "others": "string[]",
        },
    }  # fmt: skip
    output = await call_drafted(tmp_path, source, "resize", image="i", others=["o"], width=5, dry_run=True)
    assert "('image', 'i'), ('others', ['o']), ('tag', None), ('width', 5)" in output
    assert "('dry_run', True), ('format', 'png')" in output


REAL: dict[str, tuple[tuple[str, ...], str, dict[str, Any], str]] = {
    "grep": (("grep",), "grep", {"patterns": "b.", "file": ["letters"], "line_number": True}, "2:bb"),
    "git": (("git", "status"), "git_status", {"short": True}, "?? letters"),
    "ls": (("ls",), "ls", {"all": True, "file": ["letters"]}, "letters"),
    "ruff": ((str(BIN / "ruff"), "check"), "ruff_check", {"files": ["ok.py"], "quiet": True}, ""),
    "pip": ((f"{BIN / 'python'} -m pip list",), "pip_list", {"format": "json"}, "mcp-tool-bridge"),
    "curl": (("curl",), "curl", {"url": "file:///dev/null", "silent": True}, ""),
    "sort": (("sort",), "sort", {"file": ["letters"], "reverse": True}, "bb\naa"),
}
"""The command, its tool, arguments of a call, and what the call prints."""


@pytest.mark.parametrize("name", REAL)
async def test_the_draft_of_a_real_program_works(run_here: RunHere, tmp_path: Path, name: str) -> None:
    command, tool, arguments, expected_output = REAL[name]
    if shutil.which(shlex.split(command[0])[0]) is None:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "letters").write_text("aa\nbb\n")
    (tmp_path / "ok.py").write_text("a = 1\n")
    source = draft_source(run_here, *command)
    if name == "git":
        await anyio.run_process(["git", "init", "-q"], cwd=tmp_path)
    output = await call_drafted(tmp_path, source, tool, **arguments)
    assert expected_output in output


@pytest.mark.parametrize(
    ("line", "parameter"),
    [
        ("  -v, --verbose     more", {"option": "--verbose", "type": "boolean", "description": "more"}),
        ("  -x                one letter", {"option": "-x", "type": "boolean"}),
        ("  -n, --number=NUM  lines", {"option": "--number", "type": "integer", "joint": "="}),
        ("  --color[=WHEN]    when", {"option": "--color", "type": "string", "joint": "="}),
        ("  -o FILE, --out FILE  to", {"option": "--out", "type": "path", "joint": None}),
        ("      --select <RULE>", {"option": "--select", "type": "string"}),
        ("  --mode {a,b}  one", {"option": "--mode", "choices": ["a", "b"]}),
        ("  --mode <a|b>  one", {"option": "--mode", "choices": ["a", "b"]}),
        ("  --mode <M>  one [possible values: a, b-c]", {"option": "--mode", "choices": ["a", "b-c"]}),
        ("  --files F [F ...]  some", {"option": "--files", "takes_several": True, "is_list": True}),
        ("  --[no-]edit  edit", {"option": "--edit", "negation": "--no-edit", "type": "boolean"}),
        ("  --edit / --no-edit  edit", {"option": "--edit", "negation": "--no-edit"}),
        ("  --edit, --no-edit  edit", {"option": "--edit", "negation": "--no-edit"}),
        ("  --long\n        described\n        below", {"option": "--long", "description": "described below"}),
        ("  -q, --quiet, --silent  say less", {"option": "--quiet"}),
        ("  -in infile    read from", {"option": "-in", "type": "path", "joint": None}),
        ("  -std=<standard>  assume", {"option": "-std", "type": "string", "joint": "="}),
        ("-y              overwrite", {"option": "-y", "type": "boolean"}),
        ("-b     : issue warnings", {"option": "-b", "type": "boolean", "description": "issue warnings"}),
        ("  -q or --quiet    say less", {"option": "--quiet", "type": "boolean"}),
        ("  -q --quiet    say less", {"option": "--quiet", "type": "boolean", "description": "say less"}),
        ("  -q  --quiet   say less", {"option": "--quiet", "type": "boolean", "description": "say less"}),
        ("  --null        -T reads names", {"option": "--null", "description": "-T reads names"}),
        ("  --thin      - make it thin", {"option": "--thin", "description": "make it thin"}),
        ("  -C[number]  features", {"option": "-C", "joint": ""}),
        ("  -D <value> Specify it", {"option": "-D", "joint": None, "description": "Specify it"}),
        ("  --bind SRC DEST  mount", {"option": "--bind", "takes_several": True, "is_list": True}),
        ("  --dns list  servers", {"option": "--dns", "takes_several": False, "is_list": True}),
        ("  --cpus decimal  number", {"option": "--cpus", "type": "number"}),
        ("  --period int  limit", {"option": "--period", "type": "integer"}),
        ("  --all=false:\n\tshow all", {"option": "--all", "type": "boolean", "negation": "--all=false"}),
        ("  --[no]edit: edit", {"option": "--edit", "negation": "--noedit", "description": "edit"}),
    ],
)
def test_each_form_of_an_option_is_understood(line: str, parameter: dict[str, Any]) -> None:
    (option,) = parse_help(f"Usage: p [OPTION]...\n\n{line}\n", False, ["p"]).parameters
    assert {name: getattr(option, name) for name in parameter} == parameter


@pytest.mark.parametrize(
    "line",
    [
        "  -h, --help  show this",
        "  --version  print it",
        "  -NUM  same as -C",
        "  - a point",
        "  --no-OPTION  turn off",
    ],
)
def test_options_of_no_use_to_a_model_are_left_out(line: str) -> None:
    (argument,) = parse_help(f"Usage: p FILE\n\n{line}\n", False, ["p"]).parameters
    assert argument.name == "FILE"


@pytest.mark.parametrize(
    ("usage", "arguments"),
    [
        ("p [OPTION]... PATTERNS [FILE]...", [("PATTERNS", True, False), ("FILE", False, True)]),
        ("p [options] <requirement specifier> [package-index-options] ...", [("requirement specifier", True, False)]),
        ("p [-h] [-x X] --width N image [others ...]", [("image", True, False), ("others", False, True)]),
        ("p [-h] file [file ...]", [("file", True, True)]),
        ("p [<options>] [--] <pathspec>...", [("pathspec", True, True)]),
        ("p", []),
    ],
)
def test_the_usage_has_the_arguments(usage: str, arguments: list[tuple[str, bool, bool]]) -> None:
    parameters = parse_help(f"usage: {usage}\n  --version\n", False, ["/usr/bin/p"]).parameters
    assert [(entry.name, entry.is_required, entry.is_list) for entry in parameters if not entry.option] == arguments


@pytest.mark.parametrize(
    ("usage", "options"),
    [
        ("p [-h] [-x X] --width N [--tag TAG [TAG ...]]", ["-x", "--width", "--tag"]),
        ("p [-46AaC] [-in FILE] [-force]", ["-4", "-6", "-A", "-a", "-C", "-in", "-force"]),
        ("p [-l LEXER | -g] [-n | -N type]", ["-l", "-g", "-n", "-N"]),
        ("p [-options] [--global_flags] [-u|--utc] FILE", ["--utc"]),
        ("p [[infile options] -i infile]... {[outfile options] outfile}...", ["-i"]),
    ],
)
def test_the_usage_has_options_that_no_line_describes(usage: str, options: list[str]) -> None:
    parameters = parse_help(f"usage: {usage}\n", False, ["p"]).parameters
    assert [entry.option for entry in parameters if entry.option] == options


def test_two_options_in_one_line_are_two_parameters() -> None:
    line = "  -f  force it, really      -q  quiet operation"
    force, quiet = parse_help(f"Usage: p [-opts] x\n{line}\n", False, ["p"]).parameters[:2]
    assert (force.option, force.description) == ("-f", "force it, really")
    assert (quiet.option, quiet.description) == ("-q", "quiet operation")


def test_a_command_after_the_options_is_an_argument_unless_the_text_lists_commands() -> None:
    text = "Usage: docker run [OPTIONS] IMAGE [COMMAND] [ARG...]\n\nCreate a container\n\n  --init  run init\n"
    command = parse_help(text, False, ["docker", "run"])
    assert [(entry.name, entry.is_required) for entry in command.parameters] == [
        ("init", False), ("IMAGE", True), ("COMMAND", False), ("ARG", False),
    ]  # fmt: skip
    assert command.description == "Create a container"


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("unknown option -- -\nusage: p [-a rounds]\n", ""),
        ("p 1.2.3 (amd64)\nUsage: p FILE\n\nCounts the words\nof files.\n", "Counts the words of files."),
        ("p [OPTIONS...] NAME ...\n\nShow \x1b[1mit\x1b[0m.\n", "Show it."),
        ("OVERVIEW: dumps sizes\n\nUSAGE: p [options] file...\n", "dumps sizes"),
        ("Usage: p FILE\n\tReads the list of files\n", "Reads the list of files"),
        ("A tool.  Usage:\n\n    q [options] a\n    q --args b\n\nMore of it.\n", "More of it."),
        ("Usage: p FILE\n  The default action\n  is this.\n", "The default action is this."),
    ],
)
def test_the_description_is_text_about_the_program(text: str, description: str) -> None:
    assert parse_help(text, text.startswith("unknown"), ["p"]).description == description


# Mistakes


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("no-such-program",), "the program 'no-such-program' was not found"),
        (("'a",), "the command cannot be split into words: No closing quotation"),
        ((" ",), "no command was given"),
        (("true",), "`true --help` printed nothing"),
        ((f"{BIN / 'python'} -m pip",), "needs a command. Name one of its commands: install, "),
        (("git",), "'git' needs a command. Name one of its commands: "),
    ],
)
def test_a_command_that_cannot_be_drafted_is_an_error(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "true").write_text("#!/bin/sh\n")
    (tmp_path / "true").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    result = run_here("import", "command", *command)
    assert result.code == 2
    assert problem in result.err


FIND = "Usage: find [-H] [path...] [expression]\n\nTests:\n" + "      -amin N -anewer FILE -atime N\n" * 5
APT = "Usage: apt-get [options] command\n\nMost used commands:\n  update - Retrieve\n  install - Install\n"


@pytest.mark.parametrize(
    ("command", "text", "problem"),
    [
        ("ps", "Usage:\n ps [options]\n\n Try 'ps --help <simple|list>'\n", "the help of `ps` names no parameters"),
        ("find", FIND, "the help of `find` lists its options in an unknown form"),
        ("apt-get install", APT, "the help of `apt-get install` does not describe 'install'"),
        ("x", "cannot open display\n", "the help of `x` names no parameters"),
    ],
)
def test_a_text_without_parameters_is_an_error_with_an_example(
    tmp_path: Path, command: str, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)) as error_info:
        parse_help(text, False, command.split())
    example = str(error_info.value).partition("For example:")[2]
    (tmp_path / "settings.yaml").write_text(example)
    build_from_settings(load(tmp_path / "settings.yaml", os.environ))
    assert YAML(typ="safe").load(example)["sources"][0]["tools"][re.sub("[- ]", "_", command)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (APT, "update, install"),
        ("Standard commands\nasn1parse         ca          \ncms               crl\n", "asn1parse, ca, cms, crl"),
        ("Tool\n\nCommands:\n\n -certreq     Generates\n -list        Lists\n", "-certreq, -list"),
        ("p <command>\n\nUsage:\n\np install   do\n\nAll commands:\n\n    access, add,\n    bugs\n",
         "access, add, bugs"),
        ("Usage: p [flags]\n\nBasic Commands (Beginner):\n  create    Create it\n\nMore Commands:\n  run  Run\n",
         "create, run"),
        ("p [OPTIONS...] COMMAND ...\n\nUnit Commands:\n  list [PATTERN...]      List,\n"
         "                         ordered\n  stop UNIT...   Stop\n", "list, stop"),
    ],
)  # fmt: skip
def test_a_program_with_commands_lists_them(text: str, names: str) -> None:
    with pytest.raises(ConfigError, match=f"'p' needs a command. Name one of its commands: {re.escape(names)}$"):
        parse_help(text, False, ["p"])
