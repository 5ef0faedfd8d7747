"""`doctor`: starts the server as a client would, in a bare environment, and names the cause of what fails.

It speaks raw JSON-RPC, because the faults it looks for (prints on stdout, a crash at import, silence) are what a
client library hides.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

from mcp_bridge.cli.doctor import eras
from mcp_bridge.cli.doctor.findings import rows, tell
from mcp_bridge.cli.doctor.trial import Trial, Wanted, wanted
from mcp_bridge.cli.doctor.wishes import EVERYWHERE, Wishes
from mcp_bridge.cli.exits import Exit, say
from mcp_bridge.cli.showing import data
from mcp_bridge.cli.target import find
from mcp_bridge.contracts.errors import ConfigError

MOST_PATIENCE = 3600
PATIENCE = 20.0
"""Seconds for each answer, where nothing else is said."""


def doctor(target: str | None, wishes: Wishes) -> None:
    """Check what a client has installed, a file's server or any server command; exit 1 when something is wrong.

    Raises ConfigError for options that cannot be used.
    """
    if wishes.patience is not None and not MOST_PATIENCE >= wishes.patience > 0:  # nan is neither
        hint = f"Write seconds, more than 0 and at most {MOST_PATIENCE}"
        raise ConfigError(f"found {wishes.patience:g}", where="--timeout", hint=hint)
    call = wanted(wishes.call)
    if target is not None and wishes.command is None and _is_client(target):
        from mcp_bridge.cli.doctor.examining import examine

        raise SystemExit(examine(target, wishes, call))
    for option, value in (("--scope", wishes.scope), ("--name", wishes.name)):
        if value is not None:
            raise ConfigError("no client is given", where=option, hint="Write `mcp-bridge doctor CLIENT` with it")
    raise SystemExit(_examine_server(target, wishes, call))


def _is_client(target: str) -> bool:
    """Whether the word is a client's name. Raises ConfigError where it can only be meant as one, and is none."""
    word = Path(target)
    if "." in target or len(word.parts) != 1:
        return False
    from mcp_bridge.cli.clients import nearest
    from mcp_bridge.clients.table import CLIENTS

    if target in CLIENTS or target == EVERYWHERE:
        return True
    if os.path.exists(target):  # Path's own raises for a name that is too long
        return False
    near = nearest(target)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Clients are: {', '.join(CLIENTS)}"
    raise ConfigError(f"'{target}' is neither a client nor a file here", where="doctor", hint=hint)


def _examine_server(target: str | None, wishes: Wishes, call: Wanted | None) -> Exit:
    argv = _argv(target, wishes.command)
    beside = Trial(call) if call is not None else eras.nothing_beside
    with tempfile.TemporaryDirectory() as folder:  # an empty one: no relative path leads out of it
        start = eras.Start(argv=argv, folder=Path(folder), patience=wishes.patience or PATIENCE)
        talks = [talk(start, beside) for talk in (eras.stateless, eras.handshake)]
    others = list(eras.beside(talks, ours=wishes.command is None))
    # Somebody else's server may well speak one era alone; ours speaks both.
    spoken = (heard.finding.ok for heard in talks)
    healthy = (any(spoken) if wishes.command else all(spoken)) and all(one.ok for one in others)
    findings = [*(heard.finding for heard in talks), *others]
    if wishes.as_json:
        data({"command": argv, "ok": healthy, "checks": rows(findings)})
    else:
        say(f"command: {shlex.join(argv)}")
        tell(findings)
    return Exit.OK if healthy else Exit.FAILED


def _argv(target: str | None, command: str | None) -> list[str]:
    if command is None:
        path = find(Path(target) if target is not None else None)
        return [sys.executable, "-m", "mcp_bridge", "serve", str(path.resolve())]
    if target is not None:
        raise ConfigError(f"found both --command and '{target}'", where="--command", hint="Give one of them")
    try:
        argv = shlex.split(command)
    except ValueError as error:
        hint = "Quote it as for a shell"
        raise ConfigError(f"'{command}' is not a command: {error}", where="--command", hint=hint) from error
    if not argv:
        raise ConfigError("the command is empty", where="--command", hint="Write it as a client has it")
    return argv
