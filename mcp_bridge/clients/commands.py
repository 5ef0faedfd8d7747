"""A client's own command line: whether it can be used, its words, and running it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bridge.clients.client import Client, Entry, Machine, Place
from mcp_bridge.clients.locating import program_of
from mcp_bridge.clients.shaping import reference, references
from mcp_bridge.documents.edit import Unsafe

PATIENCE = 90.0
"""Seconds: they are Node programs, and machines are busy."""
_LINES = 12


def usable(
    client: Client,
    place: Place,
    machine: Machine,
    *,
    name: str,
    servers: Mapping[str, Mapping[str, Any]],
    entry: Entry | None = None,
) -> str | None:
    """The path of the client's program, if it is there and can do what is wanted without harm."""
    own = client.own
    if name.startswith("-"):  # the program would read it as an option
        return None
    if own is None or place.scope not in own.scopes or (entry is not None and entry.secrets and not own.secret):
        return None
    if not own.keeps_references and any(references(client, value) for value in servers.values()):
        return None
    program = program_of(own.program, machine)
    # cmd.exe would read the arguments of a batch file once more, by rules of its own.
    return None if program is None or program.lower().endswith((".cmd", ".bat")) else program


def adding(client: Client, place: Place, entry: Entry, program: str) -> Sequence[str]:
    """The words that put an entry in."""
    own = client.own
    if own is None:
        raise ValueError(f"{client.name} has no command line of its own")
    return [program, *_filled(own.add, client, place, entry)]


def removing(client: Client, place: Place, name: str, program: str) -> Sequence[str]:
    """The words that take an entry out."""
    own = client.own
    if own is None:
        raise ValueError(f"{client.name} has no command line of its own")
    return [program, *_filled(own.remove, client, place, Entry(name=name, command=""))]


def run(argv: Sequence[str], machine: Machine) -> str:
    """Run a client's command: no shell, nothing to read from. What it has printed; Unsafe when it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - the program is the client's own, from the person's PATH
            argv,
            cwd=machine.folder,
            env=dict(machine.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise failed(argv, f"did not end within {PATIENCE:g} seconds", "") from None
    except (OSError, ValueError) as error:
        raise failed(argv, f"cannot be started ({error})", "") from None
    printed = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise failed(argv, f"failed with exit code {done.returncode}", printed)
    return printed


def failed(argv: Sequence[str], how: str, printed: str) -> Unsafe:
    """The error for a command that did not do what it should have, with the last lines that it has printed."""
    lines = [f"  | {line}" for line in printed.strip().splitlines()[-_LINES:]]
    said = "\n".join([", and printed:", *lines, ""]) if lines else ". "
    words = " ".join(argv[:3])
    return Unsafe(f"'{words} ...' {how}{said}The file is as it was; use --edit-file to edit it instead")


def _filled(template: Sequence[str], client: Client, place: Place, entry: Entry) -> Sequence[str]:
    words: list[str] = []
    one = {"{scope}": place.scope, "{name}": entry.name, "{command}": entry.command}
    for part in template:
        if part == "{args}":
            words += entry.args
        elif part == "{secrets}":
            words += [word for name in entry.secrets for word in _secret(client, name)]
        else:
            words.append(one.get(part, part))
    return words


def _secret(client: Client, name: str) -> Sequence[str]:
    parts = client.own.secret if client.own is not None else ()
    return [part.replace("{secret}", name).replace("{reference}", reference(client, name)) for part in parts]
