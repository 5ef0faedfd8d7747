"""`doctor CLIENT`: checks the servers in the files of a client, each started as that client would start it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_bridge._cli.clients import ClientFile, read_client_file
from mcp_bridge._cli.doctor.causes import check_start_time, explain
from mcp_bridge._cli.doctor.checks import CallCheck, TrialCall, check_has_entries, find_rejections
from mcp_bridge._cli.doctor.conversation import StartCommand
from mcp_bridge._cli.doctor.eras import EraOutcome, check_handshake, check_stateless, collect_others
from mcp_bridge._cli.doctor.preflight import ExaminedServer, check_entry
from mcp_bridge._cli.doctor.report import CheckResult, ServerReport, find_secret_values
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop import servers
from mcp_bridge._desktop.client import Client, InstalledServer, Machine
from mcp_bridge._desktop.entries import find_references, parse_entry_command, resolve_launch
from mcp_bridge._desktop.journal import InstallationJournal, InstallationRecord, open_journal
from mcp_bridge._desktop.locations import (
    detect_machine,
    find_place,
    is_client_installed,
    resolve_place_path,
    resolve_server_keys,
)
from mcp_bridge._desktop.table import CLIENTS

MAX_TIMEOUT = 60.0
"""Seconds to wait for a response at most, unless --timeout is given: some clients wait for minutes."""
_FATAL_CHECKS = frozenset({"command", "folder", "settings"})
"""Checks without which a start cannot succeed."""
_DIGITS = re.compile(r"\d")
"""Times and process ids, which differ between two processes with the same error."""


def examine_clients(
    target: str | None, *, scope: str | None, name: str | None, timeout: float | None, call: TrialCall | None
) -> list[ServerReport]:
    """Check the servers of a client, or of every client on this machine if `target` is None.

    The bridges are checked, or the server with the given `name`. Raises ConfigError for an unknown scope.
    """
    machine = detect_machine()
    if target is not None:
        find_place(CLIENTS[target], scope)
    examiner = _Examiner(machine=machine, scope=scope, name=name, timeout=timeout, call=call, journal=open_journal())
    present = [client for client in CLIENTS.values() if _is_present(client, machine)]
    clients = [CLIENTS[target]] if target is not None else present
    return [report for client in clients for report in examiner.examine(client, report_absence=target is not None)]


def check_start(
    installed: InstalledServer, machine: Machine, *, secrets: Sequence[str]
) -> tuple[ServerReport, Sequence[CheckResult]]:
    """Start a server once as its client would, and list what it serves; no tool is called.

    It also gets the variables `secrets` of this machine, which a client may take from elsewhere. The second value is
    what the client rejects or degrades of the tools.
    """
    client, start = CLIENTS[installed.client], resolve_launch(installed, machine)
    environ = {**start.environ, **{name: machine.environ[name] for name in secrets if name in machine.environ}}
    start = replace(start, environ=environ, unresolved=())
    install_command = _format_reinstall(installed, servers.find_settings_argument(start.argv))
    server = ExaminedServer(client=client, launch=start, install_command=install_command)
    results, rejections = check_entry(server), list[CheckResult]()
    if all(result.ok for result in results):
        timeout = min(start.timeout, MAX_TIMEOUT)
        command = StartCommand(argv=start.argv, folder=start.folder, timeout=timeout, environ=environ)
        outcome = check_stateless(command, check_has_entries)
        results += [replace(result, check="start") for result in _explain_eras([outcome], server)]
        results += collect_others([outcome], is_bridge=True)
        rejections = find_rejections(server, installed.name, outcome.tools)
    report = ServerReport(client=client, results=results, name=installed.name, argv=start.argv, folder=start.folder)
    return report.redact(find_secret_values({**machine.environ, **environ}, secrets)), rejections


def _is_present(client: Client, machine: Machine) -> bool:
    """Whether a client is installed, or has a file: that of a project may come from another machine."""
    return is_client_installed(client, machine) or any(
        os.path.isfile(resolve_place_path(place, machine)) for place in client.places
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examiner:
    machine: Machine
    scope: str | None
    name: str | None
    timeout: float | None
    call: TrialCall | None
    journal: InstallationJournal

    def examine(self, client: Client, *, report_absence: bool) -> Iterator[ServerReport]:
        places = [place for place in client.places if self.scope in (None, place.scope)]
        files = [read_client_file(client, place, self.machine) for place in places]
        has_reports, unreadable = False, set[Path]()
        for file in files:
            if file.path in unreadable:  # two scopes may share one file
                continue
            if file.error is not None:
                unreadable.add(file.path)
            for report in self._examine_file(client, file):
                has_reports = True
                yield report
        if report_absence and not has_reports:
            yield self._report_absence(client, files)

    def _examine_file(self, client: Client, file: ClientFile) -> Iterator[ServerReport]:
        if (error := file.error) is not None:
            advice = error.hint or f"{client.title} loads no server from this file until it is fixed."
            detail = str(ConfigError(error.problem, path=error.path, line=error.line, where=error.where))
            results = [CheckResult("file", False, detail, advice)]
            yield ServerReport(client=client, results=results, scope=file.place.scope, path=file.path)
            return
        for server in file.servers:
            is_selected = server.name == self.name if self.name else servers.is_bridge_entry(client, server.value)
            if is_selected:
                yield self._examine_server(client, server)
        for record in self.journal.list_records():
            if self._has_vanished(client, file, record):
                yield _report_vanished(client, file, record)

    def _has_vanished(self, client: Client, file: ClientFile, record: InstallationRecord) -> bool:
        place = (client.name, file.place.scope, file.path, tuple(resolve_server_keys(file.place, self.machine)))
        if (record.client, record.scope, Path(record.path), tuple(record.within)) != place:
            return False
        is_there = any(
            # A server with the same settings and another name has been renamed.
            server.name == record.name or servers.get_served_settings(client, server.value) == record.settings
            for server in file.servers
        )
        return not is_there and self.name in (None, record.name)

    def _examine_server(self, client: Client, installed: InstalledServer) -> ServerReport:
        start = resolve_launch(installed, self.machine)
        server = ExaminedServer(
            client=client,
            launch=start,
            install_command=_format_reinstall(installed, servers.find_settings_argument(start.argv)),
            is_bridge=servers.is_bridge_entry(client, installed.value),
        )
        results, first_response = self._check_server(server, installed.name)
        entry, environ = parse_entry_command(client, installed.value), {**self.machine.environ, **start.environ}
        variables = [*entry.env, *entry.names, *find_references(client, installed.value)]
        return ServerReport(
            client=client,
            results=[
                *_check_enabled(client, installed),
                *results,
                *_check_first_turn(client, installed, first_response),
            ],
            scope=installed.place.scope,
            path=installed.path,
            name=installed.name,
            argv=start.argv,
            folder=start.folder,
            patience=start.timeout,
            first_response=first_response,
        ).redact(find_secret_values(environ, variables))

    def _check_server(self, server: ExaminedServer, name: str) -> tuple[list[CheckResult], float | None]:
        results = check_entry(server)
        if any(not result.ok and result.check in _FATAL_CHECKS for result in results):
            return results, None
        if (unresolved := server.launch.unresolved) and server.client.launch_environment.has_own_secrets:
            detail = f"skipped: it cannot succeed without {', '.join(unresolved)}"
            return [*results, CheckResult("start", True, detail, "Set it in this terminal to check the start.")], None
        outcomes = self._run_eras(server)
        results += _explain_eras(outcomes, server)
        times = (outcome.first_response for outcome in outcomes if outcome.first_response is not None)
        if (first_response := next(times, None)) is not None:
            results.append(check_start_time(first_response, server))
        results += collect_others(outcomes, is_bridge=server.is_bridge)
        tools = next((outcome.tools for outcome in outcomes if outcome.result.ok), ())
        return [*results, *find_rejections(server, name, tools)], first_response

    def _run_eras(self, server: ExaminedServer) -> list[EraOutcome]:
        launched, limit = server.launch, server.launch.timeout
        timeout = self.timeout or min(2 * limit, MAX_TIMEOUT)  # longer than the limit, to measure how long it takes
        start = StartCommand(argv=launched.argv, folder=launched.folder, timeout=timeout, environ=launched.environ)
        check = CallCheck(self.call)
        first = check_stateless(start, check)
        if first.fault is None:
            return [first, check_handshake(start, check)]
        if first.fault.kind == "not started":
            return [first]
        return [first, check_handshake(replace(start, timeout=min(timeout, limit)), check)]

    def _report_absence(self, client: Client, files: Sequence[ClientFile]) -> ServerReport:
        kind = f"server '{self.name}'" if self.name is not None else "bridge"
        names = [server.name for file in files for server in file.servers]
        others = f"; the servers there are: {', '.join(names)}" if names and self.name is not None else ""
        detail = f"no {kind} in {', '.join(str(file.path) for file in files)}{others}"
        absent = "" if is_client_installed(client, self.machine) else f" {client.title} does not seem to be installed."
        results = [CheckResult("entry", False, detail, f"Install one: `{_format_install(client)}`.{absent}")]
        return ServerReport(client=client, results=results)


def _check_enabled(client: Client, server: InstalledServer) -> Iterator[CheckResult]:
    if server.value.get("enabled") is False or server.value.get("disabled") is True:
        detail = f"it is disabled: {client.title} does not start it"
        yield CheckResult("entry", True, detail, f"Enable it in {client.title}, or in its file.")


def _check_first_turn(client: Client, server: InstalledServer, ready: float | None) -> Iterator[CheckResult]:
    """Warn where the client sends its first request before the server is ready."""
    key, limit = client.launch_environment.wait_key, client.launch_environment.first_request
    if key is not None and server.value.get(key) is not True:
        detail = f"{client.title} may send its first request before it has the tools of this server"
        yield CheckResult("first turn", True, detail, f"Set '{key}' to true in the entry, or install it again.")
    if limit is not None and ready is not None:
        detail = f"{client.title} does not wait for servers before its first request, about {limit:g} s after its start"
        slow = "The first request may lack its tools. Look for what delays the start, such as imports in tool files."
        yield CheckResult("first turn", True, detail, slow if ready > limit / 2 else "")


def _explain_eras(outcomes: Sequence[EraOutcome], server: ExaminedServer) -> Iterator[CheckResult]:
    """Explain the outcome of each era. Other servers need to support one era only, and no advice is repeated."""
    previous, any_ok = "", any(outcome.result.ok for outcome in outcomes)
    for outcome in outcomes:
        result = explain(outcome, server)
        if not result.ok and any_ok and not server.is_bridge:
            result = replace(result, ok=True, advice="One era is enough for a client that supports it.")
        elif result.advice and _DIGITS.sub("", result.advice) == previous:
            result = replace(result, advice="The cause is the same.")
        else:
            previous = _DIGITS.sub("", result.advice)
        yield result


def _report_vanished(client: Client, file: ClientFile, record: InstallationRecord) -> ServerReport:
    detail = f"it was installed on {record.when[:10]}, but is no longer in the file"
    is_gone = not file.path.exists()
    reason = "The file was deleted" if is_gone else f"{client.title} or another program has overwritten the file"
    command = _format_install(client, record.settings, record.scope, record.name)
    bundle = " A bundle is not affected by this: mcp-bridge export mcpb." if client.name == "claude-desktop" else ""
    result = CheckResult("entry", False, detail, f"{reason}. Install it again: {command}{bundle}")
    return ServerReport(client=client, results=[result], scope=record.scope, path=file.path, name=record.name)


def _format_reinstall(server: InstalledServer, settings: str | None) -> str:
    is_valid = settings is not None and os.path.isabs(settings) and os.path.exists(settings)
    command = _format_install(CLIENTS[server.client], settings if is_valid else None, server.place.scope, server.name)
    return command if is_valid else f"{command} --force"  # another file takes the place of the entry's


def _format_install(
    client: Client, settings: str | None = None, scope: str | None = None, name: str | None = None
) -> str:
    scope_option = ["--scope", scope] if scope is not None and scope != client.places[0].scope else []
    name_option = ["--name", name] if name is not None else []
    return shlex.join(["mcp-bridge", "install", client.name, settings or "FILE", *scope_option, *name_option])
