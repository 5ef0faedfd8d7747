"""Command line call templates that need no shell: the program is run as it stands, with arguments as single words."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio

from mcp_bridge.contracts.errors import InvalidArguments, SourceError, ToolUnavailable
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.frameworks.shapes import Json
from mcp_bridge.wire.values import as_text

EXIT_CODE = "utcp/exit_code"
"""The key in `_meta` for how a program ended."""
_PLACEHOLDER = re.compile(r"UTCP_ARG_(.+?)_UTCP_END")
_DASH = "the value begins with '-', so the program would read it as an option. Give another value"
_NAMED, _LISTED = 80, 20
"""The most characters of an unknown name in an error, and the most names."""
_OPERATORS = "|&;()<>`\n"
_ARITHMETIC = "(("
_SUBSTITUTION = re.compile(r"\$\(|`")
_PLAIN = re.compile(r"[\w./:@%+,=-]*")
_SHELL = re.compile(r"[|&;<>()$`\\\n*?\[\]{}~!#]|^\s*\w+=")
"""What only a shell can read."""
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "USER", "LOGNAME", "SHELL", "TZ", "TERM")
"""What programs get of this process's environment unless their template says otherwise, as UTCP's own client has it."""


def words_of(template: Json) -> list[str] | None:
    """The words of a template's one command; None where it takes a shell to run.

    Raises SourceError where there is none, or a program that this machine does not have: a shell would call that a
    success.
    """
    if isinstance(template.get("command_name"), str):  # before version 1
        return shlex.split(template["command_name"])
    commands = template.get("commands")
    if not commands:
        raise SourceError("its call template has no commands")
    if os.name == "nt" or not isinstance(commands, list) or len(commands) != 1 or not isinstance(commands[0], dict):
        return None
    command = str(commands[0].get("command") or "")
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words or _SHELL.search(_PLACEHOLDER.sub("", command)):
        return None
    if os.sep not in words[0] and shutil.which(words[0]) is None:
        raise SourceError(f"there is no program '{words[0]}' on PATH. Install it, or give its whole path")
    return words


class Command:
    """Calls of one program. Only arguments that are `declared` reach it, and no value can become an option."""

    def __init__(self, words: list[str], template: Json, declared: Collection[str]) -> None:
        self._words = words
        self._declared = declared
        self._options = "command_name" in template
        self._template = template
        self._folder = template.get("working_dir")

    async def handler(self, data: Json) -> ToolResult:
        """Run it once: what it has written, or, where it ends with anything but 0, its complaint as an error."""
        arguments = dict(data or {})
        check_declared(arguments, self._declared, self._words[0])
        words = (
            [*self._words, *_options(arguments)]
            if self._options
            else fill_words(self._words, arguments, self._words[0])
        )
        if any("\0" in word for word in words):
            raise InvalidArguments(["$: a program takes no null characters"], tool=words[0])
        try:
            done = await anyio.run_process(
                words, stdin=DEVNULL, check=False, cwd=self._folder, env=_environment(self._template)
            )
        except OSError as error:
            raise ToolUnavailable(f"The program '{words[0]}' cannot be run here: {error.strerror}.") from error
        said, complaint = (text.decode(errors="replace").strip() for text in (done.stdout, done.stderr))
        if done.returncode:
            text = complaint or said or f"The program ended with exit code {done.returncode}."
            return ToolResult(success=False, error=text, code="tool_error", meta={EXIT_CODE: done.returncode})
        return ToolResult(success=True, output=read(said))


def read(text: str) -> Any:
    """What a program has written: JSON where it is an object or a list, else the text."""
    if text.startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text


def with_working_dir(template: Json, folder: Path | None) -> Json:
    """The template with the folder that its program runs in: its own, relative to that of the manual, or the manual's.

    Both may be missing where a manual is no file: such a program runs in the process's folder.
    """
    stated = template.get("working_dir")
    own = stated if isinstance(stated, str) else ""
    return {**template, "working_dir": (str(folder / own) if folder is not None else own) or None}


def _environment(template: Json) -> dict[str, str]:
    stated = template.get("inherit_env_vars")
    names = _INHERITED if stated is None else stated
    given = {name: os.environ[name] for name in names if name in os.environ}
    return {**given, **{name: str(value) for name, value in (template.get("env_vars") or {}).items()}}


def check_declared(arguments: Json, declared: Collection[str], tool: str) -> None:
    """Raise InvalidArguments for arguments that the tool's inputs do not declare: each could become an option."""
    unknown = [name for name in arguments if name not in declared]
    if unknown:
        known = ", ".join(declared) or "no arguments"
        named = [f"$.{name[:_NAMED]}: is not declared by the tool. It takes {known}" for name in unknown[:_LISTED]]
        raise InvalidArguments(named, tool=tool)


def fill_words(words: Sequence[str], arguments: Json, tool: str) -> list[str]:
    """The words with their arguments; a word that is only a placeholder is omitted where its argument is missing.

    Raises InvalidArguments for a value that would make its word an option: it begins with a dash, and so does not the
    word in the template. After the word `--` programs expect no options, so the value is allowed.
    """
    filled: list[str] = []
    for word in words:
        names = _PLACEHOLDER.findall(word)
        if names and _PLACEHOLDER.fullmatch(word) and names[0] not in arguments:
            continue
        text = _PLACEHOLDER.sub(lambda found: as_text(arguments.get(found[1], "")), word)
        if names and text.startswith("-") and not word.startswith("-") and "--" not in filled:
            raise InvalidArguments([f"$.{names[0]}: {_DASH}"], tool=tool)
        filled.append(text)
    return filled


def shell_parts(template: Json) -> list[list[str]]:
    """The words of each simple command in a template for a shell; where its quotes do not match, each placeholder.

    Those inside an arithmetic expression begin with `((`.
    """
    steps = template.get("commands") or []
    return [part for step in steps for part in _simple_commands(str(step.get("command") or ""))]


def check_shell_values(parts: Iterable[Sequence[str]], arguments: Json, tool: str) -> None:
    """Raise InvalidArguments for values that a program would read as options, or that the shell would interpret.

    utcp-cli gives values to the shell as quoted variables. They stay single words, except in a substitution inside
    double quotes, which splits them, and in an arithmetic expression, which evaluates them.
    """
    for part in parts:
        fill_words(part, arguments, tool)
        read = part if part[:1] == [_ARITHMETIC] else [word for word in part if _SUBSTITUTION.search(word)]
        for name in _PLACEHOLDER.findall(" ".join(read)):
            if name in arguments and not _PLAIN.fullmatch(as_text(arguments[name])):
                line = f"$.{name}: the shell would interpret this value. Use only letters, digits and ./:@%+,=_-"
                raise InvalidArguments([line], tool=tool)


def _simple_commands(command: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " 	", True, ""
    try:
        words = list(lexer)
    except ValueError:
        yield from ([found[0]] for found in _PLACEHOLDER.finditer(command))
        return
    part: list[str] = []
    arithmetic = False
    for word in words:
        if word.strip(_OPERATORS):
            part.append(word)
            continue
        yield part
        arithmetic = _ARITHMETIC in word or (arithmetic and "))" not in word)
        part = [_ARITHMETIC] if arithmetic else []
    yield part


def _options(arguments: Json) -> Iterator[str]:
    """Arguments as options, as manuals before version 1 define them: `--name value`, and `--name` alone for true.

    A value that begins with a dash is joined, `--name=-1`: as a word of its own the program could read it as another
    option. The others stay words of their own, because not every program takes the joined form.
    """
    for name, value in arguments.items():
        for item in value if isinstance(value, list) else [value]:
            if item is True:
                yield f"--{name}"
            elif item is not False and item is not None:
                text = as_text(item)
                yield from (f"--{name}={text}",) if text.startswith("-") else (f"--{name}", text)
