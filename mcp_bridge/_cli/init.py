"""`init`: creates a project with settings, tools, a test and a Makefile, from the templates."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path

from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import InitOptions
from mcp_bridge._cli.output import format_count, report
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.packaging.release import find_install_source, format_requirement
from mcp_bridge._version import DISTRIBUTION

TEMPLATES: Mapping[str, str] = {
    "mcp-bridge.yaml": "mcp-bridge.yaml.in",
    "tools.py": "tools.py.in",
    "test_tools.py": "test_tools.py.in",
    "requirements.txt": "requirements.txt.in",
    "Makefile": "Makefile.in",
    "AGENTS.md": "AGENTS.md.in",
    "README.md": "README.md.in",
    ".gitignore": "gitignore.in",
}
"""The files of a project and their templates."""
LOCAL_MAKEFILE = "local.mk"
"""The file with settings for this machine: where to install mcp-bridge from, if that is not a package index."""


def create_project(options: InitOptions) -> None:
    """Create a project in a folder, and report the next steps.

    If one of the files exists, nothing is written, and the exit code is 1. Raises ConfigError if the folder
    cannot be created or written to.
    """
    folder = options.folder
    contents = _render_templates(folder)
    existing = [name for name in contents if os.path.lexists(folder / name)]
    if existing:
        verb = "exists" if len(existing) == 1 else "exist"
        report(f"mcp-bridge: {folder}: {', '.join(existing)} already {verb}")
        report("Nothing was written. Choose another folder, or move the files away.")
        raise SystemExit(ExitCode.FAILED)
    try:
        _write_all(folder, contents)
    except OSError as error:
        problem = f"cannot create a project here: {error.strerror or error}"
        raise ConfigError(problem, path=str(error.filename or folder), hint="Choose another folder") from None
    report(f"Created {format_count(len(contents), 'file')} in {folder}: {', '.join(contents)}", "Next:")
    make = "make" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && make"
    call = "mcp-bridge call days_between start=2026-01-01 end=2026-12-31"
    report(f"  {make}", f"  {call}", "  make install CLIENT=claude-code")


def to_project_name(folder: Path) -> str:
    """Convert the name of a folder to a server name: lowercase letters, digits, `-` and `_`."""
    name = re.sub(r"[^a-z0-9_]+", "-", folder.resolve().name.lower()).strip("-_")
    return name[:50] or "my-tools"


def _render_templates(folder: Path) -> dict[str, str]:
    values = {
        "@@NAME@@": to_project_name(folder),
        "@@REQUIREMENT@@": format_requirement(),
        "@@DISTRIBUTION@@": DISTRIBUTION,
    }
    source = files("mcp_bridge") / "_cli" / "templates"
    contents = {}
    for name, template in TEMPLATES.items():
        text = (source / template).read_text(encoding="utf-8")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        contents[name] = text
    install_source = find_install_source()
    if install_source is not None:
        comment = f"# Where {DISTRIBUTION} is installed from on this machine. Do not commit this file.\n"
        # make replaces `$`, `#` begins a comment, and the recipe has the value between the single quotes of a shell.
        value = install_source.replace("$", "$$").replace("#", r"\#").replace("'", r"'\''")
        contents[LOCAL_MAKEFILE] = f"{comment}BRIDGE ?= {value}\n"
    return contents


def _write_all(folder: Path, contents: Mapping[str, str]) -> None:
    """Write all files, or none: if one fails, those already written are removed."""
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    with ExitStack() as undo:
        for path in reversed(missing):
            path.mkdir()
            undo.callback(path.rmdir)
        for name, text in contents.items():
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                undo.callback((folder / name).unlink)
                file.write(text)
        undo.pop_all()
