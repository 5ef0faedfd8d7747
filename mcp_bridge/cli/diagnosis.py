"""`doctor`: starts the server as a client would, in a bare environment, and names the cause of what fails.

It speaks raw JSON-RPC, because the faults it looks for (prints on stdout, a crash at import, silence) are what a
client library hides.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bridge._version import DISTRIBUTION, __version__
from mcp_bridge.cli.conversation import Conversation, Fault
from mcp_bridge.cli.exits import Exit, counted, say
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


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was tried, whether it went well, and what to do when not."""

    check: str
    ok: bool
    detail: str
    advice: str = ""


def doctor(path: Path | None, command: str | None, *, as_json: bool, patience: float) -> None:
    """Check a file's server, or any server command, in both eras; exit 1 when something is wrong."""
    if not MOST_PATIENCE >= patience > 0:  # nan is neither
        hint = f"Write seconds, more than 0 and at most {MOST_PATIENCE}"
        raise ConfigError(f"found {patience:g}", where="--timeout", hint=hint)
    argv = _argv(path, command)
    eras: tuple[tuple[str, Callable[[Conversation], str]], ...] = (
        (f"stateless {STATELESS}", _stateless),
        (f"handshake {HANDSHAKE}", _handshake),
    )
    findings = [_try(name, talk, argv, patience) for name, talk in eras]
    # Somebody else's server may well speak one era alone; ours speaks both.
    healthy = (any if command else all)(finding.ok for finding in findings)
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


def _try(name: str, talk: Callable[[Conversation], str], argv: list[str], patience: float) -> Finding:
    """One conversation with one fresh process, in an empty folder that no relative path leads out of."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Conversation(argv, Path(folder), patience) as conversation:
                return Finding(name, True, talk(conversation))
        except Fault as fault:
            return Finding(name, False, fault.what, fault.advice)


def _stateless(conversation: Conversation) -> str:
    found = conversation.ask("server/discover", {"_meta": _META})
    tools = _tools(conversation, {"_meta": _META})
    return f"{_who(found)} answers, {counted(tools, 'tool')}"


def _handshake(conversation: Conversation) -> str:
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
    found = conversation.ask("initialize", hello)
    conversation.tell("notifications/initialized")
    tools = _tools(conversation, {})
    return f"{_who(found)} speaks {found.get('protocolVersion')}, {counted(tools, 'tool')}"


def _tools(conversation: Conversation, params: dict[str, Any]) -> int:
    """How many tools there are, over all pages."""
    count, cursors = 0, [None]
    while True:
        page = conversation.ask("tools/list", {**params, "cursor": cursors[-1]} if cursors[-1] else params)
        if not isinstance(tools := page.get("tools"), list):
            raise Fault("the answer to tools/list has no list 'tools'", "A server without tools answers an empty list.")
        count += len(tools)
        cursor = page.get("nextCursor")
        if cursor is None:
            return count
        if cursor in cursors:
            raise Fault(f"tools/list gives the cursor {cursor!r} again", "Its pages never end; clients would hang.")
        cursors.append(cursor)


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
