"""`lint`: what MCP clients would reject of the served tools, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

import anyio

from mcp_bridge._cli import logs
from mcp_bridge._cli.clients import suggest_clients
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import LintOptions
from mcp_bridge._cli.output import format_count, format_problems, print_lines, write_json
from mcp_bridge._cli.target import check_file, find_file, load_target, run_until_started
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._protocol.dialects.linting import LintFinding, lint
from mcp_bridge._protocol.dialects.profile import Profile
from mcp_bridge._protocol.dialects.rewriting import render_tools
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio

ALL_CLIENTS = "all"
_NAME_LIMIT = 200
"""Characters of a tool's original name that are shown."""


def lint_tools(options: LintOptions) -> None:
    """Report what clients would reject or degrade; exit with 1 if a tool would be rejected or is not published.

    Raises ConfigError for an unknown client, and for settings that cannot be used.
    """
    logs.configure_logging(options.log_level)
    profiles = _choose_profiles(options.client)
    with reserve_stdio():  # stdout is for the result alone
        bridge = load_target(options.file).bridge
        anyio.run(run_until_started, bridge)
    tools = render_tools(bridge.registry.list(), bridge.dialect)
    listing = bridge.identity.listing
    count = len(listing.select_listed(bridge.registry.list_names())) + len(listing.built_in)
    server = options.server_name or check_file(find_file(options.file)).name
    findings = [
        finding
        for profile in profiles
        for finding in lint(
            tools, profile, server_name=server, dialect=bridge.dialect, result=bridge.identity.result, count=count
        )
    ]
    problems = {name: lines for name, lines in bridge.problems.items() if lines}
    ok = not problems and not any(finding.level == "error" for finding in findings)
    if options.as_json:
        names = [profile.name for profile in profiles]
        rows = [asdict(finding) for finding in findings]
        write_json({"ok": ok, "clients": names, "findings": rows, "problems": bridge.problems})
    else:
        summary = f"{format_count(len(tools), 'tool')}, {_summarize(findings, profiles)}"
        shown = [finding for finding in findings if options.client or finding.level != "note"]
        _print_findings(shown, problems, summary)
    raise SystemExit(ExitCode.OK if ok else ExitCode.FAILED)


def _choose_profiles(client: str) -> Sequence[Profile]:
    if client in ("", ALL_CLIENTS):
        return list(PROFILES.values())
    if client.lower() not in PROFILES:
        names = suggest_clients(client)
        hint = (
            f"Did you mean {' or '.join(names)}?" if names else f"Use one of: {', '.join(PROFILES)}, or {ALL_CLIENTS}"
        )
        raise ConfigError(f"unknown client '{client}'", where="--client", hint=hint)
    return [PROFILES[client.lower()]]


def _print_findings(findings: Iterable[LintFinding], problems: Mapping[str, Sequence[str]], summary: str) -> None:
    print_lines(*format_problems(problems))
    for name, of_client in groupby(findings, key=lambda finding: finding.client):
        print_lines(f"{PROFILES[name].title} ({name})")
        for finding in of_client:
            original = f" ({_shorten(finding.original)})" if finding.original else ""
            tool = f"tool '{finding.tool}'{original}: " if finding.tool else ""
            place = f"{finding.path}: " if finding.path != "$" else ""
            print_lines(f"  {finding.level}: {tool}{place}{finding.text}")
            print_lines(f"    {finding.cure} ({finding.source})")
    print_lines(f"{summary}; some tools are not published, see the problems above" if problems else summary)


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_LIMIT else f"{name[:_NAME_LIMIT]}..."


def _summarize(findings: Sequence[LintFinding], profiles: Sequence[Profile]) -> str:
    rejecting = {finding.client for finding in findings if finding.level == "error"}
    degrading = {finding.client for finding in findings if finding.level == "warning"} - rejecting
    parts = [f"{format_count(len(profiles), 'client')} checked"]
    if rejecting:
        parts.append(f"{format_count(len(rejecting), 'client')} would reject a tool: {', '.join(sorted(rejecting))}")
    if degrading:
        parts.append(f"{format_count(len(degrading), 'client')} would degrade a tool: {', '.join(sorted(degrading))}")
    return "; ".join(parts if rejecting or degrading else [*parts, "no tool is rejected"])
