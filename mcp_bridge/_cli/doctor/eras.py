"""One conversation with a fresh server process in each era of the protocol: its identity, its tools and one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge._cli.doctor.checks import check_modules, find_ended_sources, find_notes, find_unpublished, list_pages
from mcp_bridge._cli.doctor.conversation import Conversation, ServerExchange, ServerFault
from mcp_bridge._cli.doctor.http_conversation import HttpConversation
from mcp_bridge._cli.doctor.report import CheckResult
from mcp_bridge._cli.output import format_count
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, STATELESS
from mcp_bridge._version import DISTRIBUTION, __version__

CLIENT_INFO = {"name": f"{DISTRIBUTION}-doctor", "version": __version__}
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
ExtraCheck = Callable[[ServerExchange, Sequence[Any], dict[str, Any]], list[CheckResult]]
"""A check within a conversation: it gets the tools, and the parameters that every request has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCommand:
    """The command of a server, its folder and variables, and the timeout of each response in seconds."""

    argv: Sequence[str]
    folder: Path
    timeout: float
    environ: Mapping[str, str] | None = None

    def open_conversation(self) -> Conversation:
        """Start a process. Raises ServerFault."""
        return Conversation(self.argv, self.folder, self.timeout, self.environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStart:
    """The URL of a server that is running, a bearer token for it, and the timeout of each response in seconds."""

    url: str
    timeout: float
    token: str | None = None

    def open_conversation(self) -> HttpConversation:
        return HttpConversation(self.url, self.timeout, self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraOutcome:
    """The outcome of the conversation in one era: the result for the era, and the results of the checks within it.

    `stderr` is that of a conversation without a fault, `first_response` the seconds until the first response, if any.
    """

    result: CheckResult
    others: Sequence[CheckResult] = ()
    tools: Sequence[Any] = ()
    stderr: str = ""
    first_response: float | None = None
    fault: ServerFault | None = field(default=None, compare=False)


def check_stateless(start: StartCommand | RemoteStart, check: ExtraCheck | None = None) -> EraOutcome:

    return _converse(f"stateless {STATELESS}", start, _discover, {"_meta": _META}, check)


def check_handshake(start: StartCommand | RemoteStart, check: ExtraCheck | None = None) -> EraOutcome:

    return _converse(f"handshake {HANDSHAKE}", start, _initialize, {}, check)


def _discover(conversation: ServerExchange) -> tuple[dict[str, Any], str]:
    server = conversation.request("server/discover", {"_meta": _META})
    return server, f"{_format_name(server)} responds"


def _initialize(conversation: ServerExchange) -> tuple[dict[str, Any], str]:
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
    server = conversation.request("initialize", hello)
    conversation.notify("notifications/initialized")
    return server, f"{_format_name(server)} speaks {server.get('protocolVersion')}"


def collect_others(outcomes: Sequence[EraOutcome], *, is_bridge: bool) -> list[CheckResult]:
    """Collect the results besides those of the eras, without duplicates; the log of a bridge is searched too."""
    results = dict.fromkeys(result for outcome in outcomes for result in outcome.others)
    for outcome in outcomes:
        if is_bridge and outcome.result.ok:
            results.update(dict.fromkeys(find_ended_sources(outcome.stderr)))
            results.update(dict.fromkeys(find_unpublished(outcome.stderr, list(results))))
            results.update(dict.fromkeys(find_notes(outcome.stderr)))
    return list(results)


def _converse(
    name: str,
    start: StartCommand | RemoteStart,
    introduce: Callable[[ServerExchange], tuple[dict[str, Any], str]],
    params: dict[str, Any],
    check: ExtraCheck | None,
) -> EraOutcome:
    conversation: ServerExchange | None = None
    try:
        with start.open_conversation() as conversation:
            server, introduction = introduce(conversation)
            tools = list_pages(conversation, "tools/list", "tools", params)
            others = check_modules(conversation, server, params)
            others += check(conversation, tools, params) if check is not None else []
    except ServerFault as fault:
        return EraOutcome(
            result=CheckResult(name, False, fault.problem, fault.advice),
            first_response=conversation.first_response if conversation is not None else None,
            fault=fault,
        )
    return EraOutcome(
        result=CheckResult(name, True, f"{introduction}, {format_count(len(tools), 'tool')}"),
        others=others,
        tools=tools,
        stderr=conversation.stderr,
        first_response=conversation.first_response,
    )


def _format_name(server: dict[str, Any]) -> str:
    meta = server.get("_meta")
    info = server.get("serverInfo") or (isinstance(meta, dict) and meta.get("io.modelcontextprotocol/serverInfo"))
    return f"'{info.get('name', 'the server') if isinstance(info, dict) else 'the server'}'"
