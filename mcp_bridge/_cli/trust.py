"""`trust`: shows how the tools of other servers have changed, and accepts their new definitions."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import TrustOptions
from mcp_bridge._cli.output import format_count, print_lines, report, report_problems, write_json
from mcp_bridge._cli.target import SETTINGS_SUFFIXES, find_file, is_settings, load_target
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio
from mcp_bridge._sources.upstream.source import UpstreamSource
from mcp_bridge._upstream.trust.definition_lock import DefinitionLock
from mcp_bridge._upstream.trust.fingerprints import DefinitionKey
from mcp_bridge._upstream.trust.guard import OMITTED, PendingDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReview:
    """The definitions that wait for the user, and the problems of the servers."""

    pending: Sequence[PendingDefinition]
    problems: dict[str, list[str]]


def review_definitions(options: TrustOptions) -> None:
    """Show changed definitions and accept those that the user chooses; exit with 1 if any still waits.

    Raises ConfigError for a file without servers, and DefinitionLockError.
    """
    logs.configure_logging(options.log_level)
    file = find_file(options.file)
    if not is_settings(file):
        hint = f"Pass the settings file with the servers ({', '.join(SETTINGS_SUFFIXES)})"
        raise ConfigError("this is not a settings file, so it lists no servers", path=str(file), hint=hint)
    with reserve_stdio():  # stdout is only for the result
        bridge = load_target(file).bridge
        review = anyio.run(_connect_servers, bridge)
    chosen = [one for one in review.pending if _is_chosen(one, options.tool or ["*"])]
    accepted = []
    for one in chosen:
        if not options.as_json:
            print_lines(*_describe_change(one))
        if options.yes or (not options.as_json and _ask_user(one)):
            accepted.append(one)
    lock = DefinitionLock(file.resolve())
    _accept_all(lock, accepted)
    if options.as_json:
        rows = [_to_row(one, is_accepted=one in accepted) for one in chosen]
        write_json({"lock": str(lock.path), "tools": rows, "problems": review.problems})
    else:
        _report_outcome(chosen, accepted, lock, review.problems, options.tool or ())
    raise SystemExit(ExitCode.OK if len(accepted) == len(chosen) else ExitCode.FAILED)


async def _connect_servers(bridge: Bridge) -> PendingReview:
    sources = [source for source in bridge.sources if isinstance(source, UpstreamSource)]
    async with bridge.run_sources(serving=False), anyio.create_task_group() as tasks:
        for source in sources:
            tasks.start_soon(source.wait_for_attempt)
    pending = [one for source in sources for one in source.guard.pending]
    problems = {  # the changes themselves are shown in full
        name: [line for line in lines if "mcp-bridge trust" not in line] for name, lines in bridge.problems.items()
    }
    return PendingReview(pending=sorted(pending, key=lambda one: (one.server, one.key)), problems=problems)


def _is_chosen(pending: PendingDefinition, patterns: Sequence[str]) -> bool:
    names = (str(pending.key), f"{pending.server}/{pending.key}")
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _describe_change(pending: PendingDefinition) -> Iterator[str]:
    """Yield the lines of a change: each part that differs, old lines with `-` and new ones with `+`."""
    state = "is new" if pending.accepted is None else "has changed"
    yield f"{pending.server}/{pending.key} {state}"
    for part, lines in pending.list_differences():
        yield f"  {part}"
        yield from (f"    {line[0]} {line[1:]}" if line != OMITTED else f"    {line}" for line in lines)
    yield ""


def _ask_user(pending: PendingDefinition) -> bool:
    if not sys.stdin.isatty():
        return False
    report(f"Accept {pending.server}/{pending.key} as it is now? Type y to accept it; anything else holds it back.")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _accept_all(lock: DefinitionLock, accepted: Sequence[PendingDefinition]) -> None:
    by_server: dict[str, dict[DefinitionKey, Any]] = defaultdict(dict)
    for one in accepted:
        by_server[one.server][one.key] = one.current
    for server, definitions in by_server.items():
        lock.accept_definitions(server, definitions)


def _to_row(pending: PendingDefinition, *, is_accepted: bool) -> dict[str, Any]:
    return {
        "server": pending.server,
        "tool": str(pending.key),
        "changed": pending.list_changed_parts(),
        "old": pending.accepted,
        "new": pending.current,
        "accepted": is_accepted,
    }


def _report_outcome(
    chosen: Sequence[PendingDefinition],
    accepted: Sequence[PendingDefinition],
    lock: DefinitionLock,
    problems: dict[str, list[str]],
    tools: Sequence[str],
) -> None:
    report_problems(problems)
    if not chosen:
        matching = f" that matches {' or '.join(map(repr, tools))}" if tools else ""
        print_lines(f"no definition{matching} waits for approval")
        return
    if accepted:
        print_lines(f"accepted {format_count(len(accepted), 'definition')} in {lock.path}")
    if waiting := len(chosen) - len(accepted):
        hint = "" if sys.stdin.isatty() else ". To accept all of them, add --yes; to accept some, also --tool NAME"
        print_lines(f"{format_count(waiting, 'definition')} not accepted{hint}")
