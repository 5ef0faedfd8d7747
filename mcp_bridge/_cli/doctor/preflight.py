"""Checks an installed server before it is started: its program, settings, folder and variables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._cli.doctor.report import CheckResult
from mcp_bridge._desktop.client import Client, ServerLaunch
from mcp_bridge._desktop.servers import find_settings_argument, is_bridge_command
from mcp_bridge._runtime.platform import system


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedServer:
    """A server in a client: its launch, the command for installing it again, and whether it is a bridge."""

    client: Client
    launch: ServerLaunch
    install_command: str
    is_bridge: bool = True


def check_entry(server: ExaminedServer) -> list[CheckResult]:
    """Check the entry of a server. If one of the results is not ok, the server cannot start."""
    if not any(server.launch.argv[:1]):
        advice = f"Doctor checks servers that are started, not URLs. To install a bridge: {server.install_command}"
        return [CheckResult("command", False, "the entry has no command", advice)]
    return [*_check_folder(server), *_check_program(server), *_check_settings(server), *_check_variables(server)]


def find_python(program: str) -> str:
    """Find the Python of a program: the program itself, the interpreter of the script, or the one next to it.

    The last case occurs if the path has a space: then the first line of the script names a shell.
    """
    neighbor = str(Path(program).with_name("python")) if os.path.isabs(program) else "python"
    candidates = [program, _read_interpreter(Path(program)) or ""]
    if os.path.exists(neighbor):
        candidates.append(neighbor)
    return next((path for path in candidates if Path(path).name.lower().startswith("python")), "python")


def _check_folder(server: ExaminedServer) -> Iterator[CheckResult]:
    if not os.path.isdir(server.launch.folder):
        detail = f"{server.client.title} would start it in {server.launch.folder}, which does not exist"
        yield CheckResult("folder", False, detail, "Create the folder, or remove its path from the entry.")


def _check_program(server: ExaminedServer) -> Iterator[CheckResult]:
    program, title = server.launch.argv[0], server.client.title
    advice = f"Use an absolute path: {server.install_command}"
    if not os.path.dirname(program):
        path = system.locate_program(program, server.launch.environ.get("PATH", os.defpath))
        if path is None:
            yield CheckResult("command", False, f"'{program}' is not on the PATH of {title}", advice)
        else:
            detail = f"'{program}' is looked up on the PATH: {title} now finds {path}"
            yield CheckResult("command", True, detail, f"It may find another one, or none. {advice}")
        return
    problem = _find_problem(server.launch.folder / program)
    if problem is not None:
        detail, fix = problem
        yield CheckResult("command", False, detail, f"{fix} install the server again: {server.install_command}")
    elif not os.path.isabs(program):
        detail = f"the path '{program}' is relative: it is valid in {server.launch.folder} only"
        yield CheckResult("command", True, detail, advice)


def _find_problem(program: Path) -> tuple[str, str] | None:
    """Return why a program cannot be run, and the beginning of the advice; None if it can."""
    # Path.exists raises PermissionError in a folder without permission.
    if not os.path.exists(program):
        return f"{program} does not exist", "It was moved or deleted:"
    if os.path.isdir(program):
        return f"{program} is a folder, not a program", "To fix it,"
    if not os.access(program, os.X_OK):
        return f"{program} is not executable", f"Run chmod +x '{program}', or"
    interpreter = _read_interpreter(program)
    if interpreter is not None and not os.path.exists(interpreter):
        return f"{program} runs on {interpreter}, which does not exist", "Its environment was moved or deleted:"
    return None


def _read_interpreter(program: Path) -> str | None:
    """Return the interpreter in the first line of a script, or None for other programs."""
    try:
        with program.open("rb") as file:
            line = file.readline(1024)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode(errors="replace").split()
    return words[0] if words and os.path.isabs(words[0]) else None


def _check_settings(server: ExaminedServer) -> Iterator[CheckResult]:
    argv = server.launch.argv
    folder = server.launch.folder
    title = server.client.title
    command = server.install_command
    if not is_bridge_command(argv) or "serve" not in argv:
        return
    if any(word.split("=")[0] == "--http" for word in argv):
        detail = f"the entry has --http, but {title} talks to the server over stdin and stdout"
        yield CheckResult("command", False, detail, f"Remove the option: {command}")
    argument = find_settings_argument(argv)
    if argument is None:
        detail = f"the entry has no settings file: what is served depends on the folder in which {title} starts it"
        yield CheckResult("settings", True, detail, f"Add the file: {command}")
    elif not os.path.exists(folder / argument):
        reason = "It was moved or deleted" if os.path.isabs(argument) else f"A relative path starts at {folder}"
        yield CheckResult("settings", False, f"{argument} does not exist", f"{reason}. Use its new path: {command}")
    elif not os.path.isabs(argument):
        detail = f"the path '{argument}' is relative: it is valid in {folder} only"
        yield CheckResult("settings", True, detail, f"Use an absolute path: {command}")


def _check_variables(server: ExaminedServer) -> Iterator[CheckResult]:
    title = server.client.title
    keeps_secrets = server.client.launch_environment.has_own_secrets
    for name in server.launch.unresolved:
        detail = f"the entry refers to the variable {name}, which is not set where {title} runs"
        if keeps_secrets:
            detail += f"; {title} may store it itself, which is not checked"
        advice = server.client.secrets_advice or f"Set {name} where {title} runs."
        yield CheckResult(f"secret {name}", keeps_secrets, detail, advice)
