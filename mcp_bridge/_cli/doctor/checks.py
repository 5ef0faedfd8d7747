"""Checks of a server that runs: one call, its Amplifier modules, its log, and what a client rejects of its tools."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_bridge._app.status import STATUS_URI
from mcp_bridge._cli.doctor.conversation import Conversation, ServerFault
from mcp_bridge._cli.doctor.preflight import ExaminedServer
from mcp_bridge._cli.doctor.report import CheckResult
from mcp_bridge._cli.doctor.server_states import NOT_CONNECTED, check_servers
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
MAX_TEXT = 200
"""Characters of a result's text that are shown."""
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
        tool, equals, given = text.partition("=")
        hint = """Use the name of a tool, optionally with arguments: 'add={"a": 1, "b": 2}'"""
        if not tool:
            raise ConfigError("the name of the tool is missing", where="--call", hint=hint)
        try:
            arguments = json.loads(given) if equals else {}
        except ValueError as error:
            raise ConfigError(f"the arguments are not JSON: {error}", where="--call", hint=hint) from error
        if not isinstance(arguments, dict):
            problem = f"the arguments are {type(arguments).__name__}, not an object"
            raise ConfigError(problem, where="--call", hint=hint)
        return cls(tool=tool, arguments=arguments)


class CallCheck:
    """Calls one tool, in the first conversation alone: a call may have effects.

    Without a given call, it calls the first tool that is read-only and has no required arguments.
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
        if call.tool not in (names := [str(tool.get("name")) for tool in tools if isinstance(tool, dict)]):
            return [CheckResult("call", False, f"there is no tool '{call.tool}'", f"The tools are: {', '.join(names)}")]
        return [await _check_call(conversation, call, params)]


async def check_has_entries(
    conversation: Conversation, tools: Sequence[Any], params: dict[str, Any]
) -> list[CheckResult]:
    """Check that the server has a tool, a resource or a prompt. Raises ServerFault."""
    if tools:
        return []
    for kind in ("resources", "prompts"):
        if await list_pages(conversation, f"{kind}/list", kind, params):
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
    check, began = f"call of '{call.tool}'", time.monotonic()
    try:
        result = await conversation.request(
            "tools/call", {**params, "name": call.tool, "arguments": dict(call.arguments)}
        )
    except ServerFault as fault:
        return CheckResult(check, False, fault.problem, fault.advice)
    duration = f"after {time.monotonic() - began:.2f} s"
    if result.get("resultType") == "input_required":
        advice = "Doctor does not answer questions: call the tool from a client."
        return CheckResult(check, True, f"it asks the user a question {duration}", advice)
    text = _format_text(result)
    if result.get("isError"):
        advice = "The server works, but the tool fails: check its arguments and what it depends on."
        return CheckResult(check, False, f"it returned an error {duration}: {text}", advice)
    return CheckResult(check, True, f"returned {duration}: {text}")


def _format_text(result: dict[str, Any]) -> str:
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    text = next((str(block["text"]) for block in blocks if "text" in block), None)
    if text is None:
        return ", ".join(str(block.get("type")) for block in blocks) or "nothing"
    line = " ".join(text.split())
    return repr(line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]}…")


async def list_pages(conversation: Conversation, method: str, kind: str, params: dict[str, Any]) -> list[Any]:
    """List the items of all pages. Raises ServerFault, including if the pages do not end."""
    items: list[Any] = []
    cursors: list[Any] = [None]
    while True:
        page = await conversation.request(method, {**params, "cursor": cursors[-1]} if cursors[-1] else params)
        if not isinstance(page_items := page.get(kind), list):
            advice = f"A server without {kind} returns an empty list."
            raise ServerFault(f"the result of {method} has no list '{kind}'", advice)
        items += page_items
        cursor = page.get("nextCursor")
        if cursor is None:
            return items
        if cursor in cursors or len(cursors) > MAX_PAGES:
            problem = f"repeats the cursor {cursor!r}" if cursor in cursors else f"has more than {MAX_PAGES} pages"
            raise ServerFault(f"{method} {problem}", "Its pages never end, so clients would hang.")
        cursors.append(cursor)


async def check_modules(
    conversation: Conversation, server: dict[str, Any], params: dict[str, Any]
) -> list[CheckResult]:
    """Check the modules of Amplifier sources by their status resources; `server` is the server's introduction.

    Raises ServerFault.
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
            results += await check_servers(conversation, params)
    return results


def _check_status(result: dict[str, Any]) -> Iterator[CheckResult]:
    try:
        status = json.loads(result["contents"][0]["text"])
        source, modules, problems = status["source"], status["session"]["modules"], status["session"]["problems"]
        failed = dict.fromkeys(f"{module['module']}: {module['problem']}" for module in modules if module["problem"])
    except (KeyError, IndexError, TypeError, ValueError):
        return  # there is no session, or the resource is not ours
    mounted = format_count(len(modules) - len(failed), "module")
    yield CheckResult(f"modules of '{source}'", True, f"{mounted} of {len(modules)} mounted and ready")
    for problem in dict.fromkeys([*problems, *failed]):
        module, _, reason = problem.partition(": ")
        advice = (
            f"Fix it, or remove it from the plan. `mcp-bridge module validate` checks what '{module}' has to provide."
        )
        yield CheckResult(f"module '{module}' of '{source}'", False, reason, advice)


def find_ended_sources(log: str) -> Iterator[CheckResult]:
    for line in log.splitlines():
        if (match := _ENDED_SOURCE.search(line)) is not None:
            advice = "Its tools are missing, and calls governed by its hooks are denied. See `mcp-bridge validate`."
            yield CheckResult(f"source '{match['name']}'", False, f"it has ended: {match['reason']}", advice)


def find_unpublished(log: str, known: Iterable[CheckResult] = ()) -> Iterator[CheckResult]:
    """Find what is not published, according to the log of a bridge, except the `known` problems of modules.

    `validate` reports the same problems. Reading them in the log avoids loading the tools in this process.
    """
    reported = {f"{match[1]}: {result.detail}" for result in known if (match := _MODULE_CHECK.match(result.check))}
    lines = [line for line in log.splitlines() if not _ENDED_SOURCE.search(line)]
    matches = [match for line in lines if (match := _PROBLEM.search(line))]
    states = {result.check: result.detail for result in known}
    matches = [
        match for match in matches if not _is_state(match["reason"], states.get(f"server '{match['name']}'", ""))
    ]
    for name, reason in dict.fromkeys((match["name"], match["reason"]) for match in matches):
        if reason not in reported:
            if "mcp-bridge trust" in reason:  # the reason names the command
                advice = "Review the change before you accept it. The other tools of the server are served."
            else:
                advice = "It is not published; the rest of the source is. Fix it, or exclude it with `exclude`."
            yield CheckResult(f"source '{name}'", False, reason, advice)


def find_notes(log: str) -> Iterator[CheckResult]:
    """Find what is published with a change, and settings that are not read, according to the log of a bridge."""
    for line in log.splitlines():
        if (match := _NOTE.search(line)) is None:
            continue
        reason = match["reason"]
        if any(note in reason for note in SCREENING_NOTES):
            advice = "It is served with this change. If you do not trust the server, remove it from the settings."
        elif "read" in reason.partition(". ")[0].split():
            advice = "The server is used without it."
        else:
            advice = "The tool is served. What is left out of its schema, only the tool itself checks."
        yield CheckResult(f"source '{match['name']}'", True, reason, advice)


def _is_state(reason: str, detail: str) -> bool:
    """Whether a problem in the log only repeats why a server is unavailable, or was."""
    if STILL_STARTING in reason:
        return True
    return bool(detail) and (reason.startswith(NOT_CONNECTED) or reason in detail)


def find_rejections(server: ExaminedServer, name: str, tools: Sequence[Any]) -> list[CheckResult]:
    """Return a result for each tool name or schema that the client rejects, and one for all that it degrades.

    `name` is the server's name in the client: some clients put it before the names of tools.
    """
    from mcp_bridge._protocol.dialects.linting import lint
    from mcp_bridge._protocol.dialects.table import PROFILES

    client, profile = server.client, PROFILES[server.client.name]
    valid = [tool for tool in tools if isinstance(tool, dict)]
    if not any(finding.level != "note" for finding in lint(valid, profile, server_name=name)):
        return []
    findings = lint(valid, profile, server_name=name, dialect=_read_dialect(server.launch))
    results = [
        CheckResult(
            f"tool '{finding.tool}'" if finding.tool else "tools",
            False,
            f"{finding.path}: {finding.text}",
            finding.cure,
        )
        for finding in findings
        if finding.level == "error"
    ]
    warnings = [finding for finding in findings if finding.level == "warning"]
    if warnings:
        detail = f"{client.title} degrades {format_count(len(warnings), 'thing')}, such as: {warnings[0].text}"
        results.append(CheckResult("tools", True, detail, f"See `mcp-bridge validate --client {profile.name}`."))
    return results


def _read_dialect(launch: ServerLaunch) -> SchemaDialect:
    """Read the dialect in the settings: the tools are already rewritten by it, so other fixes are needed."""
    from mcp_bridge._app.factory import build_dialect
    from mcp_bridge._protocol.dialects.dialect import NO_DIALECT
    from mcp_bridge._settings import load

    written = find_settings_argument(launch.argv) if is_bridge_command(launch.argv) else None
    path = launch.folder / written if written is not None else None
    if path is None or not is_settings(path):
        return NO_DIALECT
    try:
        return build_dialect(load(path, launch.environ))
    except ConfigError:
        return NO_DIALECT
