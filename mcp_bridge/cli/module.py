"""`module validate`: checks a module against the contract of its type."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from mcp_bridge.amplifier.errors import ModuleNotFoundError
from mcp_bridge.amplifier.validation.checklist import ItemFindings, list_ids
from mcp_bridge.amplifier.validation.structure import check_structure, find_module
from mcp_bridge.cli.exits import ExitCode
from mcp_bridge.cli.module_probe import ProbedModule
from mcp_bridge.cli.options import ModuleOptions, check_timeout
from mcp_bridge.cli.output import escape, format_count, report, show_table, write_json
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.runtime.redaction import Redactor

_SECRET_KEY = re.compile("key|token|secret|passw|credential|auth", re.IGNORECASE)
_LABELS = {"passed": "ok  ", "failed": "FAIL", "warned": "warn", "skipped": "-   "}
_COLOURS = {"passed": "green", "failed": "red", "warned": "yellow", "skipped": "dim"}


def check_module(options: ModuleOptions) -> None:
    """Check a module; exit with 1 if a requirement is not met.

    Raises ConfigError for invalid options, and for a module that does not exist.
    """
    check_timeout(options.timeout)
    config = _parse_config(options.config)
    try:
        subject = find_module(options.module, Path.cwd())
    except ModuleNotFoundError as error:
        hint = "Pass its folder or file, or install it"
        raise ConfigError(str(error), where="MODULE", hint=hint) from error
    findings = ItemFindings()
    examination = ProbedModule(subject, options.type, config, options.timeout, findings)
    if check_structure(subject, findings):
        examination.run()
    result = Redactor(_list_secrets(config)).redact_value(_describe_check(options.module, examination, findings))
    if options.as_json:
        write_json(result)
    else:
        _report_result(result)
    raise SystemExit(ExitCode.OK if result["ok"] else ExitCode.FAILED)


def _parse_config(text: str) -> dict[str, Any]:
    hint = """Use one JSON object, such as '{"debug": true}'"""
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"invalid JSON: {error}", where="--config", hint=hint) from error
    if not isinstance(config, dict):
        raise ConfigError(f"found {type(config).__name__}", where="--config", hint=hint)
    return config


def _list_secrets(value: Any, *, is_secret: bool = False) -> list[str]:
    """List the strings of a configuration that are below the name of a secret."""
    if isinstance(value, dict):
        return [
            text
            for key, item in value.items()
            for text in _list_secrets(item, is_secret=is_secret or bool(_SECRET_KEY.search(key)))
        ]
    if isinstance(value, list):
        return [text for item in value for text in _list_secrets(item, is_secret=is_secret)]
    return [value] if is_secret and isinstance(value, str) else []


def _describe_check(module: str, examination: ProbedModule, findings: ItemFindings) -> dict[str, Any]:
    rows = findings.build_findings(examination.kind)
    failed = list_ids(rows, "failed")
    return {
        "module": module,
        "type": examination.kind,
        "type_from": examination.kind_source,
        "ok": not failed,
        "failed": failed,
        "warned": list_ids(rows, "warned"),
        "items": [finding.to_dict() for finding in rows],
    }


def _report_result(result: dict[str, Any]) -> None:
    """Report a line for each item, or on a terminal a table in colour, and the summary."""
    if sys.stderr.isatty():
        rows, styles = [], []
        for item in result["items"]:
            rows.append((_LABELS[item["state"]], item["id"], item["contract"], _describe(item)))
            rows += [("", "", "", item["advice"])] if item["advice"] else []
            styles += [_COLOURS[item["state"]]] * (2 if item["advice"] else 1)
        show_table(("", "item", "contract", "found"), rows, styles=styles)
    else:
        for item in result["items"]:
            report(f"{_LABELS[item['state']]} {item['id']}: {escape(_describe(item))}")
            if item["advice"]:
                report(f"     {item['advice']} ({item['contract']})")
    report(f"{result['module']}: {_summarize(result)}")


def _describe(item: dict[str, Any]) -> str:
    return str(item["found"] or item["what"])


def _summarize(result: dict[str, Any]) -> str:
    kind = f"{result['type']} (from {result['type_from']})" if result["type"] else "a module of unknown type"
    failed, warned = result["failed"], result["warned"]
    parts = [f"{format_count(len(failed), 'requirement')} not met: {', '.join(failed)}"] if failed else []
    parts += [f"{format_count(len(warned), 'warning')}: {', '.join(warned)}"] if warned else []
    return "; ".join([kind, *(parts or ["all checks passed"])])
