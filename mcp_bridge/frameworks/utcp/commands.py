"""Command line call templates that need no shell: the program is run as it stands, with arguments as single words."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
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
    """Calls of one program."""

    def __init__(self, words: list[str], template: Json) -> None:
        self._words = words
        self._options = "command_name" in template
        self._template = template
        self._folder = template.get("working_dir")

    async def handler(self, data: Json) -> ToolResult:
        """Run it once: what it has written, or, where it ends with anything but 0, its complaint as an error."""
        arguments = dict(data or {})
        words = [*self._words, *_options(arguments)] if self._options else list(_filled(self._words, arguments))
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


def located(template: Json, folder: Path | None) -> Json:
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


def _filled(words: list[str], arguments: Json) -> Iterator[str]:
    """The words with their arguments; one that is nothing but an argument that was not given is left out."""
    for word in words:
        alone = _PLACEHOLDER.fullmatch(word)
        if alone is None or alone[1] in arguments:
            yield _PLACEHOLDER.sub(lambda found: as_text(arguments.get(found[1], "")), word)


def _options(arguments: Json) -> Iterator[str]:
    """Arguments as options, as manuals before version 1 have them: `--name value`, and `--name` alone for a yes."""
    for name, value in arguments.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not False and item is not None:
                yield from (f"--{name}",) if item is True else (f"--{name}", as_text(item))
