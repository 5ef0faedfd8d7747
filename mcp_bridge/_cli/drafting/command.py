"""`import command`: drafts the settings of a tool from the help text of a program."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence

from mcp_bridge._cli.desktop_options import ImportCommandOptions
from mcp_bridge._cli.drafting.draft import render_settings
from mcp_bridge._cli.drafting.help_text import build_error, parse_help
from mcp_bridge._cli.output import format_count, report
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.platform import system

TIMEOUT = 60
"""Seconds in which a program has to print its help."""
_OTHER_HELP_OPTIONS = {"git": "-h"}
"""The option for programs whose `--help` opens a manual. For other programs, `-h` may mean anything."""
_PLAIN_OUTPUT_VARIABLES = {
    "COLUMNS": "120",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "TYPER_USE_RICH": "0",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "LC_ALL": "C.UTF-8",
}


def import_command(options: ImportCommandOptions) -> None:
    """Print the settings of a command as YAML. Raises ConfigError if its help does not describe it."""
    words = options.words
    try:
        # A command in quotes is one word.
        words = shlex.split(words[0]) if len(words) == 1 else words
    except ValueError as error:
        raise ConfigError(f"the command cannot be split into words: {error}", hint="Check the quotes") from None
    if not words or not words[0]:
        raise ConfigError("no command was given", hint="Use: mcp-bridge import command 'git log'")
    program = system.locate_program(words[0])
    if program is None:
        raise ConfigError(f"the program '{words[0]}' was not found", hint="Install it, or give its full path")
    text, has_failed = _read_help(program, words)
    command = parse_help(text, has_failed, words)
    print(render_settings(command), end="")
    count = format_count(len(command.parameters), "parameter")
    report(f"Drafted a tool with {count} from the help of the program. Remove what a model should not use.")


def _read_help(program: str, words: Sequence[str]) -> tuple[str, bool]:
    """Return the help text of a command, and whether it is the output of an error. Raises ConfigError.

    `program` is the path of the program.
    """
    option = _OTHER_HELP_OPTIONS.get(os.path.basename(words[0]), "--help")
    command = shlex.join([*words, option])
    call = [program, *words[1:], option]
    try:
        system.check_command(call)
        process = subprocess.run(  # noqa: S603 - the user's own command, without a shell
            call,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_PLAIN_OUTPUT_VARIABLES},
            timeout=TIMEOUT,
            check=False,
        )
    except OSError as error:
        raise ConfigError(f"`{command}` cannot be run: {error.strerror}", hint="Check the program") from error
    except ValueError as error:
        raise ConfigError(f"`{command}` cannot be run: {error}") from error
    except subprocess.TimeoutExpired:
        raise build_error(f"`{command}` did not end within {TIMEOUT} seconds", words) from None
    has_output = bool(process.stdout.strip())
    text = (process.stdout if has_output else process.stderr).decode(errors="replace")
    if not text.strip():
        raise build_error(f"`{command}` printed nothing", words)
    return text, process.returncode != 0 and not has_output
