"""Adds and removes servers with a client's own command, such as `claude mcp add`, if the user chooses it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import Client, ConfigPlace, Machine, ServerEntry
from mcp_bridge._desktop.entries import find_references, format_reference
from mcp_bridge._desktop.locations import find_program
from mcp_bridge._runtime.platform import system
from mcp_bridge._settings.documents.syntax import UnsafeEdit

COMMAND_TIMEOUT = 90.0
"""Seconds that a command may take. The commands are Node programs, which start slowly on a busy machine."""
USE_COMMAND = "--use-client-command"
_MAX_LINES = 12
"""The maximum number of lines of a command's output in an error."""


def find_usable_program(
    client: Client,
    place: ConfigPlace,
    machine: Machine,
    *,
    name: str,
    servers: Mapping[str, Mapping[str, Any]],
    entry: ServerEntry | None = None,
) -> str:
    """Return the path of the client's program. Raises ConfigError if it is missing or cannot make the change."""
    command = client.own_command
    if command is None:
        raise _make_unusable_error(f"mcp-bridge uses no command of {client.title}")
    if place.scope not in command.scopes:
        raise _make_unusable_error(f"'{command.program}' cannot change the scope '{place.scope}'")
    if entry is not None and (entry.url is not None or entry.variables):
        raise _make_unusable_error("it cannot be used for URLs or for values of variables")
    if name.startswith("-"):
        raise _make_unusable_error(f"'{command.program}' would read the name '{name}' as an option")
    if entry is not None and entry.secrets and not command.secret:
        raise _make_unusable_error(f"'{command.program}' cannot add references to variables")
    if not command.keeps_references and any(find_references(client, value) for value in servers.values()):
        problem = f"'{command.program}' would replace the references to variables in the file by their values"
        raise _make_unusable_error(problem)
    program = find_program(command.program, machine)
    if program is None:
        raise _make_unusable_error(f"'{command.program}' is not on the PATH")
    if program.lower().endswith((".cmd", ".bat")):
        # cmd.exe would parse the arguments of a batch file again, by other rules.
        raise _make_unusable_error(f"'{program}' is a batch file, which cannot be given arguments safely")
    return program


def _make_unusable_error(problem: str) -> ConfigError:
    return ConfigError(problem, where=USE_COMMAND, hint=f"Leave out {USE_COMMAND}: mcp-bridge then edits the file.")


def build_add_command(client: Client, place: ConfigPlace, entry: ServerEntry, program: str) -> Sequence[str]:
    return [program, *_render_arguments(client.own_command.add if client.own_command else (), client, place, entry)]


def build_remove_command(client: Client, place: ConfigPlace, name: str, program: str) -> Sequence[str]:
    entry = ServerEntry(name=name, command="")
    return [program, *_render_arguments(client.own_command.remove if client.own_command else (), client, place, entry)]


def run_client_command(argv: Sequence[str], machine: Machine) -> str:
    """Run a client's command without a shell and without input. Return its output. Raises UnsafeEdit if it fails."""
    try:
        system.check_command(argv)
        process = subprocess.run(  # noqa: S603 - the program is the client's own, from the user's PATH
            argv,
            cwd=machine.folder,
            env=dict(machine.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise make_command_error(argv, f"did not finish within {COMMAND_TIMEOUT:g} seconds", "") from None
    except (OSError, ValueError) as error:
        raise make_command_error(argv, f"cannot be started ({error})", "") from None
    output = process.stdout.decode(errors="replace")
    if process.returncode != 0:
        raise make_command_error(argv, f"failed with exit code {process.returncode}", output)
    return output


def make_command_error(argv: Sequence[str], problem: str, output: str) -> UnsafeEdit:
    """Make the error for a failed command, with the last lines of its output."""
    lines = [f"  | {line}" for line in output.strip().splitlines()[-_MAX_LINES:]]
    if lines:
        problem = "\n".join([f"{problem}, and printed:", *lines, ""])
    else:
        problem = f"{problem}. "
    command = " ".join(argv[:3])
    return UnsafeEdit(f"'{command} ...' {problem}The file is unchanged; leave out {USE_COMMAND} to edit it")


def _render_arguments(template: Sequence[str], client: Client, place: ConfigPlace, entry: ServerEntry) -> Sequence[str]:
    arguments: list[str] = []
    values = {"{scope}": place.scope, "{name}": entry.name, "{command}": entry.command}
    for word in template:
        if word == "{args}":
            arguments += entry.args
        elif word == "{secrets}":
            secret_words = client.own_command.secret if client.own_command is not None else ()
            for name in entry.secrets:
                reference = format_reference(client, name)
                for secret_word in secret_words:
                    arguments.append(secret_word.replace("{secret}", name).replace("{reference}", reference))
        else:
            arguments.append(values.get(word, word))
    return arguments
