"""`init`: a project that is complete as it is made."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.cli.exits import Exit, counted, say
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.packaging.release import origin, requirement

TEMPLATES: Mapping[str, str] = {
    "mcp-bridge.yaml": "mcp-bridge.yaml.in",
    "tools.py": "tools.py.in",
    "test_tools.py": "tools_test.py.in",
    "requirements.txt": "requirements.txt.in",
    "Makefile": "Makefile.in",
    "AGENTS.md": "AGENTS.md.in",
    "README.md": "README.md.in",
    ".gitignore": "gitignore.in",
}
"""The files of a project, and what each is made of."""
LOCAL = "local.mk"
"""What is true on this machine alone: where the bridge is installed from, before an index has it."""


def init(folder: Path) -> None:
    """Make a project in a folder, and say what to do next.

    Nothing is overwritten: where a file is there already, nothing is written and the exit code is 1. Raises ConfigError
    for a folder that cannot be had or written to.
    """
    made = _contents(folder)
    taken = [name for name in made if os.path.lexists(folder / name)]
    if taken:
        say(f"mcp-bridge: {folder}: {', '.join(taken)} {'is' if len(taken) == 1 else 'are'} there already")
        say("Nothing was written. Name another folder, or move them away.")
        raise SystemExit(Exit.FAILED)
    try:
        _write(folder, made)
    except OSError as error:
        problem = f"no project can be made here: {error.strerror or error}"
        raise ConfigError(problem, path=str(error.filename or folder), hint="Name another folder") from None
    _tell(folder, made)


def project_name(folder: Path) -> str:
    """A folder's name as that of a server: small letters, digits, `-` and `_`."""
    cleaned = re.sub(r"[^a-z0-9_]+", "-", folder.resolve().name.lower()).strip("-_")
    return cleaned[:50] or "my-tools"


def _contents(folder: Path) -> dict[str, str]:
    """The text of each file, by its name."""
    words = {"@@NAME@@": project_name(folder), "@@REQUIREMENT@@": requirement(), "@@DISTRIBUTION@@": DISTRIBUTION}
    source = files("mcp_bridge") / "cli" / "templates"
    made = {}
    for name, template in TEMPLATES.items():
        text = (source / template).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        made[name] = text
    here = origin()
    if here is not None:
        told = f"# Where {DISTRIBUTION} is installed from on this machine. Not for git.\n"
        made[LOCAL] = f"{told}BRIDGE ?= {_in_make(here)}\n"
    return made


def _in_make(text: str) -> str:
    """The text as a value in a Makefile that will stand between single quotes of a shell."""
    return text.replace("$", "$$").replace("#", r"\#").replace("'", r"'\''")


def _write(folder: Path, made: Mapping[str, str]) -> None:
    """All files or none: what was made is taken away again where one cannot be."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    with ExitStack() as undo:
        for each in reversed(missing):
            each.mkdir()
            undo.callback(each.rmdir)
        for name, text in made.items():
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                undo.callback((folder / name).unlink)
                file.write(text)
        undo.pop_all()


def _tell(folder: Path, made: Mapping[str, str]) -> None:
    """What is there now, and the next three commands."""
    say(f"{counted(len(made), 'file')} in {folder}: {', '.join(made)}")
    there = folder.resolve() == Path.cwd()
    say("Next:")
    first = "make" if there else f"cd {shlex.quote(str(folder))} && make"
    call = "mcp-bridge call days_between start=2026-01-01 end=2026-12-31"
    for command in (first, call, "make install CLIENT=claude-code"):
        say(f"  {command}")
