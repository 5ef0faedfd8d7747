"""The results of `doctor`, and its reports about the servers of clients, as text for the user and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mcp_bridge._cli.output import print_lines
from mcp_bridge._desktop.client import Client
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._settings.documents.value_text import SENSITIVE

_PUBLIC_VARIABLES = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "PYTHONPATH", "SHELL", "TMPDIR", "USER"})
_SHORTEST_SECRET = 8
"""If only the name of a variable looks like a secret, a value with fewer characters is not redacted."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, and advice for the user. If `ok` and there is advice, it is a warning."""

    check: str
    ok: bool
    detail: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """The results for a server of a client, for an unreadable file, or for the lack of servers.

    Times are in seconds.
    """

    client: Client
    results: Sequence[CheckResult]
    scope: str = ""
    path: Path | None = None
    name: str = ""
    argv: Sequence[str] = ()
    folder: Path | None = None
    timeout: float | None = None
    first_response: float | None = None

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    def redact(self, secrets: Iterable[str]) -> ServerReport:
        redactor = Redactor(secrets)
        results = redact_results(self.results, secrets)
        return replace(self, results=results, argv=[redactor.redact_text(word) for word in self.argv])

    def to_json(self) -> dict[str, Any]:
        return {
            "client": self.client.name,
            "scope": self.scope or None,
            "path": str(self.path) if self.path is not None else None,
            "name": self.name or None,
            "command": list(self.argv),
            "folder": str(self.folder) if self.folder is not None else None,
            "first_answer": round(self.first_response, 3) if self.first_response is not None else None,
            "patience": self.timeout,
            "ok": self.ok,
            "checks": [asdict(result) for result in self.results],
        }

    def show(self) -> None:
        title = self.client.title
        if self.name:
            title += f" '{self.name}'"
        if self.scope:
            title += f" ({self.scope})"
        print_lines(title)
        for label, value in (("file", self.path), ("command", shlex.join(self.argv)), ("folder", self.folder)):
            if value:
                print_lines(f"{label}: {value}")
        print_lines(*format_results(self.results))


def redact_results(results: Iterable[CheckResult], secrets: Iterable[str]) -> list[CheckResult]:
    """Return results without secrets."""
    redactor = Redactor(secrets)
    return [
        replace(result, detail=redactor.redact_text(result.detail), advice=redactor.redact_text(result.advice))
        for result in results
    ]


def format_results(results: Iterable[CheckResult]) -> Iterator[str]:
    """Yield the lines of results, each followed by its advice."""
    for result in results:
        label = "ok  "
        if not result.ok:
            label = "FAIL"
        elif result.advice:
            label = "warn"
        yield f"{label} {result.check}: {result.detail}"
        yield from (f"     {line}" for line in result.advice.splitlines())


def find_secret_values(environ: Mapping[str, str], entry_variables: Iterable[str]) -> Sequence[str]:
    """Find the secret values: those of variables in the entry, and of variables with a name like a secret."""
    private = frozenset(entry_variables) - _PUBLIC_VARIABLES
    values: list[str] = []
    for name, value in environ.items():
        is_sensitive = len(value) >= _SHORTEST_SECRET and any(word in name.lower() for word in SENSITIVE)
        if is_sensitive or name in private:
            values.append(value)
    return values
