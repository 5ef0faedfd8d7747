"""`audit`: reads, filters, follows and verifies an audit trail."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import TrailOptions
from mcp_bridge._cli.output import format_count, print_lines, show_table, write_json
from mcp_bridge._cli.target import find_settings, is_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._policies.audit_trail.chain import ChainedRecord, ChainReport
from mcp_bridge._policies.audit_trail.database import AuditFileError
from mcp_bridge._policies.audit_trail.reader import NO_RECORD, AuditQuery, AuditReader, open_trail
from mcp_bridge._policies.audit_trail.retention import format_time
from mcp_bridge._runtime.terminal_text import escape_json

FOLLOW_INTERVAL = 0.25
"""Seconds between two reads of a file that is followed."""
OUTCOMES = ("ok", "error", "denied", "cancelled", "started")
COLUMNS = ("number", "time (UTC)", "name", "outcome", "ms", "principal", "client", "details")
_HASH = re.compile("[0-9a-f]{8,64}")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_trail(options: TrailOptions) -> None:
    """Print the matching records, or the result of the verification. Raises ConfigError."""
    query = _build_query(options)
    if options.contains is not None and not _HASH.fullmatch(options.contains):
        hint = "Pass the one that you noted, or at least its first 8 digits"
        raise ConfigError(f"'{options.contains}' is not a hash", where="--contains", hint=hint)
    try:
        path, removes_records = _find_trail(options.file)
        with open_trail(path) as trail:
            if options.verify or options.contains is not None:
                report = trail.verify(options.contains or "")
                if report.removed and not removes_records:
                    problem = f"the records up to {report.removed} were removed, but the settings keep all records"
                    # The retention of these settings removes nothing, so record 1 is missing.
                    report = report._replace(broken=1, problem=problem)
                _print_verification(report, path, options)
            elif options.follow:
                _follow(trail, query, options)
            elif options.as_json and not options.limit:
                # All records are read in pages, because the file may be larger than the memory.
                _print_after(trail, query, 0, _print_json)
            else:
                records = trail.read_latest(query, limit=options.limit or None).rows[::-1]
                show = _print_json if options.as_json else _show_table
                show(records)
    except AuditFileError as error:
        hint = "Pass the file of an audit trail, or settings with `audit`. If it is one, --verify finds the change"
        raise ConfigError(str(error), hint=hint) from error


def _find_trail(file: Path | None) -> tuple[Path, bool]:
    """Return the file, or the audit trail of a settings file, and whether old records may be removed from it."""
    if file is not None and not is_settings(file):
        return file, True
    file = find_settings(file, "the file of an audit trail, or settings with the policy `audit`")
    from mcp_bridge._app.policies import find_audit_trail
    from mcp_bridge._settings import load

    trail = find_audit_trail(load(file, os.environ))
    if trail is None:
        raise ConfigError("these settings have no audit trail", path=str(file), hint="Add the policy `audit`")
    return trail


def _build_query(options: TrailOptions) -> AuditQuery:
    if options.outcome not in (None, *OUTCOMES):
        hint = f"Use one of: {', '.join(OUTCOMES)}"
        raise ConfigError(f"unknown outcome '{options.outcome}'", where="--outcome", hint=hint)
    return AuditQuery(
        name=options.tool,
        principal=options.principal,
        outcome=options.outcome,
        since=_parse_time(options.since, "--since"),
        until=_parse_time(options.until, "--until"),
        text=options.text,
    )


def _parse_time(text: str | None, where: str) -> str | None:
    """Return a time in the format of records. The text is a date with or without a time, or a duration before now."""
    if text is None:
        return None
    duration = re.fullmatch(r"\s*(\d{1,9})\s*([smhd])\s*", text)
    if duration is not None:
        return format_time(time.time() - int(duration[1]) * _UNITS[duration[2]])
    try:
        return format_time(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        hint = "Use a duration before now such as 30m or 7d, or a time such as 2026-11-26T13:30"
        raise ConfigError(f"'{text}' is not a time", where=where, hint=hint) from None


def _print_verification(report: ChainReport, path: Path, options: TrailOptions) -> None:
    """Print whether the chain is intact. Exits with 1 if it is not."""
    if options.as_json:
        write_json(report._asdict() | {"head": report.head._asdict(), "is_intact": report.is_intact})
    else:
        print_lines(*_describe_verification(report, path, options.contains))
    if not report.is_intact:
        raise SystemExit(ExitCode.FAILED)


def _describe_verification(report: ChainReport, path: Path, expected_hash: str | None) -> Iterator[str]:
    if report.broken is not None:
        yield f"{path} is BROKEN at record {report.broken}: {report.problem}."
        yield f"Intact before it: {format_count(report.checked, 'record')}."
        return
    if report.has_expected:
        text = f"{path} is intact: {format_count(report.checked, 'record')}"
        if report.removed:
            text += f", after {format_count(report.removed, 'removed record')} (keep, max_size)"
        yield f"{text}."
        if report.removed and expected_hash is None:
            yield "A record declares the removal, but every writer of the file can add one. --contains HASH proves it."
    else:
        yield f"{path} is NOT the file that had a record with the hash {expected_hash}."
        yield "Its records match each other, so some were changed or removed, and all later hashes computed again."
    if report.checked:
        yield f"Record {report.head.seq} is the last one. Its hash is {report.head.hash}"


def _follow(trail: AuditReader, query: AuditQuery, options: TrailOptions) -> None:
    """Print the latest records, and then new ones, until Ctrl-C."""
    show: Callable[[Sequence[ChainedRecord]], None] = _print_json if options.as_json else _print_records
    last = trail.find_last()
    show(trail.read_latest(query, limit=options.limit or None, before=last + 1).rows[::-1])
    try:
        while True:
            end = trail.find_last()
            # The next read begins at the end, so that records without a match are not read again.
            last = max(_print_after(trail, query, last, show), end)
            sys.stdout.flush()
            time.sleep(FOLLOW_INTERVAL)
    except KeyboardInterrupt:
        pass


def _print_after(
    trail: AuditReader, query: AuditQuery, seq: int, show: Callable[[Sequence[ChainedRecord]], None]
) -> int:
    """Print the matching records after the one with this number, and return the number of the last one."""
    while True:
        records = trail.read_after(query, seq)
        if not records:
            return seq
        show(records)
        seq = records[-1].seq


def _print_json(records: Sequence[ChainedRecord]) -> None:
    """Print each record in a line. In a file or a pipe, the text is exactly the hashed one."""
    for record in records:
        line = f'{{"seq":{record.seq},"hash":"{record.hash}","record":{record.text}}}'
        print(escape_json(line) if sys.stdout.isatty() else line)


def _show_table(records: Sequence[ChainedRecord]) -> None:
    rows = [_describe_record(record) for record in records]
    styles = ["" if row[3] in {"ok", "started"} else "red" for row in rows]
    show_table(COLUMNS, rows, empty="No record matches.", styles=styles)


def _print_records(records: Sequence[ChainedRecord]) -> None:
    for record in records:
        print_lines("  ".join(filter(None, _describe_record(record))))


def _describe_record(chained: ChainedRecord) -> Sequence[str]:
    try:
        record = chained.parse_record()
    except (ValueError, AttributeError):
        return (str(chained.seq), "", "", "", "", "", "", NO_RECORD)
    duration = record.get("duration_ms")
    return (
        str(chained.seq),
        str(record.get("time", ""))[:19].replace("T", " "),
        str(record.get("name", record.get("kind", ""))),
        str(record.get("outcome", "")),
        f"{duration:.1f}" if isinstance(duration, int | float) else "",
        str(record.get("principal", "")),
        str(record.get("client", "")),
        _describe_details(record),
    )


def _describe_details(record: dict[str, Any]) -> str:
    """Describe the code of an error and the decisions of policies, or lost or removed records."""
    if record.get("kind") == "gap":
        return f"{record.get('lost')} records were lost: {record.get('reason')}"
    if record.get("kind") == "anchor":
        return f"the records up to {record.get('through')} were removed (keep, max_size)"
    details = [str(record.get("code", ""))]
    decisions = record.get("decisions")
    # Another program may have changed the file, so the decisions may be anything.
    if not isinstance(decisions, list):
        decisions = []
    for decision in decisions:
        if isinstance(decision, dict):
            text = f"{decision.get('decision')} by {decision.get('policy')}"
            details.append(f"{text} ({decision['by']})" if decision.get("by") else text)
    return "; ".join(filter(None, details))
