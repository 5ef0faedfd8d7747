"""What `doctor` finds beside the two eras: modules not in place, sources that have ended, what is not published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mcp_bridge.cli.doctor.conversation import Conversation, Fault
from mcp_bridge.cli.exits import counted, say

PAGES = 1_000
"""The most pages of a list that are asked for."""
_STATUS = re.compile(r"amplifier://[^/]+/status")
_ENDED = re.compile(r" ERROR mcp_bridge\.bridge: source '(?P<name>.*?)' ended: (?P<why>.*)")
_PROBLEM = re.compile(r""" ERROR mcp_bridge\.bridge: source (?P<q>['"])(?P<name>.*?)(?P=q): (?P<why>.*)""")
_MODULE = re.compile(r"module '(.*)' of '")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was tried, whether it went well, and what to do when not.

    One that went well and has advice all the same is a warning.
    """

    check: str
    ok: bool
    detail: str
    advice: str = ""


def rows(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as JSON has them."""
    return [asdict(finding) for finding in findings]


def tell(findings: Iterable[Finding]) -> None:
    """Findings as a person reads them, a line each, and below it what to do."""
    for finding in findings:
        word = "FAIL" if not finding.ok else "warn" if finding.advice else "ok  "
        say(f"{word} {finding.check}: {finding.detail}")
        for line in finding.advice.splitlines():
            say(f"     {line}")


def listed(conversation: Conversation, method: str, kind: str, params: dict[str, Any]) -> list[Any]:
    """What a list has, over all pages. Raises Fault, also where the pages do not end."""
    found: list[Any] = []
    cursors: list[Any] = [None]
    while True:
        page = conversation.ask(method, {**params, "cursor": cursors[-1]} if cursors[-1] else params)
        if not isinstance(items := page.get(kind), list):
            advice = f"A server without {kind} answers an empty list."
            raise Fault(f"the answer to {method} has no list '{kind}'", advice)
        found += items
        cursor = page.get("nextCursor")
        if cursor is None:
            return found
        if cursor in cursors or len(cursors) > PAGES:
            what = f"gives the cursor {cursor!r} again" if cursor in cursors else f"has more than {PAGES} pages"
            raise Fault(f"{method} {what}", "Its pages never end; clients would hang.")
        cursors.append(cursor)


def of_modules(conversation: Conversation, known: dict[str, Any], params: dict[str, Any]) -> list[Finding]:
    """What the server's Amplifier sources say of their modules; `known` is how it has introduced itself. Raises Fault.

    A server that says nothing of resources is not asked about them.
    """
    capabilities = known.get("capabilities")
    if not isinstance(capabilities, dict) or "resources" not in capabilities:
        return []
    found: list[Finding] = []
    for one in listed(conversation, "resources/list", "resources", params):
        uri = str(one.get("uri")) if isinstance(one, dict) else ""
        if _STATUS.fullmatch(uri):
            found += _of_status(conversation.ask("resources/read", {**params, "uri": uri}))
    return found


def of_sources(said: str) -> Iterator[Finding]:
    """The sources that our own server's log says have ended, while others go on."""
    for line in said.splitlines():
        if (match := _ENDED.search(line)) is not None:
            advice = "Its tools are missing, and calls that its hooks govern are denied. See `mcp-bridge validate`."
            yield Finding(f"source '{match['name']}'", False, f"it has ended: {match['why']}", advice)


def of_problems(said: str, known: Iterable[Finding] = ()) -> Iterator[Finding]:
    """What our own server's log says that it could not publish, without what is `known` already.

    These are the lines that `validate` has too: they are read here so that doctor need not load anybody's tools.
    """
    told = {f"{module[1]}: {one.detail}" for one in known if (module := _MODULE.match(one.check)) is not None}
    found = [match for line in said.splitlines() if not _ENDED.search(line) and (match := _PROBLEM.search(line))]
    for name, why in dict.fromkeys((match["name"], match["why"]) for match in found):
        if why not in told:
            advice = "It is not published, the others are. Mend it, or leave it out with `exclude`."
            yield Finding(f"source '{name}'", False, why, advice)


def _of_status(answer: dict[str, Any]) -> Iterator[Finding]:
    try:
        status = json.loads(answer["contents"][0]["text"])
        source, modules, problems = status["source"], status["session"]["modules"], status["session"]["problems"]
        failed = {f"{one['module']}: {one['problem']}": one["module"] for one in modules if one["problem"]}
    except (KeyError, IndexError, TypeError, ValueError):
        return  # no session, or none of ours
    there = len(modules) - len(failed)
    yield Finding(f"modules of '{source}'", True, f"{counted(there, 'module')} of {len(modules)} mounted and ready")
    for problem in dict.fromkeys([*problems, *failed]):
        module, _, why = problem.partition(": ")
        advice = (
            f"Mend it, or leave it out of the plan. See `mcp-bridge module validate` for what '{module}' has to be."
        )
        yield Finding(f"module '{module}' of '{source}'", False, why, advice)
