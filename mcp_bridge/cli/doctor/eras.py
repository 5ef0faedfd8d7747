"""One talk with a fresh server process in each era of the protocol: who it is, what it has, and one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge._version import DISTRIBUTION, __version__
from mcp_bridge.cli.doctor.conversation import Conversation, Fault
from mcp_bridge.cli.doctor.findings import Finding, listed, of_modules, of_problems, of_sources
from mcp_bridge.cli.exits import counted
from mcp_bridge.wire.versions import HANDSHAKE, STATELESS

CLIENT = {"name": f"{DISTRIBUTION}-doctor", "version": __version__}
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
Tools = Sequence[Any]
Beside = Callable[[Conversation, Tools, dict[str, Any]], list[Finding]]
"""What else is to be looked at in a conversation: it is given the tools and the parameters that each request has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is started for each era: the command, where, with which variables, and how long an answer may take."""

    argv: Sequence[str]
    folder: Path
    patience: float
    environ: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """How the talk in one era went: the era's own finding, what came to light beside it, and its measures.

    `said` is what the process has written to stderr, `first_answer` in how many seconds it answered, if it did.
    """

    finding: Finding
    others: Sequence[Finding] = ()
    tools: Tools = ()
    said: str = ""
    first_answer: float | None = None
    fault: Fault | None = field(default=None, compare=False)


def nothing_beside(conversation: Conversation, tools: Tools, params: dict[str, Any]) -> list[Finding]:
    """Look at nothing else."""
    return []


def stateless(start: Start, beside: Beside = nothing_beside) -> Heard:
    """The talk of a 2026-07-28 client."""

    def introduced(conversation: Conversation) -> tuple[dict[str, Any], str]:
        found = conversation.ask("server/discover", {"_meta": _META})
        return found, f"{_who(found)} answers"

    return _heard(f"stateless {STATELESS}", start, introduced, {"_meta": _META}, beside)


def handshake(start: Start, beside: Beside = nothing_beside) -> Heard:
    """The talk of a client that shakes hands first."""

    def introduced(conversation: Conversation) -> tuple[dict[str, Any], str]:
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
        found = conversation.ask("initialize", hello)
        conversation.tell("notifications/initialized")
        return found, f"{_who(found)} speaks {found.get('protocolVersion')}"

    return _heard(f"handshake {HANDSHAKE}", start, introduced, {}, beside)


def beside(talks: Sequence[Heard], *, ours: bool) -> Iterable[Finding]:
    """What came to light beside the eras, each thing once; the log of a server of `ours` is read too."""
    known = dict.fromkeys(finding for heard in talks for finding in heard.others)
    for heard in talks:
        if ours and heard.finding.ok:
            known.update(dict.fromkeys(of_sources(heard.said)))
            known.update(dict.fromkeys(of_problems(heard.said, list(known))))
    return known


def _heard(
    name: str,
    start: Start,
    introduced: Callable[[Conversation], tuple[dict[str, Any], str]],
    params: dict[str, Any],
    beside: Beside,
) -> Heard:
    conversation: Conversation | None = None
    try:
        with Conversation(start.argv, start.folder, start.patience, start.environ) as conversation:
            found, who = introduced(conversation)
            tools = listed(conversation, "tools/list", "tools", params)
            others = [*of_modules(conversation, found, params), *beside(conversation, tools, params)]
    except Fault as fault:
        first = conversation.first_answer if conversation is not None else None
        finding = Finding(name, False, fault.what, fault.advice)
        return Heard(finding=finding, said=fault.said, first_answer=first, fault=fault)
    return Heard(
        finding=Finding(name, True, f"{who}, {counted(len(tools), 'tool')}"),
        others=others,
        tools=tools,
        said=conversation.said,
        first_answer=conversation.first_answer,
    )


def _who(found: dict[str, Any]) -> str:
    meta = found.get("_meta")
    info = found.get("serverInfo") or (isinstance(meta, dict) and meta.get("io.modelcontextprotocol/serverInfo"))
    return f"'{info.get('name', 'the server') if isinstance(info, dict) else 'the server'}'"
