"""`validate`: checks a file without serving it, and its tools against the limits of MCP clients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._cli import logs
from mcp_bridge._cli.clients import suggest_clients
from mcp_bridge._cli.exits import exit_with
from mcp_bridge._cli.options import ValidateOptions
from mcp_bridge._cli.output import format_count, format_entry_counts, format_problems, print_lines, write_json
from mcp_bridge._cli.target import BridgeTarget, check_file, load_target, run_until_started
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._protocol.dialects.linting import LintFinding, lint
from mcp_bridge._protocol.dialects.profile import Profile
from mcp_bridge._protocol.dialects.rewriting import render_tools
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio

ALL_CLIENTS = "all"
_NAME_LIMIT = 200
"""The maximum number of characters of a tool's original name that are shown."""


def validate_target(options: ValidateOptions) -> None:
    """Report the problems of a file. Exit with 1 if there are any, or if a chosen client would reject a tool.

    Notes of sources do not count as problems. Neither do patterns without a matching tool, because a tool may appear
    later.

    Raises ConfigError for an unknown client, and for invalid settings.
    """
    logs.configure_logging(options.log_level)
    profiles = _choose_profiles(options.client)
    try:
        # Stdout is only for the result.
        with reserve_stdio():
            target = load_target(options.file)
    except ConfigError as error:
        if options.as_json:
            result = {"ok": False, "tools": [], "problems": {}, "notes": [], "clients": [], "findings": []}
            write_json(result | {"errors": str(error).splitlines()})
        raise
    bridge = target.bridge
    # These errors are also in the problems of the bridge, which are reported below.
    with reserve_stdio(), contextlib.suppress(ConfigError, SourceError):
        anyio.run(run_until_started, bridge)
    notes = [*format_problems(bridge.notes), *_find_unmatched_patterns(target)]
    findings: list[LintFinding] = []
    if profiles:
        server_name = options.server_name or check_file(target.path).name
        findings = _lint_tools(bridge, profiles, server_name)
    has_no_problems = not any(bridge.problems.values())
    ok = has_no_problems and all(finding.level != "error" for finding in findings)
    if options.as_json:
        write_json(
            {
                "ok": ok,
                "tools": bridge.registry.list_names(),
                "problems": bridge.problems,
                "notes": notes,
                "clients": [profile.name for profile in profiles],
                "findings": [asdict(finding) for finding in findings],
                "errors": [],
            }
        )
    else:
        print_lines(*format_problems(bridge.problems), *notes, *_describe_findings(findings, options.client))
        summary = ", no problems" if has_no_problems else "; see the problems above"
        print_lines(f"{format_entry_counts(bridge.registry)}{summary}")
        if profiles:
            print_lines(_summarize(findings, profiles))
    exit_with(ok=ok)


def _choose_profiles(client: str | None) -> Sequence[Profile]:
    if client is None:
        return []
    if client == ALL_CLIENTS:
        return list(PROFILES.values())
    if client.lower() in PROFILES:
        return [PROFILES[client.lower()]]
    names = suggest_clients(client)
    hint = f"Use one of: {', '.join(PROFILES)}, or {ALL_CLIENTS}"
    if names:
        hint = f"Did you mean {' or '.join(names)}?"
    raise ConfigError(f"unknown client '{client}'", where="--client", hint=hint)


def _find_unmatched_patterns(target: BridgeTarget) -> Sequence[str]:
    if target.settings is None:
        return ()
    from mcp_bridge._app.policies import find_unmatched_patterns

    registry = target.bridge.registry
    names = (*registry.list_names(), *target.bridge.identity.listing.built_in)
    return find_unmatched_patterns(target.settings, names, [entry.name_in_source for entry in registry.list()])


def _lint_tools(bridge: Bridge, profiles: Sequence[Profile], server_name: str) -> list[LintFinding]:
    """Check the tools as clients get them, after the rewriting by the dialect of the settings."""
    tools = render_tools(bridge.registry.list(), bridge.dialect)
    listing = bridge.identity.listing
    max_characters = bridge.identity.result
    listed_count = len(listing.select_listed(bridge.registry.list_names())) + len(listing.built_in)
    findings: list[LintFinding] = []
    for profile in profiles:
        findings += lint(
            tools,
            profile,
            server_name=server_name,
            dialect=bridge.dialect,
            result=max_characters,
            count=listed_count,
        )
    return findings


def _describe_findings(findings: Sequence[LintFinding], client: str | None) -> Iterator[str]:
    """Yield the lines about the findings for each client."""
    # Notes about all clients together would hide the errors.
    if client == ALL_CLIENTS:
        findings = [finding for finding in findings if finding.level != "note"]
    for name, client_findings in groupby(findings, key=lambda finding: finding.client):
        yield f"{PROFILES[name].title} ({name})"
        for finding in client_findings:
            text = finding.text
            if finding.path != "$":
                text = f"{finding.path}: {text}"
            if finding.tool:
                original = finding.original
                if original:
                    shortened = f"{original[:_NAME_LIMIT]}..." if len(original) > _NAME_LIMIT else original
                    original = f" ({shortened})"
                text = f"tool '{finding.tool}'{original}: {text}"
            yield f"  {finding.level}: {text}"
            yield f"    {finding.cure} ({finding.source})"


def _summarize(findings: Sequence[LintFinding], profiles: Sequence[Profile]) -> str:
    rejecting = {finding.client for finding in findings if finding.level == "error"}
    degrading = {finding.client for finding in findings if finding.level == "warning"} - rejecting
    phrases = [f"{format_count(len(profiles), 'client')} checked"]
    for clients, verb in ((rejecting, "reject"), (degrading, "degrade")):
        if clients:
            phrases.append(f"{format_count(len(clients), 'client')} would {verb} a tool: {', '.join(sorted(clients))}")
    if len(phrases) == 1:
        phrases.append("no tool is rejected")
    return "; ".join(phrases)
