"""Recognizes the causes of failed starts in the stderr of a server, and describes how to fix them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mcp_bridge._cli.doctor.conversation import FaultKind, ServerFault
from mcp_bridge._cli.doctor.eras import EraOutcome
from mcp_bridge._cli.doctor.preflight import ExaminedServer, find_python
from mcp_bridge._cli.doctor.report import CheckResult
from mcp_bridge._desktop.entries import can_reference_variables
from mcp_bridge._version import DISTRIBUTION


class Cause(NamedTuple):
    """A pattern in the stderr of a server, what it means, and how to fix it.

    In both texts, `{match}` is the group of that name, and the other names are the values of `_find_cause`.
    """

    pattern: str
    meaning: str
    fix: str


_FIX_BELOW = "Fix the error below; `mcp-bridge validate` checks the result."
CAUSES: Sequence[Cause] = (
    Cause(
        r"No module named '?(?P<match>mcp_bridge)\b",
        "{match} is not installed in the Python of this entry",
        f"Install it there ({{python}} -m pip install {DISTRIBUTION}), or install the server again: {{install}}",
    ),
    Cause(
        r"No module named '(?P<match>[^']+)'",
        "the module '{match}' cannot be imported",
        "Install its package in the environment of the entry: {python} -m pip install ... "
        "A module of your own must be in the folder of the file that imports it.",
    ),
    Cause(
        r"the environment variable (?P<match>\w+) is not set",
        "the settings need the variable {match}, which {title} does not pass to the server",
        "{reference}{secrets}",
    ),
    Cause(
        r"mcp-bridge: (?P<match>.+?): no such file\b",
        "{match} does not exist",
        "It was moved or deleted. Correct its path in the settings that name it, or install again: {install}",
    ),
    Cause(r"mcp-bridge: (?P<match>.+?\.py):\d+: ", "a tool file cannot be imported", _FIX_BELOW),
    Cause(
        r"mcp-bridge: .+:\d+: sources\S+\.(?P<match>sandbox|container): ",
        "a source cannot run in its {match}",
        _FIX_BELOW,
    ),
    Cause(r"mcp-bridge: (?P<match>.+:\d+: .+)", "the settings are invalid", _FIX_BELOW),
    Cause(r"(?P<match>ImportError|SyntaxError|IndentationError): ", "a tool file cannot be imported", _FIX_BELOW),
)
_BY_KIND: dict[FaultKind, tuple[str, str]] = {
    "polluted": (
        "something other than MCP messages is written to stdout",
        "{title} cannot parse that. The bridge redirects what tools print, so look for a script or shell profile that "
        "prints before the bridge starts, and make it print to stderr.",
    ),
    "silent": ("it does not respond; {title} times out after {timeout:g} s", "{slow}"),
    "not started": ("{title} cannot start it", "Install the server again: {install}"),
}
_SLOW_START = (
    "Look for what delays the first response: imports at the top of tool files, connections to servers, or a launcher "
    "that downloads packages first."
)


def explain(outcome: EraOutcome, server: ExaminedServer) -> CheckResult:
    """Return the result of an era. If the cause of a fault is known, add the cause and how to fix it."""
    if outcome.fault is None:
        return outcome.result
    meaning, fix = _find_cause(outcome.fault, server)
    if not meaning:
        return outcome.result
    advice = "\n".join(filter(None, (fix, outcome.result.advice)))
    return CheckResult(outcome.result.check, False, f"{meaning} ({outcome.result.detail})", advice)


def check_start_time(first_response: float, server: ExaminedServer) -> CheckResult:
    """Compare the time of the first response with the timeout of the client."""
    limit = server.launch.timeout
    detail = f"first response after {first_response:.2f} s; {server.client.title} waits {limit:g} s"
    if first_response > limit:
        return CheckResult("start", False, detail, _advise_slow_start(server))
    advice = ""
    if first_response > limit / 2:
        advice = f"On a busy machine this may be too slow. {_advise_slow_start(server)}"
    return CheckResult("start", True, detail, advice)


def _find_cause(fault: ServerFault, server: ExaminedServer) -> tuple[str, str]:
    values = {
        "install": server.install_command,
        "title": server.client.title,
        "secrets": server.client.secrets_advice,
        "python": find_python(server.launch.argv[0]),
        "timeout": server.launch.timeout,
        "slow": _advise_slow_start(server),
    }
    if fault.kind in ("ended", "silent"):
        for cause in CAUSES:
            match = re.search(cause.pattern, fault.stderr or "")
            if match is not None:
                values |= {"match": match["match"], "reference": _advise_reference(match["match"], server)}
                return cause.meaning.format(**values), cause.fix.format(**values).strip()
    meaning, fix = _BY_KIND.get(fault.kind, ("", ""))
    return meaning.format(**values), fix.format(**values)


def _advise_reference(name: str, server: ExaminedServer) -> str:
    """Advise to refer to a variable in the entry, unless the entry already does, or entries of the client cannot."""
    if name in server.launch.unresolved or not can_reference_variables(server.client):
        return ""
    return f"Set it, and install the server again so that the entry refers to it: {server.install_command}\n"


def _advise_slow_start(server: ExaminedServer) -> str:
    key = server.client.launch_environment.timeout_key
    if key is None:
        return _SLOW_START
    return f"{_SLOW_START} Or raise '{key}' in the entry."
