"""`trust`: shows how the tools of upstreams have changed, and accepts their new definitions."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import exit_with
from mcp_bridge._cli.options import TrustOptions
from mcp_bridge._cli.output import format_count, print_lines, report, report_problems, write_json
from mcp_bridge._cli.target import find_settings, load_target
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio
from mcp_bridge._sources.upstream.source import UpstreamSource
from mcp_bridge._upstream.trust.definition_lock import DefinitionLock
from mcp_bridge._upstream.trust.fingerprints import DefinitionKey
from mcp_bridge._upstream.trust.guard import OMITTED, PendingDefinition


def review_definitions(options: TrustOptions) -> None:
    """Show changed definitions, and accept those chosen by the user. Exit with 1 if one is not accepted.

    Raises ConfigError for a file without servers, and DefinitionLockError.
    """
    logs.configure_logging(options.log_level)
    file = find_settings(options.file, "the settings file with the servers")
    # Stdout is only for the result.
    with reserve_stdio():
        bridge = load_target(file).bridge
        pending = anyio.run(_find_pending, bridge, options.tool or ["*"])
    accepted: list[PendingDefinition] = []
    for definition in pending:
        if not options.as_json:
            print_lines(*_describe_change(definition))
        if options.yes or (not options.as_json and _ask_user(definition)):
            accepted.append(definition)
    lock = DefinitionLock(file.resolve())
    definitions: dict[str, dict[DefinitionKey, Any]] = defaultdict(dict)
    for definition in accepted:
        definitions[definition.server][definition.key] = definition.current
    for server, server_definitions in definitions.items():
        lock.accept_definitions(server, server_definitions)
    # Problems that only point to this command are left out, because the changes have been shown.
    problems: dict[str, list[str]] = {}
    for name, lines in bridge.problems.items():
        problems[name] = [line for line in lines if "mcp-bridge trust" not in line]
    if options.as_json:
        rows = [_to_row(definition, is_accepted=definition in accepted) for definition in pending]
        write_json({"lock": str(lock.path), "tools": rows, "problems": problems})
    else:
        report_problems(problems)
        _print_outcome(len(pending), len(accepted), lock, options.tool or ())
    exit_with(ok=len(accepted) == len(pending))


async def _find_pending(bridge: Bridge, patterns: Sequence[str]) -> list[PendingDefinition]:
    """Connect to the servers, and return their pending definitions with a matching name."""
    sources = [source for source in bridge.sources if isinstance(source, UpstreamSource)]
    async with bridge.run_sources(serving=False), anyio.create_task_group() as tasks:
        for source in sources:
            tasks.start_soon(source.wait_for_attempt)
    pending: list[PendingDefinition] = []
    for source in sources:
        for definition in source.guard.pending:
            name = str(definition.key)
            server_and_name = f"{definition.server}/{name}"
            if any(fnmatchcase(name, pattern) or fnmatchcase(server_and_name, pattern) for pattern in patterns):
                pending.append(definition)
    return sorted(pending, key=lambda definition: (definition.server, definition.key))


def _describe_change(definition: PendingDefinition) -> Iterator[str]:
    """Yield the lines of a change: each part with a difference, its old lines with `-` and its new ones with `+`."""
    state = "is new" if definition.accepted is None else "has changed"
    yield f"{definition.server}/{definition.key} {state}"
    for section, lines in definition.list_differences():
        yield f"  {section}"
        for line in lines:
            yield f"    {line}" if line == OMITTED else f"    {line[0]} {line[1:]}"
    yield ""


def _ask_user(definition: PendingDefinition) -> bool:
    if not sys.stdin.isatty():
        return False
    name = f"{definition.server}/{definition.key}"
    report(f"Accept {name} as it is now? Type y to accept it; anything else holds it back.")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _to_row(definition: PendingDefinition, *, is_accepted: bool) -> dict[str, Any]:
    return {
        "server": definition.server,
        "tool": str(definition.key),
        "changed": definition.list_changed_parts(),
        "old": definition.accepted,
        "new": definition.current,
        "accepted": is_accepted,
    }


def _print_outcome(pending: int, accepted: int, lock: DefinitionLock, tools: Sequence[str]) -> None:
    if not pending:
        matching = f" that matches {' or '.join(map(repr, tools))}" if tools else ""
        print_lines(f"no definition{matching} waits for approval")
    if accepted:
        print_lines(f"accepted {format_count(accepted, 'definition')} in {lock.path}")
    if accepted < pending:
        hint = "" if sys.stdin.isatty() else ". To accept all of them, add --yes; to accept some, also --tool NAME"
        print_lines(f"{format_count(pending - accepted, 'definition')} not accepted{hint}")
