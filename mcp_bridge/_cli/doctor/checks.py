"""Checks of a running server: one call, its modules and upstreams, its log, and its tools as a client sees them.

`doctor` talks to a server as a client does, so most checks read published resources. `amplifier://NAME/status` lists
the modules of an Amplifier source, and `STATUS_URI` the upstreams of a bridge. The problems of unpublished entries are
only in the log of a bridge, its stderr.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from mcp_bridge._app.status import STATUS_URI
from mcp_bridge._cli.doctor.conversation import Conversation, ServerFault
from mcp_bridge._cli.doctor.preflight import ExaminedServer
from mcp_bridge._cli.doctor.report import CheckResult
from mcp_bridge._cli.output import format_count
from mcp_bridge._cli.target import is_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.source import STILL_STARTING
from mcp_bridge._desktop.client import ServerLaunch
from mcp_bridge._desktop.servers import find_settings_argument, is_bridge_command
from mcp_bridge._upstream.trust.screening import SCREENING_NOTES

if TYPE_CHECKING:
    from mcp_bridge._protocol.dialects.dialect import SchemaDialect

MAX_PAGES = 1_000
"""The maximum number of pages of a list."""
MAX_TEXT = 200
"""The maximum number of characters of a result's text that are shown."""
NOT_CONNECTED = "the server is not connected: "
TIMEOUT = 30.0
"""Seconds in which upstreams have to start."""
INTERVAL = 0.2
"""Seconds between two readings of their states."""
_STATUS_URI = re.compile(r"amplifier://[^/]+/status")
_ENDED_SOURCE = re.compile(r" ERROR mcp_bridge\.bridge: source '(?P<name>.*?)' ended: (?P<reason>.*)")
_PROBLEM = re.compile(r""" ERROR mcp_bridge\.bridge: source (?P<q>['"])(?P<name>.*?)(?P=q): (?P<reason>.*)""")
_NOTE = re.compile(r""" WARNING mcp_bridge\.bridge: source (?P<q>['"])(?P<name>.*?)(?P=q), note: (?P<reason>.*)""")
_MODULE_CHECK = re.compile(r"module '(.*)' of '")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCall:
    """A tool to call, and its arguments."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> TrialCall:
        """Parse `TOOL` or `TOOL={"key": "value"}`. Raises ConfigError."""
        tool, equals, json_text = text.partition("=")
        hint = """Use the name of a tool, optionally with arguments: 'add={"a": 1, "b": 2}'"""
        if not tool:
            raise ConfigError("the name of the tool is missing", where="--call", hint=hint)
        try:
            arguments = json.loads(json_text) if equals else {}
        except ValueError as error:
            raise ConfigError(f"the arguments are not JSON: {error}", where="--call", hint=hint) from error
        if not isinstance(arguments, dict):
            problem = f"the arguments are {type(arguments).__name__}, not an object"
            raise ConfigError(problem, where="--call", hint=hint)
        return cls(tool=tool, arguments=arguments)


class CallCheck:
    """Calls one tool, in the first conversation only, because a call may have effects.

    If no call is given, it calls the first read-only tool without required arguments.
    """

    def __init__(self, call: TrialCall | None) -> None:
        self._call = call
        self._is_done = False

    async def __call__(
        self, conversation: Conversation, tools: Sequence[Any], params: dict[str, Any]
    ) -> list[CheckResult]:
        if self._is_done:
            return []
        self._is_done = True
        call = self._call or _find_safe_call(tools)
        if call is None:
            detail = "skipped: no tool is read-only and callable without arguments; choose one with --call TOOL"
            return [CheckResult("call", True, detail)]
        names = [str(tool.get("name")) for tool in tools if isinstance(tool, dict)]
        if call.tool not in names:
            return [CheckResult("call", False, f"there is no tool '{call.tool}'", f"The tools are: {', '.join(names)}")]
        return [await _check_call(conversation, call, params)]


async def check_has_entries(
    conversation: Conversation, tools: Sequence[Any], params: dict[str, Any]
) -> list[CheckResult]:
    """Check that the server has a tool, a resource or a prompt. Raises ServerFault."""
    if tools:
        return []
    for key in ("resources", "prompts"):
        if await list_pages(conversation, f"{key}/list", key, params):
            return []
    advice = "Mark a function with @tool, or add a source to the settings; `mcp-bridge list` shows what is served."
    return [CheckResult("tools", False, "it has no tools, resources or prompts", advice)]


def _find_safe_call(tools: Sequence[Any]) -> TrialCall | None:
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        annotations, schema = tool.get("annotations"), tool.get("inputSchema")
        is_read_only = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
        if is_read_only and isinstance(schema, dict) and not schema.get("required"):
            return TrialCall(tool=str(tool.get("name")))
    return None


async def _check_call(conversation: Conversation, call: TrialCall, params: dict[str, Any]) -> CheckResult:
    check = f"call of '{call.tool}'"
    start = time.monotonic()
    try:
        result = await conversation.request(
            "tools/call", {**params, "name": call.tool, "arguments": dict(call.arguments)}
        )
    except ServerFault as fault:
        return CheckResult(check, False, fault.problem, fault.advice)
    duration = f"after {time.monotonic() - start:.2f} s"
    if result.get("resultType") == "input_required":
        advice = "Doctor does not answer questions: call the tool from a client."
        return CheckResult(check, True, f"it asks the user a question {duration}", advice)
    text = _format_text(result)
    if result.get("isError"):
        advice = "The server works, but the tool fails: check its arguments and what it depends on."
        return CheckResult(check, False, f"it returned an error {duration}: {text}", advice)
    return CheckResult(check, True, f"returned {duration}: {text}")


def _format_text(result: dict[str, Any]) -> str:
    """Return the first text of a result, shortened, or the types of its blocks."""
    content = result.get("content")
    if not isinstance(content, list):
        return "nothing"
    types: list[str] = []
    for block in content:
        if isinstance(block, dict):
            if "text" in block:
                line = " ".join(str(block["text"]).split())
                return repr(line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]}…")
            types.append(str(block.get("type")))
    return ", ".join(types) or "nothing"


async def list_pages(conversation: Conversation, method: str, key: str, params: dict[str, Any]) -> list[Any]:
    """List the items of all pages. Raises ServerFault, for example if the pages do not end."""
    items: list[Any] = []
    cursors: list[Any] = []
    while True:
        page = await conversation.request(method, {**params, "cursor": cursors[-1]} if cursors else params)
        page_items = page.get(key)
        if not isinstance(page_items, list):
            advice = f"A server without {key} returns an empty list."
            raise ServerFault(f"the result of {method} has no list '{key}'", advice)
        items += page_items
        cursor = page.get("nextCursor")
        if cursor is None:
            return items
        if cursor in cursors or len(cursors) >= MAX_PAGES:
            problem = f"repeats the cursor {cursor!r}" if cursor in cursors else f"has more than {MAX_PAGES} pages"
            raise ServerFault(f"{method} {problem}", "Its pages never end, so clients would hang.")
        cursors.append(cursor)


async def check_modules(
    conversation: Conversation, server: dict[str, Any], params: dict[str, Any]
) -> list[CheckResult]:
    """Check the modules of Amplifier sources, and the upstreams, by their status resources.

    `server` is the introduction of the server. Raises ServerFault.
    """
    capabilities = server.get("capabilities")
    if not isinstance(capabilities, dict) or "resources" not in capabilities:
        return []
    results: list[CheckResult] = []
    for resource in await list_pages(conversation, "resources/list", "resources", params):
        uri = str(resource.get("uri")) if isinstance(resource, dict) else ""
        if _STATUS_URI.fullmatch(uri):
            results += _check_status(await conversation.request("resources/read", {**params, "uri": uri}))
        elif uri == STATUS_URI:
            results += await _check_upstreams(conversation, params)
    return results


def _check_status(result: dict[str, Any]) -> Iterator[CheckResult]:
    try:
        status = json.loads(result["contents"][0]["text"])
        source = status["source"]
        modules = status["session"]["modules"]
        problems = status["session"]["problems"]
        module_problems = [f"{module['module']}: {module['problem']}" for module in modules if module["problem"]]
    except (KeyError, IndexError, TypeError, ValueError):
        # There is no session, or another server has a resource with such a URI.
        return
    count = format_count(len(modules) - len({*module_problems}), "module")
    yield CheckResult(f"modules of '{source}'", True, f"{count} of {len(modules)} mounted and ready")
    for problem in dict.fromkeys([*problems, *module_problems]):
        module, _, reason = problem.partition(": ")
        advice = (
            f"Fix it, or remove it from the plan. `mcp-bridge module validate` checks what '{module}' has to provide."
        )
        yield CheckResult(f"module '{module}' of '{source}'", False, reason, advice)


async def _check_upstreams(conversation: Conversation, params: dict[str, Any]) -> list[CheckResult]:
    """Wait until the upstreams of a bridge have started, and return a result for each. Raises ServerFault."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        result = await conversation.request("resources/read", {**params, "uri": STATUS_URI})
        try:
            sources: list[dict[str, Any]] = json.loads(result["contents"][0]["text"])["sources"]
        except (KeyError, IndexError, TypeError, ValueError):
            # Another server has a resource with this URI.
            return []
        rows = [row for row in sources if "server" in row]
        if time.monotonic() > deadline or all(row.get("state") != "starting" for row in rows):
            return [_check_upstream(row) for row in rows]
        await anyio.sleep(INTERVAL)


def _check_upstream(row: dict[str, Any]) -> CheckResult:
    check = f"server '{row['name']}'"
    if row["state"] != "ready":
        advice = "Its tools are missing or not up to date. The other servers are served."
        return CheckResult(check, False, f"{row['state']}: {row['reason']}", advice)
    label = " ".join(filter(None, (row["server"], row["version"])))
    return CheckResult(check, True, ", ".join(filter(None, ("ready", label, format_count(row["tools"], "tool")))))


def find_ended_sources(log: str) -> Iterator[CheckResult]:
    """Find failed sources in the log of a bridge."""
    for match in _ENDED_SOURCE.finditer(log):
        advice = "Its tools are missing, and calls governed by its hooks are denied. See `mcp-bridge validate`."
        yield CheckResult(f"source '{match['name']}'", False, f"it has ended: {match['reason']}", advice)


def find_unpublished(log: str, reported: Iterable[CheckResult] = ()) -> Iterator[CheckResult]:
    """Find unpublished entries in the log of a bridge, except those in the `reported` results.

    `validate` reports the same problems. Reading them in the log avoids loading the tools in this process.
    """
    details = {result.check: result.detail for result in reported}
    reasons: set[str] = set()
    for check, detail in details.items():
        match = _MODULE_CHECK.match(check)
        if match is not None:
            reasons.add(f"{match[1]}: {detail}")
    problems: dict[tuple[str, str], None] = {}
    for line in log.splitlines():
        match = _PROBLEM.search(line)
        if match is not None and not _ENDED_SOURCE.search(line):
            problems[match["name"], match["reason"]] = None
    for name, reason in problems:
        state = details.get(f"server '{name}'", "")
        # The state of a server has been reported already, so problems about it are not repeated.
        repeats_state = bool(state) and (reason.startswith(NOT_CONNECTED) or reason in state)
        if reason in reasons or repeats_state or STILL_STARTING in reason:
            continue
        if "mcp-bridge trust" in reason:
            advice = "Review the change before you accept it. The other tools of the server are served."
        else:
            advice = "It is not published; the rest of the source is. Fix it, or exclude it with `exclude`."
        yield CheckResult(f"source '{name}'", False, reason, advice)


def find_notes(log: str) -> Iterator[CheckResult]:
    """Find notes in the log of a bridge, about changed entries and ignored settings."""
    for match in _NOTE.finditer(log):
        reason = match["reason"]
        if any(note in reason for note in SCREENING_NOTES):
            advice = "It is served with this change. If you do not trust the server, remove it from the settings."
        elif "read" in reason.partition(". ")[0].split():
            advice = "The server is used without it."
        else:
            advice = "The tool is served. What is left out of its schema, only the tool itself checks."
        yield CheckResult(f"source '{match['name']}'", True, reason, advice)


def find_rejections(server: ExaminedServer, name: str, tools: Sequence[Any]) -> list[CheckResult]:
    """Return a result for each rejected tool name or schema, and one for all degraded ones.

    `name` is the server's name in the client: some clients put it before the names of tools.
    """
    from mcp_bridge._protocol.dialects.linting import lint
    from mcp_bridge._protocol.dialects.table import PROFILES

    client, profile = server.client, PROFILES[server.client.name]
    valid = [tool for tool in tools if isinstance(tool, dict)]
    # Reading the dialect in the settings takes long, so it is read only for the few servers with a finding.
    if all(finding.level == "note" for finding in lint(valid, profile, server_name=name)):
        return []
    results: list[CheckResult] = []
    warnings: list[str] = []
    for finding in lint(valid, profile, server_name=name, dialect=_read_dialect(server.launch)):
        if finding.level == "error":
            check = f"tool '{finding.tool}'" if finding.tool else "tools"
            results.append(CheckResult(check, False, f"{finding.path}: {finding.text}", finding.cure))
        elif finding.level == "warning":
            warnings.append(finding.text)
    if warnings:
        detail = f"{client.title} degrades {format_count(len(warnings), 'thing')}, such as: {warnings[0]}"
        results.append(CheckResult("tools", True, detail, f"See `mcp-bridge validate --client {profile.name}`."))
    return results


def _read_dialect(launch: ServerLaunch) -> SchemaDialect:
    """Return the dialect in the settings of a bridge. It has already rewritten the tools, so other fixes are needed."""
    from mcp_bridge._app.factory import build_dialect
    from mcp_bridge._protocol.dialects.dialect import NO_DIALECT
    from mcp_bridge._settings import load

    argument = find_settings_argument(launch.argv) if is_bridge_command(launch.argv) else None
    if argument is None or not is_settings(launch.folder / argument):
        return NO_DIALECT
    try:
        return build_dialect(load(launch.folder / argument, launch.environ))
    except ConfigError:
        return NO_DIALECT
