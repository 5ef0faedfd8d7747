"""Drafts commands of click and typer programs, which describe themselves in their own interpreter."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp_bridge._cli.drafting.draft import DraftCommand, DraftParameter
from mcp_bridge._contracts.errors import ConfigError

TIMEOUT = 60
"""Seconds that a program has to describe itself."""
_SCRIPT = Path(__file__).with_name("click_description.py")
_START = 4096
_SHEBANG = re.compile(r"#!\s*(?:\S*/env\s+)?(\S*python[\d.]*)\s*$", re.MULTILINE)
_EXEC = re.compile(r"^'''exec' \"?([^\"\n]*?python[\d.]*)\"? ", re.MULTILINE)
"""The interpreter in a script whose path is too long, or has a space, for a first line of its own."""
_PYTHON = re.compile(r"python[\d.]*")
_KINDS = {"integer": "integer", "float": "number", "boolean": "string", "path": "path", "filename": "path"}
_COMPLETION = ("--install-completion", "--show-completion")


class PythonProgram(NamedTuple):
    """A Python program: its interpreter, and the script or `-m MODULE` that it runs.

    `used` words of the command name the program.
    """

    python: str
    target: Sequence[str]
    used: int


def find_python_program(words: Sequence[str], program: str) -> PythonProgram | None:
    """Return the Python program of a command: `python SCRIPT`, `python -m MODULE` or a script; None for others."""
    if _PYTHON.fullmatch(os.path.basename(words[0])):
        used = 3 if words[1:2] == ["-m"] else 2
        is_complete = len(words) >= used and (used == 3 or os.path.isfile(words[1]))
        return PythonProgram(program, words[1:used], used) if is_complete else None
    try:
        with open(program, "rb") as file:
            text = file.read(_START).decode(errors="replace")
    except OSError:
        return None
    interpreter = _SHEBANG.match(text) or _EXEC.search(text)
    return None if interpreter is None else PythonProgram(interpreter[1], [program], 1)


def draft_click_commands(words: Sequence[str], program: PythonProgram) -> list[DraftCommand]:
    """Draft the commands of a program; none if it is not made with click or typer. Raises ConfigError."""
    done = _run_python([program.python, "-c", _SCRIPT.read_text("utf-8"), *program.target, *words[program.used :]])
    described = json.loads(done.stdout or b"{}") if done is not None else {}
    if "problem" in described:
        raise ConfigError(described["problem"], where=words[0], hint="Name one of its commands")
    start = words[: program.used]
    return [_draft_command([*start, *each["words"]], each) for each in described.get("commands", ())]


def _run_python(command: Sequence[str]) -> subprocess.CompletedProcess[bytes] | None:
    """Run the interpreter of a program; return None if it fails."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(  # noqa: S603 - the user's own program, without a shell
            command, capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=True
        )
    return None


def _draft_command(words: Sequence[str], described: Mapping[str, Any]) -> DraftCommand:
    parameters = [_draft_parameter(each) for each in described["parameters"] if not _is_omitted(each)]
    text = re.split(r"\n\s*\n|\f", described["help"].strip())[0]
    return DraftCommand(words=words, description=text, parameters=parameters)


def _is_omitted(described: Mapping[str, Any]) -> bool:
    return described["hidden"] or any(option in _COMPLETION for option in described["options"])


def _draft_parameter(described: Mapping[str, Any]) -> DraftParameter:
    option = max(described["options"], key=len, default="")
    kind = described["type"]
    is_flag = kind == "flag"
    takes_several = described["nargs"] not in (1, -1) and not is_flag
    return DraftParameter(
        name=described["name"],
        option=option,
        negation=max(described["negations"], key=len, default=""),
        kind="boolean" if is_flag else _KINDS.get(kind.removesuffix(" range"), "string"),
        choices=described["choices"],
        description=described["help"],
        is_list=described["multiple"] or (described["nargs"] != 1 and not is_flag),
        is_required=described["required"],
        # A joined value may begin with a dash.
        joint="=" if option.startswith("--") and not takes_several else None,
        takes_several=takes_several and bool(option),
        follows_dashes=not option,
    )
