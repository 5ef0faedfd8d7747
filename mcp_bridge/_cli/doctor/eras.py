"""Checks a server in one conversation for each era of the protocol: its identity, its tools and one call.

If the server is a command, each conversation starts a new process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from mcp_bridge._cli.doctor.checks import check_modules, find_ended_sources, find_notes, find_unpublished, list_pages
from mcp_bridge._cli.doctor.conversation import Conversation, RemoteStart, ServerFault, StartCommand
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
"""A check within a conversation. It gets the tools, and the parameters that each request must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraOutcome:
    """The outcome of the conversation in one era: the result for the era, and the results of the checks within it.

    `stderr` is the output of the process if there was no fault. `first_response` is the number of seconds until the
    first response, if there was one.
    """

    result: CheckResult
    checks: Sequence[CheckResult] = ()
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


def collect_checks(outcomes: Sequence[EraOutcome], *, is_bridge: bool) -> list[CheckResult]:
    """Collect the results of the checks in both eras, and what the log of a bridge reports, without duplicates."""
    results: dict[CheckResult, None] = {}
    for outcome in outcomes:
        results.update(dict.fromkeys(outcome.checks))
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
    introduction = ""
    tools: list[Any] = []
    checks: list[CheckResult] = []
    try:
        async with conversation.connect_to_server():
            try:
                server, introduction = await introduce(conversation)
                tools = await list_pages(conversation, "tools/list", "tools", params)
                checks = await check_modules(conversation, server, params)
                if check is not None:
                    checks += await check(conversation, tools, params)
            except ServerFault as error:
                # If it left the block, task groups would wrap it.
                fault = error
    except ServerFault as error:
        fault = error
    if fault is None:
        result = CheckResult(name, True, f"{introduction}, {format_count(len(tools), 'tool')}")
        stderr, first = conversation.stderr, conversation.first_response
        return EraOutcome(result=result, checks=checks, tools=tools, stderr=stderr, first_response=first)
    # The last lines of stderr arrive only after the end of the process.
    if fault.kind == "ended":
        fault.stderr = conversation.stderr
    result = CheckResult(name, False, fault.problem, fault.advice)
    return EraOutcome(result=result, first_response=conversation.first_response, fault=fault)


def _format_name(server: dict[str, Any]) -> str:
    """Return the name of a server in quotes. In the stateless era, the metadata of the result has it."""
    meta = server.get("_meta")
    info = server.get("serverInfo")
    if not info and isinstance(meta, dict):
        info = meta.get("io.modelcontextprotocol/serverInfo")
    name = info.get("name", "the server") if isinstance(info, dict) else "the server"
    return f"'{name}'"
