"""One conversation with a fresh server process in each era of the protocol: its identity, its tools and one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from mcp_bridge._cli.doctor.checks import check_modules, find_ended_sources, find_notes, find_unpublished, list_pages
from mcp_bridge._cli.doctor.conversation import (
    Conversation,
    RemoteStart,
    ServerFault,
    StartCommand,
    open_conversation,
)
from mcp_bridge._cli.doctor.report import CheckResult
from mcp_bridge._cli.output import format_count
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, HANDSHAKE_VERSIONS, STATELESS
from mcp_bridge._version import DISTRIBUTION, __version__

CLIENT_INFO = {"name": f"{DISTRIBUTION}-doctor", "version": __version__}
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
ExtraCheck = Callable[[Conversation, Sequence[Any], dict[str, Any]], Awaitable[list[CheckResult]]]
"""A check within a conversation: it gets the tools, and the parameters that every request has."""


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
    """Check a server in the stateless era, and run another check in the same conversation."""
    return anyio.run(_converse, f"stateless {STATELESS}", start, _discover, {"_meta": _META}, check)


def check_handshake(start: StartCommand | RemoteStart, check: ExtraCheck | None = None) -> EraOutcome:
    """Check a server in the handshake era, and run another check in the same conversation."""
    return anyio.run(_converse, f"handshake {HANDSHAKE}", start, _initialize, {}, check)


async def _discover(conversation: Conversation) -> tuple[dict[str, Any], str]:
    conversation.adopt_version(STATELESS)
    server = await conversation.request("server/discover", {"_meta": _META})
    return server, f"{_format_name(server)} responds"


async def _initialize(conversation: Conversation) -> tuple[dict[str, Any], str]:
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
    server = await conversation.request("initialize", hello)
    version = server.get("protocolVersion")
    conversation.adopt_version(version if version in HANDSHAKE_VERSIONS else HANDSHAKE)
    await conversation.notify("notifications/initialized")
    return server, f"{_format_name(server)} speaks {version}"


def collect_others(outcomes: Sequence[EraOutcome], *, is_bridge: bool) -> list[CheckResult]:
    """Collect the results besides those of the eras, without duplicates; the log of a bridge is searched too."""
    results = dict.fromkeys(result for outcome in outcomes for result in outcome.others)
    for outcome in outcomes:
        if is_bridge and outcome.result.ok:
            results.update(dict.fromkeys(find_ended_sources(outcome.stderr)))
            results.update(dict.fromkeys(find_unpublished(outcome.stderr, list(results))))
            results.update(dict.fromkeys(find_notes(outcome.stderr)))
    return list(results)


async def _converse(
    name: str,
    start: StartCommand | RemoteStart,
    introduce: Callable[[Conversation], Awaitable[tuple[dict[str, Any], str]]],
    params: dict[str, Any],
    check: ExtraCheck | None,
) -> EraOutcome:
    conversation = Conversation(start)
    fault: ServerFault | None = None
    introduction, tools, others = "", list[Any](), list[CheckResult]()
    try:
        async with open_conversation(conversation):
            try:
                server, introduction = await introduce(conversation)
                tools = await list_pages(conversation, "tools/list", "tools", params)
                others = await check_modules(conversation, server, params)
                if check is not None:
                    others += await check(conversation, tools, params)
            except ServerFault as error:  # outside of the block, task groups would wrap it
                fault = error
    except ServerFault as error:
        fault = error
    if fault is None:
        result = CheckResult(name, True, f"{introduction}, {format_count(len(tools), 'tool')}")
        stderr, first = conversation.stderr, conversation.first_response
        return EraOutcome(result=result, others=others, tools=tools, stderr=stderr, first_response=first)
    if fault.kind == "ended":  # the last lines of a process arrive after its end
        fault.stderr = conversation.stderr
    result = CheckResult(name, False, fault.problem, fault.advice)
    return EraOutcome(result=result, first_response=conversation.first_response, fault=fault)


def _format_name(server: dict[str, Any]) -> str:
    meta = server.get("_meta")
    info = server.get("serverInfo") or (isinstance(meta, dict) and meta.get("io.modelcontextprotocol/serverInfo"))
    return f"'{info.get('name', 'the server') if isinstance(info, dict) else 'the server'}'"
