"""`doctor CLIENT`: checks the servers in the files of a client, and starts each as the client would."""

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
from mcp_bridge._cli.doctor.confinement import check_confinements
from mcp_bridge._cli.doctor.conversation import StartCommand
from mcp_bridge._cli.doctor.eras import EraOutcome, check_handshake, check_stateless, collect_checks
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
"""The maximum number of seconds to wait for a response, unless --timeout is given. Some clients wait for minutes."""
_FATAL_CHECKS = frozenset({"command", "folder", "settings"})
"""If one of these checks fails, the server cannot start."""
_DIGITS = re.compile(r"\d")
"""Digits of times and process ids, which differ between two processes with the same error."""


def examine_clients(
    target: str | None, *, scope: str | None, name: str | None, timeout: float | None, call: TrialCall | None
) -> list[ServerReport]:
    """Check the servers of a client, or of every client on this machine if `target` is None.

    The bridges are checked, or the server with the given `name`. Raises ConfigError for an unknown scope.
    """
    machine = detect_machine()
    examiner = _Examiner(machine=machine, scope=scope, name=name, timeout=timeout, call=call, journal=open_journal())
    if target is not None:
        find_place(CLIENTS[target], scope)
        return list(examiner.examine(CLIENTS[target], report_absence=True))
    reports: list[ServerReport] = []
    for client in CLIENTS.values():
        # A project may have files for clients of other machines.
        has_file = any(os.path.isfile(resolve_place_path(place, machine)) for place in client.places)
        if has_file or is_client_installed(client, machine):
            reports += examiner.examine(client, report_absence=False)
    return reports


def check_start(
    server: InstalledServer, machine: Machine, *, secrets: Sequence[str]
) -> tuple[ServerReport, Sequence[CheckResult]]:
    """Start a server once as its client would, and check what it serves. No tool is called.

    The server also gets the variables `secrets` of this machine, because the client may have them from elsewhere.

    Returns the report, and a result for each tool rejected or degraded by the client.
    """
    client = CLIENTS[server.client]
    launch = resolve_launch(server, machine)
    environ = {**launch.environ, **{name: machine.environ[name] for name in secrets if name in machine.environ}}
    launch = replace(launch, environ=environ, unresolved=())
    install_command = _format_reinstall(server, servers.find_settings_argument(launch.argv))
    examined = ExaminedServer(client=client, launch=launch, install_command=install_command)
    results = check_entry(examined)
    rejections: list[CheckResult] = []
    if all(result.ok for result in results):
        timeout = min(launch.timeout, MAX_TIMEOUT)
        start = StartCommand(argv=launch.argv, folder=launch.folder, timeout=timeout, environ=environ)
        outcome = check_stateless(start, check_has_entries)
        results += [replace(result, check="start") for result in _explain_eras([outcome], examined)]
        results += collect_checks([outcome], is_bridge=True)
        rejections = find_rejections(examined, server.name, outcome.tools)
    report = ServerReport(client=client, results=results, name=server.name, argv=launch.argv, folder=launch.folder)
    return report.redact(find_secret_values({**machine.environ, **environ}, secrets)), rejections


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examiner:
    """Checks the servers of clients on a machine, with the options of the command."""

    machine: Machine
    scope: str | None
    name: str | None
    timeout: float | None
    call: TrialCall | None
    journal: InstallationJournal

    def examine(self, client: Client, *, report_absence: bool) -> Iterator[ServerReport]:
        """Yield a report for each server of a client; with `report_absence`, one if there is no server."""
        places = [place for place in client.places if self.scope in (None, place.scope)]
        files = [read_client_file(client, place, self.machine) for place in places]
        has_reports = False
        unreadable: set[Path] = set()
        for file in files:
            # Two scopes may share one file, whose error is reported once.
            if file.path in unreadable:
                continue
            if file.error is not None:
                unreadable.add(file.path)
            for report in self._examine_file(client, file):
                has_reports = True
                yield report
        if report_absence and not has_reports:
            yield self._report_absence(client, files)

    def _examine_file(self, client: Client, file: ClientFile) -> Iterator[ServerReport]:
        """Yield a report for each server in a file and each vanished one, or for the unreadable file."""
        error = file.error
        if error is not None:
            advice = error.hint or f"{client.title} loads no server from this file until it is fixed."
            detail = str(ConfigError(error.problem, path=error.path, line=error.line, where=error.where))
            results = [CheckResult("file", False, detail, advice)]
            yield ServerReport(client=client, results=results, scope=file.place.scope, path=file.path)
            return
        for server in file.servers:
            if self.name:
                is_selected = server.name == self.name
            else:
                is_selected = servers.is_bridge_entry(client, server.value)
            if is_selected:
                yield self._examine_server(client, server)
        names = {server.name for server in file.servers}
        settings = [servers.get_served_settings(client, server.value) for server in file.servers]
        keys = tuple(resolve_server_keys(file.place, self.machine))
        container = (client.name, file.place.scope, file.path, keys)
        for record in self.journal.list_records():
            if (record.client, record.scope, Path(record.path), tuple(record.within)) != container:
                continue
            # If a server with another name has the same settings, the user has renamed it.
            is_there = record.name in names or record.settings in settings
            if not is_there and self.name in (None, record.name):
                yield _report_vanished(client, file, record)

    def _examine_server(self, client: Client, server: InstalledServer) -> ServerReport:
        launch = resolve_launch(server, self.machine)
        examined = ExaminedServer(
            client=client,
            launch=launch,
            install_command=_format_reinstall(server, servers.find_settings_argument(launch.argv)),
            is_bridge=servers.is_bridge_entry(client, server.value),
        )
        results: list[CheckResult] = []
        if server.value.get("enabled") is False or server.value.get("disabled") is True:
            detail = f"it is disabled: {client.title} does not start it"
            results.append(CheckResult("entry", True, detail, f"Enable it in {client.title}, or in its file."))
        server_results, first_response = self._check_server(examined, server.name)
        results += server_results
        results += _check_first_turn(client, server, first_response)
        entry = parse_entry_command(client, server.value)
        environ = {**self.machine.environ, **launch.environ}
        variables = [*entry.env, *entry.names, *find_references(client, server.value)]
        return ServerReport(
            client=client,
            results=results,
            scope=server.place.scope,
            path=server.path,
            name=server.name,
            argv=launch.argv,
            folder=launch.folder,
            timeout=launch.timeout,
            first_response=first_response,
        ).redact(find_secret_values(environ, variables))

    def _check_server(self, server: ExaminedServer, name: str) -> tuple[list[CheckResult], float | None]:
        """Check the entry, and if it can be started, the server in both eras.

        Returns the results, and the seconds until the first response.
        """
        launch = server.launch
        client = server.client
        results = check_entry(server)
        if any(not result.ok and result.check in _FATAL_CHECKS for result in results):
            return results, None
        if launch.unresolved and client.launch_environment.has_own_secrets:
            detail = f"skipped: it cannot succeed without {', '.join(launch.unresolved)}"
            return [*results, CheckResult("start", True, detail, "Set it in this terminal to check the start.")], None
        # This is longer than the timeout of the client, to measure how long a server takes that is too slow.
        timeout = self.timeout or min(2 * launch.timeout, MAX_TIMEOUT)
        start = StartCommand(argv=launch.argv, folder=launch.folder, timeout=timeout, environ=launch.environ)
        check = CallCheck(self.call)
        outcomes = [check_stateless(start, check)]
        fault = outcomes[0].fault
        if fault is None:
            outcomes.append(check_handshake(start, check))
        elif fault.kind != "not started":
            outcomes.append(check_handshake(replace(start, timeout=min(timeout, launch.timeout)), check))
        results += _explain_eras(outcomes, server)
        times = [outcome.first_response for outcome in outcomes if outcome.first_response is not None]
        if times:
            results.append(check_start_time(times[0], server))
        results += collect_checks(outcomes, is_bridge=server.is_bridge)
        settings = servers.find_settings_argument(launch.argv)
        if server.is_bridge and settings is not None:
            results += check_confinements(launch.folder / settings, launch.environ)
        tools = next((outcome.tools for outcome in outcomes if outcome.result.ok), ())
        results += find_rejections(server, name, tools)
        return results, times[0] if times else None

    def _report_absence(self, client: Client, files: Sequence[ClientFile]) -> ServerReport:
        detail = f"no bridge in {', '.join(str(file.path) for file in files)}"
        if self.name is not None:
            detail = detail.replace("no bridge", f"no server '{self.name}'", 1)
            names: list[str] = []
            for file in files:
                names += [server.name for server in file.servers]
            if names:
                detail += f"; the servers there are: {', '.join(names)}"
        advice = f"Install one: `{_format_install(client)}`."
        if not is_client_installed(client, self.machine):
            advice += f" {client.title} does not seem to be installed."
        return ServerReport(client=client, results=[CheckResult("entry", False, detail, advice)])


def _check_first_turn(client: Client, server: InstalledServer, ready: float | None) -> Iterator[CheckResult]:
    """Warn if the client may send its first request to the model before the server is ready."""
    key = client.launch_environment.early_tools_key
    limit = client.launch_environment.first_request
    if key is not None and server.value.get(key) is not True:
        detail = f"{client.title} may send its first request before it has the tools of this server"
        yield CheckResult("first turn", True, detail, f"Set '{key}' to true in the entry, or install it again.")
    if limit is not None and ready is not None:
        detail = f"{client.title} does not wait for servers before its first request, about {limit:g} s after its start"
        slow = "The first request may lack its tools. Look for what delays the start, such as imports in tool files."
        yield CheckResult("first turn", True, detail, slow if ready > limit / 2 else "")


def _explain_eras(outcomes: Sequence[EraOutcome], server: ExaminedServer) -> Iterator[CheckResult]:
    """Yield the explained result of each era, without repeating advice.

    Servers other than bridges need to support only one era.
    """
    previous = ""
    any_ok = any(outcome.result.ok for outcome in outcomes)
    for outcome in outcomes:
        result = explain(outcome, server)
        advice = _DIGITS.sub("", result.advice)
        if not result.ok and any_ok and not server.is_bridge:
            result = replace(result, ok=True, advice="One era is enough for a client that supports it.")
        elif advice and advice == previous:
            result = replace(result, advice="The cause is the same.")
        else:
            previous = advice
        yield result


def _report_vanished(client: Client, file: ClientFile, record: InstallationRecord) -> ServerReport:
    detail = f"it was installed on {record.when[:10]}, but is no longer in the file"
    reason = f"{client.title} or another program has overwritten the file"
    if not file.path.exists():
        reason = "The file was deleted"
    command = _format_install(client, record.settings, record.scope, record.name)
    if client.name == "claude-desktop":
        reason += ", which does not affect a bundle (mcp-bridge export mcpb)"
    advice = f"{reason}. Install it again: {command}"
    result = CheckResult("entry", False, detail, advice)
    return ServerReport(client=client, results=[result], scope=record.scope, path=file.path, name=record.name)


def _format_reinstall(server: InstalledServer, settings: str | None) -> str:
    is_valid = settings is not None and os.path.isabs(settings) and os.path.exists(settings)
    command = _format_install(CLIENTS[server.client], settings if is_valid else None, server.place.scope, server.name)
    # The user has to choose another file, so the entry of the same name has to be replaced.
    return command if is_valid else f"{command} --force"


def _format_install(
    client: Client, settings: str | None = None, scope: str | None = None, name: str | None = None
) -> str:
    words = ["mcp-bridge", "install", client.name, settings or "FILE"]
    if scope is not None and scope != client.places[0].scope:
        words += ["--scope", scope]
    if name is not None:
        words += ["--name", name]
    return shlex.join(words)
