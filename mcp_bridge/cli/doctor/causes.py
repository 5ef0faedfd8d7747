"""Why a server that was started as its client would does not answer: the cause in words, and the cure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.cli.doctor.conversation import Fault, Kind
from mcp_bridge.cli.doctor.eras import Heard
from mcp_bridge.cli.doctor.findings import Finding
from mcp_bridge.cli.doctor.preflight import Subject, python_of
from mcp_bridge.clients.shaping import refers


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What a dying server says, and what that means. `{what}` is what the pattern has found."""

    pattern: re.Pattern[str]
    meaning: str
    cure: str


CAUSES: Sequence[Cause] = (
    Cause(
        pattern=re.compile(r"No module named '?(?P<what>mcp_bridge)\b"),
        meaning="the Python of this entry has no {what}",
        cure=f"Install it there ({{python}} -m pip install {DISTRIBUTION}), or write the entry again: {{again}}",
    ),
    Cause(
        pattern=re.compile(r"No module named '(?P<what>[^']+)'"),
        meaning="the module '{what}' cannot be imported",
        cure="Install what it belongs to where the entry's Python finds it: {python} -m pip install ... A module of "
        "your own has to be beside the file that imports it.",
    ),
    Cause(
        pattern=re.compile(r"the environment variable (?P<what>\w+) is not set"),
        meaning="the settings need the variable {what}, which {title} does not give to the server",
        cure="{refer}{secrets}",
    ),
    Cause(
        pattern=re.compile(r"mcp-bridge: (?P<what>.+?): no such file\b"),
        meaning="there is no {what}",
        cure="It was moved or deleted. Say where it is now: in the settings that name it, or {again}",
    ),
    Cause(
        pattern=re.compile(r"mcp-bridge: (?P<what>.+?\.py):\d+: "),
        meaning="a file of the tools cannot be imported",
        cure="Mend what is said below; `mcp-bridge validate` checks it.",
    ),
    Cause(
        pattern=re.compile(r"mcp-bridge: (?P<what>.+:\d+: .+)"),
        meaning="the settings cannot be used",
        cure="Mend what is said below; `mcp-bridge validate` checks it.",
    ),
    Cause(
        pattern=re.compile(r"(?P<what>ImportError|SyntaxError|IndentationError): "),
        meaning="a file of the tools cannot be imported",
        cure="Mend what is said below; `mcp-bridge validate` checks it.",
    ),
)
_BY_KIND: dict[Kind, tuple[str, str]] = {
    "polluted": (
        "something else than messages comes out of its stdout",
        "{title} cannot read that. The bridge keeps the prints of tools away from stdout: look for a script around it, "
        "or a shell's profile, that prints. What prints has to print to stderr.",
    ),
    "silent": (
        "it does not answer; {title} gives up after {patience:g} s",
        "{slow}",
    ),
    "not started": ("{title} cannot start it", "Write the entry again: {again}"),
}
_SLOW = (
    "Look for what takes long before the first answer: imports at the top of tool files, servers and addresses that "
    "are waited for, a launcher that fetches packages first."
)


def explained(heard: Heard, subject: Subject) -> Finding:
    """The era's finding, with the cause in front and the cure above what the server has said."""
    if heard.fault is None:
        return heard.finding
    meaning, cure = _cause(heard.fault, subject)
    if not meaning:
        return heard.finding
    advice = "\n".join(filter(None, (cure, heard.finding.advice)))
    return Finding(heard.finding.check, False, f"{meaning} ({heard.finding.detail})", advice)


def started(heard: Sequence[Heard], subject: Subject) -> Finding | None:
    """How long the first start took, against what the client allows; nothing where none has answered."""
    first = next((one.first_answer for one in heard if one.first_answer is not None), None)
    if first is None:
        return None
    limit = subject.launch.patience
    detail = f"first answer after {first:.2f} s; {subject.client.title} waits {limit:g} s"
    if first > limit:
        return Finding("start", False, detail, _slow(subject))
    near = first > limit / 2
    return Finding("start", True, detail, f"A busy day, and it is too late. {_slow(subject)}" if near else "")


def _cause(fault: Fault, subject: Subject) -> tuple[str, str]:
    words = {
        "again": subject.again,
        "title": subject.client.title,
        "secrets": subject.client.secrets,
        "python": python_of(subject.launch.argv[0]),
        "patience": subject.launch.patience,
        "slow": _slow(subject),
        "what": "",
        "refer": "",
    }
    if fault.kind in ("ended", "silent"):
        for cause in CAUSES:
            if (found := cause.pattern.search(fault.said)) is not None:
                words["what"] = found["what"]
                words["refer"] = _refer(found["what"], subject)
                return cause.meaning.format(**words), cause.cure.format(**words).strip()
    meaning, cure = _BY_KIND.get(fault.kind, ("", ""))
    return meaning.format(**words), cure.format(**words)


def _refer(name: str, subject: Subject) -> str:
    """How the entry gets to name a variable; nothing where it does, or where this client's entries cannot."""
    if name in subject.launch.unresolved or not refers(subject.client):
        return ""
    return f"Set it, and write the entry again, so that it refers to it: {subject.again}\n"


def _slow(subject: Subject) -> str:
    key = subject.client.surroundings.patience_key
    return f"{_SLOW} Or let it wait longer: '{key}' in the entry." if key is not None else _SLOW
