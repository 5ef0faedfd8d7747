"""What `doctor` has found out about the servers of clients: as a person reads it, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp_bridge.cli.doctor.findings import Finding, rows, tell
from mcp_bridge.cli.exits import say
from mcp_bridge.clients.client import Client
from mcp_bridge.documents.value_text import SENSITIVE
from mcp_bridge.runtime.redaction import Redactor

_PLAIN = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "PYTHONPATH", "SHELL", "TMPDIR", "USER"})
_SHORTEST = 8
"""Characters of a value that is taken for a secret because of its variable's name alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One server of a client, or one file of it, or that it has none; what is measured is in seconds."""

    client: Client
    findings: Sequence[Finding]
    scope: str = ""
    path: Path | None = None
    name: str = ""
    argv: Sequence[str] = ()
    folder: Path | None = None
    patience: float | None = None
    first_answer: float | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.ok for finding in self.findings)

    def without(self, secrets: Iterable[str]) -> Report:
        """The report with the secrets left out."""
        redactor = Redactor(secrets)
        findings = [
            Finding(one.check, one.ok, redactor.text(one.detail), redactor.text(one.advice)) for one in self.findings
        ]
        return replace(self, findings=findings, argv=[redactor.text(word) for word in self.argv])


def secrets_of(environ: Mapping[str, str], own: Iterable[str]) -> Sequence[str]:
    """The values that are not to be shown: of variables that the entry itself gives, and of those named as secrets."""
    own = frozenset(own) - _PLAIN
    return [
        value
        for name, value in environ.items()
        if name in own or (len(value) >= _SHORTEST and any(word in name.lower() for word in SENSITIVE))
    ]


def as_data(reports: Sequence[Report]) -> dict[str, Any]:
    """All reports as JSON has them."""
    return {"ok": all(report.ok for report in reports), "servers": [_row(report) for report in reports]}


def show(report: Report) -> None:
    """One report for a person."""
    parts = (
        report.client.title,
        f"'{report.name}'" if report.name else "",
        f"({report.scope})" if report.scope else "",
    )
    say(" ".join(filter(None, parts)))
    if report.path is not None:
        say(f"file: {report.path}")
    if report.argv:
        say(f"command: {shlex.join(report.argv)}")
    if report.folder is not None:
        say(f"folder: {report.folder}")
    tell(report.findings)


def _row(report: Report) -> dict[str, Any]:
    return {
        "client": report.client.name,
        "scope": report.scope or None,
        "path": str(report.path) if report.path is not None else None,
        "name": report.name or None,
        "command": list(report.argv),
        "folder": str(report.folder) if report.folder is not None else None,
        "first_answer": round(report.first_answer, 3) if report.first_answer is not None else None,
        "patience": report.patience,
        "ok": report.ok,
        "checks": rows(report.findings),
    }
