"""`doctor`: starts the server as a client would, in a bare environment, and names the cause of what fails.

It speaks raw JSON-RPC, because the faults it looks for (prints on stdout, a crash at import, silence) are what a
client library hides.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_bridge._version import DISTRIBUTION, __version__
from mcp_bridge.cli.conversation import Conversation, Fault
from mcp_bridge.cli.exits import Exit, counted, say
from mcp_bridge.cli.findings import Finding, listed, of_modules, of_sources
from mcp_bridge.cli.showing import data
from mcp_bridge.cli.target import find
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.wire.versions import HANDSHAKE, STATELESS

CLIENT = {"name": f"{DISTRIBUTION}-doctor", "version": __version__}
MOST_PATIENCE = 3600
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
Talk = Callable[[Conversation], tuple[str, list[Finding]]]


def doctor(path: Path | None, command: str | None, *, as_json: bool, patience: float) -> None:
    """Check a file's server, or any server command, in both eras; exit 1 when something is wrong."""
    if not MOST_PATIENCE >= patience > 0:  # nan is neither
        hint = f"Write seconds, more than 0 and at most {MOST_PATIENCE}"
        raise ConfigError(f"found {patience:g}", where="--timeout", hint=hint)
    argv = _argv(path, command)
    eras: tuple[tuple[str, Talk], ...] = (
        (f"stateless {STATELESS}", _stateless),
        (f"handshake {HANDSHAKE}", _handshake),
    )
    tried = [_try(name, talk, argv, patience, ours=command is None) for name, talk in eras]
    eras_found = [first for first, *_ in tried]
    beside = list(dict.fromkeys(finding for _, *others in tried for finding in others))
    # Somebody else's server may well speak one era alone; ours speaks both.
    healthy = (any if command else all)(finding.ok for finding in eras_found) and all(one.ok for one in beside)
    findings = [*eras_found, *beside]
    if as_json:
        data({"command": argv, "ok": healthy, "checks": [_row(finding) for finding in findings]})
    else:
        _print(argv, findings)
    raise SystemExit(Exit.OK if healthy else Exit.FAILED)


def _argv(path: Path | None, command: str | None) -> list[str]:
    if command is None:
        return [sys.executable, "-m", "mcp_bridge", "serve", str(find(path).resolve())]
    if path is not None:
        raise ConfigError(f"found both --command and '{path}'", where="--command", hint="Give one of them")
    try:
        argv = shlex.split(command)
    except ValueError as error:
        hint = "Quote it as for a shell"
        raise ConfigError(f"'{command}' is not a command: {error}", where="--command", hint=hint) from error
    if not argv:
        raise ConfigError("the command is empty", where="--command", hint="Write it as a client has it")
    return argv


def _try(name: str, talk: Talk, argv: list[str], patience: float, *, ours: bool) -> list[Finding]:
    """One conversation with one fresh process, in an empty folder that no relative path leads out of.

    The first finding is the era's, the others are what came to light beside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Conversation(argv, Path(folder), patience) as conversation:
                detail, others = talk(conversation)
        except Fault as fault:
            return [Finding(name, False, fault.what, fault.advice)]
    return [Finding(name, True, detail), *others, *(of_sources(conversation.said) if ours else ())]


def _stateless(conversation: Conversation) -> tuple[str, list[Finding]]:
    params = {"_meta": _META}
    found = conversation.ask("server/discover", params)
    tools = len(listed(conversation, "tools/list", "tools", params))
    return f"{_who(found)} answers, {counted(tools, 'tool')}", of_modules(conversation, found, params)


def _handshake(conversation: Conversation) -> tuple[str, list[Finding]]:
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
    found = conversation.ask("initialize", hello)
    conversation.tell("notifications/initialized")
    tools = len(listed(conversation, "tools/list", "tools", {}))
    detail = f"{_who(found)} speaks {found.get('protocolVersion')}, {counted(tools, 'tool')}"
    return detail, of_modules(conversation, found, {})


def _who(found: dict[str, Any]) -> str:
    info = found.get("serverInfo") or found.get("_meta", {}).get("io.modelcontextprotocol/serverInfo") or {}
    return f"'{info.get('name', 'the server')}'"


def _row(finding: Finding) -> dict[str, Any]:
    return {"check": finding.check, "ok": finding.ok, "detail": finding.detail, "advice": finding.advice}


def _print(argv: list[str], findings: list[Finding]) -> None:
    say(f"command: {shlex.join(argv)}")
    for finding in findings:
        say(f"{'ok  ' if finding.ok else 'FAIL'} {finding.check}: {finding.detail}")
        if finding.advice:
            say(f"     {finding.advice}")
