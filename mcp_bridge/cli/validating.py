"""`module validate`: a module held against the checklist of its contract, as a table or as JSON."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from mcp_bridge.amplifier.errors import ModuleNotFoundError
from mcp_bridge.amplifier.validation.checklist import Finding, Findings, named
from mcp_bridge.amplifier.validation.structure import look, subject_of
from mcp_bridge.cli.exits import Exit, counted, escaped, say
from mcp_bridge.cli.probing import Examination
from mcp_bridge.cli.showing import data
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.runtime.redaction import Redactor

MOST_PATIENCE = 3600
_SECRET = re.compile("key|token|secret|passw|credential|auth", re.IGNORECASE)
_WORDS = {"passed": "ok  ", "failed": "FAIL", "warned": "warn", "skipped": "-   "}


def validate(module: str, *, kind: str | None, config: str, as_json: bool, patience: float) -> None:
    """Check a module; exit 1 when something required fails.

    Raises ConfigError for options that cannot be used, and where there is no such module.
    """
    if not MOST_PATIENCE >= patience > 0:  # nan is neither
        hint = f"Write seconds, more than 0 and at most {MOST_PATIENCE}"
        raise ConfigError(f"found {patience:g}", where="--timeout", hint=hint)
    given = _configuration(config)
    try:
        subject = subject_of(module, Path.cwd())
    except ModuleNotFoundError as error:
        raise ConfigError(str(error), where="MODULE", hint="Give its folder or file, or install it") from error
    found = Findings()
    examination = Examination(subject, kind, given, patience, found)
    if look(subject, found):
        examination.run()
    report = _report(module, examination, found)
    report = Redactor(_secrets(given)).value(report)
    if as_json:
        data(report)
    else:
        _print(report)
    raise SystemExit(Exit.OK if report["ok"] else Exit.FAILED)


def _configuration(text: str) -> dict[str, Any]:
    hint = """Write one JSON object, such as '{"debug": true}'"""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"this is no JSON: {error}", where="--config", hint=hint) from error
    if not isinstance(given, dict):
        raise ConfigError(f"found {type(given).__name__}", where="--config", hint=hint)
    return given


def _secrets(value: Any, *, hidden: bool = False) -> list[str]:
    """Texts of a configuration that stand under a name of a secret."""
    if isinstance(value, dict):
        items = value.items()
        return [text for key, one in items for text in _secrets(one, hidden=hidden or bool(_SECRET.search(key)))]
    if isinstance(value, list):
        return [text for one in value for text in _secrets(one, hidden=hidden)]
    return [value] if hidden and isinstance(value, str) else []


def _report(module: str, examination: Examination, found: Findings) -> dict[str, Any]:
    told: list[Finding] = found.told(examination.kind)
    failed = named(told, "failed")
    return {
        "module": module,
        "type": examination.kind,
        "type_from": examination.how,
        "ok": not failed,
        "failed": failed,
        "warned": named(told, "warned"),
        "items": [finding.to_dict() for finding in told],
    }


def _print(report: dict[str, Any]) -> None:
    """A line for each item, for a person; in colour, as a table, where there is a terminal."""
    if sys.stderr.isatty():
        _table(report["items"])
    else:
        for item in report["items"]:
            say(f"{_WORDS[item['state']]} {item['id']}: {escaped(_told(item))}")
            if item["advice"]:
                say(f"     {item['advice']} ({item['contract']})")
    say(f"{report['module']}: {_summary(report)}")


def _told(item: dict[str, Any]) -> str:
    return str(item["found"] or item["what"])


def _summary(report: dict[str, Any]) -> str:
    kind = f"{report['type']} (from {report['type_from']})" if report["type"] else "a module of no known type"
    failed, warned = report["failed"], report["warned"]
    told = [f"{counted(len(failed), 'required item')} failed: {', '.join(failed)}"] if failed else []
    told += [f"{counted(len(warned), 'warning')}: {', '.join(warned)}"] if warned else []
    return "; ".join([kind, *(told or ["all is as it should be"])])


def _table(items: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    colours = {"passed": "green", "failed": "red", "warned": "yellow", "skipped": "dim"}
    table = Table("", "item", "contract", "found", box=None, header_style="bold")
    for item in items:
        advice = f"\n{escaped(item['advice'])}" if item["advice"] else ""
        cells = (_WORDS[item["state"]], item["id"], item["contract"])
        table.add_row(*map(escaped, cells), escaped(_told(item)) + advice, style=colours[item["state"]])
    Console(stderr=True, highlight=False, markup=False).print(table)
