"""Runs the commands of manuals, without a shell if possible.

A value in the arguments must stay one word of the command, as the manual intends. Without a shell, it always is one
word, but the program could read it as an option. A shell could also interpret the value, so `check_shell_values`
rejects values with a meaning for shells.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio

from mcp_bridge._contracts.errors import InvalidArguments, SourceError, ToolUnavailable
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._integrations.frameworks.common import Json, make_failure
from mcp_bridge._json_schema.size_limits import MAX_VALUES, has_too_many_values
from mcp_bridge._protocol.wire.values import to_plain_text
from mcp_bridge._runtime.platform import system

EXIT_CODE = "utcp/exit_code"
"""The key in `_meta` for the exit code of a program."""
# UTCP's placeholder for an argument in a command.
_PLACEHOLDER = re.compile(r"UTCP_ARG_(.+?)_UTCP_END")
_DASH = "the value begins with '-', so the program would read it as an option. Give another value"
_MAX_NAME, _MAX_NAMES = 80, 20
"""The maximum numbers of characters of an unknown argument's name in an error, and of names."""
# The characters that separate the simple commands of a shell.
_OPERATORS = "|&;()<>`\n"
# The beginning of an arithmetic expression of a shell.
_ARITHMETIC = "(("
# The beginning of a command substitution of a shell.
_SUBSTITUTION = re.compile(r"\$\(|`")
# Values that have no meaning for a shell.
_PLAIN = re.compile(r"[\w./:@%+,=-]*")
_SHELL = re.compile(r"[|&;<>()$`\\\n*?\[\]{}~!#]|^\s*\w+=")
"""Syntax that needs a shell."""
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "USER", "LOGNAME", "SHELL", "TZ", "TERM")
"""The variables that programs inherit unless their template names others; the same as in UTCP's own client."""


def split_command(template: Json) -> list[str] | None:
    """Split the only command of a template into words. Return None if it needs a shell.

    Raises SourceError if there is no command, or no such program: a shell would report that as a success.
    """
    # Before version 1 of UTCP, this key had the command.
    if isinstance(template.get("command_name"), str):
        return shlex.split(template["command_name"])
    commands = template.get("commands")
    if not commands:
        raise SourceError("its call template has no commands. Add one")
    if (
        not system.HAS_POSIX_SHELL
        or not isinstance(commands, list)
        or len(commands) != 1
        or not isinstance(commands[0], dict)
    ):
        return None
    command = str(commands[0].get("command") or "")
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words or _SHELL.search(_PLACEHOLDER.sub("", command)):
        return None
    if not system.is_path(words[0]) and system.locate_program(words[0]) is None:
        raise SourceError(f"there is no program '{words[0]}' on PATH. Install it, or give its full path")
    return words


class ProgramCall:
    """Runs one program. Only its `parameters` reach it, and no value can become an option."""

    def __init__(self, words: list[str], template: Json, parameters: Collection[str]) -> None:
        self._words = words
        self._parameters = parameters
        self._has_options = "command_name" in template
        self._template = template
        self._folder = template.get("working_dir")

    async def run(self, data: Json) -> ToolResult:
        """Run the program and return its output, or its stderr as an error if the exit code is not 0."""
        arguments = dict(data or {})
        check_declared(arguments, self._parameters)
        if self._has_options:
            words = self._words + list(_build_options(arguments))
        else:
            words = replace_placeholders(self._words, arguments)
        if any("\0" in word for word in words):
            raise InvalidArguments(["$: arguments of a program cannot contain null characters"])
        try:
            process = await anyio.run_process(
                words, stdin=DEVNULL, check=False, cwd=self._folder, env=_build_environment(self._template)
            )
        except OSError as error:
            raise ToolUnavailable(f"The program '{words[0]}' cannot be started: {error.strerror}.") from error
        output, stderr = _decode_text(process.stdout), _decode_text(process.stderr)
        if process.returncode:
            failure = make_failure(stderr or output or f"The program ended with exit code {process.returncode}.")
            return replace(failure, meta={EXIT_CODE: process.returncode})
        if output.startswith(("{", "[")) and has_too_many_values(process.stdout):
            text = f"The program '{words[0]}' has succeeded, but its output has more than {MAX_VALUES} values."
            return ToolResult(success=False, error=text, code="result_too_large", meta={EXIT_CODE: 0})
        value: Any = output
        if output.startswith(("{", "[")):
            with contextlib.suppress(ValueError):
                value = json.loads(output)
        return ToolResult(success=True, output=value)


def _decode_text(data: bytes) -> str:
    return data.decode(errors="replace").strip().removeprefix("\ufeff")


def add_working_dir(template: Json, folder: Path | None) -> Json:
    """Return the template with the absolute `working_dir` of its program. A relative one starts at the manual.

    A manual that is not a file has no folder. Its programs without `working_dir` run in the folder of the process.
    """
    value = template.get("working_dir")
    directory = value if isinstance(value, str) else ""
    if folder is not None:
        directory = str(folder / directory)
    return {**template, "working_dir": directory or None}


def _build_environment(template: Json) -> dict[str, str]:
    names = template.get("inherit_env_vars")
    if names is None:
        names = _INHERITED
    variables = {name: os.environ[name] for name in names if name in os.environ}
    for name, value in (template.get("env_vars") or {}).items():
        variables[name] = str(value)
    return variables


def check_declared(arguments: Json, parameters: Collection[str]) -> None:
    """Raise InvalidArguments for arguments that are no parameters. Each could become an option."""
    extra_names = [name for name in arguments if name not in parameters]
    if extra_names:
        expected = ", ".join(parameters) or "no arguments"
        lines = [
            f"$.{name[:_MAX_NAME]}: is not declared by the tool. It takes {expected}"
            for name in extra_names[:_MAX_NAMES]
        ]
        raise InvalidArguments(lines)


def replace_placeholders(words: Sequence[str], arguments: Json) -> list[str]:
    """Fill in the arguments. A word that is only a placeholder is omitted if its argument is missing.

    Raises InvalidArguments for a value that would turn its word into an option, because it begins with a dash. After
    the word `--` programs expect no options, so any value is allowed.
    """
    words_with_values: list[str] = []
    for word in words:
        names = _PLACEHOLDER.findall(word)
        if names and _PLACEHOLDER.fullmatch(word) and names[0] not in arguments:
            continue
        text = _PLACEHOLDER.sub(lambda match: to_plain_text(arguments.get(match[1], "")), word)
        becomes_option = text.startswith("-") and not word.startswith("-")
        if names and becomes_option and "--" not in words_with_values:
            raise InvalidArguments([f"$.{names[0]}: {_DASH}"])
        words_with_values.append(text)
    return words_with_values


def split_shell_commands(template: Json) -> list[list[str]]:
    """Return the words of each simple command in the commands for a shell.

    A shell runs `a x | b y` as two simple commands. If the quotes of a command do not match, each placeholder counts as
    a command. The words of an arithmetic expression begin with `((`.
    """
    commands: list[list[str]] = []
    for step in template.get("commands") or []:
        commands += _split_simple_commands(str(step.get("command") or ""))
    return commands


def check_shell_values(commands: Iterable[Sequence[str]], arguments: Json) -> None:
    """Raise InvalidArguments for values that a program would read as options, or a shell would interpret.

    utcp-cli gives values to the shell as quoted variables. They stay single words, except in a substitution inside
    double quotes, which splits them, and in an arithmetic expression, which evaluates them.
    """
    for command in commands:
        replace_placeholders(command, arguments)
        unsafe_words = command
        if command[:1] != [_ARITHMETIC]:
            unsafe_words = [word for word in command if _SUBSTITUTION.search(word)]
        for name in _PLACEHOLDER.findall(" ".join(unsafe_words)):
            if name in arguments and not _PLAIN.fullmatch(to_plain_text(arguments[name])):
                line = f"$.{name}: the shell would interpret this value. Use only letters, digits and ./:@%+,=_-"
                raise InvalidArguments([line])


def _split_simple_commands(command: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS)
    # A line feed ends a command, so it is one of the operators instead of whitespace.
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        for match in _PLACEHOLDER.finditer(command):
            yield [match[0]]
        return
    simple_command: list[str] = []
    is_arithmetic = False
    for word in words:
        if word.strip(_OPERATORS):
            simple_command.append(word)
            continue
        yield simple_command
        is_arithmetic = _ARITHMETIC in word or (is_arithmetic and "))" not in word)
        simple_command = [_ARITHMETIC] if is_arithmetic else []
    yield simple_command


def _build_options(arguments: Json) -> Iterator[str]:
    """Yield arguments as options, as manuals before version 1 define them: `--name value`, and `--name` for true.

    A value that begins with a dash is joined, `--name=-1`, because the program could read a separate word as another
    option. All other values stay separate, because not every program accepts the joined form.
    """
    for name, value in arguments.items():
        for item in value if isinstance(value, list) else [value]:
            if item is True:
                yield f"--{name}"
            elif item is not False and item is not None:
                text = to_plain_text(item)
                if text.startswith("-"):
                    yield f"--{name}={text}"
                else:
                    yield f"--{name}"
                    yield text
