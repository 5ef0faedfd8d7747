"""Drafts commands of click and typer programs, which describe themselves in their own interpreter."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp_bridge.cli.drafting.draft import DraftCommand, DraftParameter
from mcp_bridge.contracts.errors import ConfigError

TIMEOUT = 60
"""Seconds that a program has to describe itself."""
_SCRIPT = Path(__file__).with_name("click_description.py")
_START = 4096
_SHEBANG = re.compile(r"#!\s*(\S*python[\d.]*)\s*$", re.MULTILINE)
_EXEC = re.compile(r"^'''exec' \"?([^\"\n]*?python[\d.]*)\"? ", re.MULTILINE)
"""The interpreter in a script whose path is too long, or has a space, for a first line of its own."""
_IMPORT = re.compile(r"^from ([\w.]+) import (\w+)$", re.MULTILINE)
_CALL = re.compile(r"sys\.exit\(([\w.]+)\(\)\)")
_PYTHON = re.compile(r"python[\d.]*")
_KINDS = {"integer": "integer", "float": "number", "boolean": "string", "path": "path", "filename": "path"}
_COMPLETION = ("--install-completion", "--show-completion")


class EntryPoint(NamedTuple):
    """The function that a Python program runs, and its interpreter.

    `used` words of the command name the program. `folder` is where Python looks for modules first.
    """

    python: str
    module: str
    attribute: str
    used: int = 1
    folder: str | None = None


def find_entry_point(words: Sequence[str], program: str) -> EntryPoint | None:
    """Return what a console script, or `python -m MODULE`, runs; None if it is another program."""
    if _PYTHON.fullmatch(os.path.basename(words[0])):
        return _find_module_entry(program, words[2]) if words[1:2] == ["-m"] and len(words) > 2 else None
    try:
        with open(program, "rb") as file:
            text = file.read(_START).decode(errors="replace")
    except OSError:
        return None
    interpreter = _SHEBANG.match(text) or _EXEC.search(text)
    imported, called = _IMPORT.search(text), _CALL.search(text)
    if interpreter is None or imported is None or called is None or called[1].split(".")[0] != imported[2]:
        return None
    return EntryPoint(interpreter[1], imported[1], called[1], folder=os.path.dirname(program) or None)


def _find_module_entry(python: str, module: str) -> EntryPoint | None:
    """Return what the `__main__` of a package imports and calls. It is read, because importing it would run it."""
    code = "import importlib.util as u, sys; s = u.find_spec(sys.argv[1] + '.__main__'); print(s.origin if s else '')"
    done = _run_python([python, "-c", code, module])
    path = done.stdout.decode().strip() if done is not None else ""
    if not path.endswith(".py"):
        return None
    tree = ast.parse(Path(path).read_bytes())
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            name = alias.asname or alias.name
            if isinstance(node, ast.ImportFrom):
                origin = f"{module}.{node.module or ''}".rstrip(".") if node.level else node.module or ""
                found = [alias.name] if name in called else []
            else:
                prefix = f"{name}."
                origin, found = alias.name, [each.removeprefix(prefix) for each in called if each.startswith(prefix)]
            if found and origin.partition(".")[0] == module.partition(".")[0]:
                return EntryPoint(python, origin, found[0], used=3)
    return None


def draft_click_commands(words: Sequence[str], entry: EntryPoint) -> list[DraftCommand]:
    """Draft the commands of a program; none if it is not made with click or typer. Raises ConfigError."""
    command = [entry.python, "-c", _SCRIPT.read_text("utf-8"), entry.module, entry.attribute, *words[entry.used :]]
    done = _run_python(command, entry.folder)
    described = json.loads(done.stdout or b"{}") if done is not None else {}
    if "problem" in described:
        raise ConfigError(described["problem"], where=words[0], hint="Name one of its commands")
    program = words[: entry.used]
    return [_draft_command([*program, *each["words"]], each) for each in described.get("commands", ())]


def _run_python(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[bytes] | None:
    """Run the interpreter of a program; return None if it fails."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(  # noqa: S603 - the user's own program, without a shell
            command, capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=True, cwd=folder
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
        is_joined=option.startswith("--") and not takes_several,  # so that a value may begin with a dash
        takes_several=takes_several and bool(option),
        follows_dashes=not option,
    )
