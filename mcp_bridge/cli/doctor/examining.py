"""`doctor CLIENT`: starts what stands in a client's files just as that client would, and says what is wrong with it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_bridge.cli.doctor import causes, eras
from mcp_bridge.cli.doctor.findings import Finding
from mcp_bridge.cli.doctor.preflight import Subject, preflight
from mcp_bridge.cli.doctor.rejections import rejections
from mcp_bridge.cli.doctor.reports import Report, as_data, secrets_of, show
from mcp_bridge.cli.doctor.trial import Trial, Wanted
from mcp_bridge.cli.doctor.wishes import EVERYWHERE, Wishes
from mcp_bridge.cli.exits import Exit
from mcp_bridge.cli.installing import journal
from mcp_bridge.cli.showing import data
from mcp_bridge.clients import reading
from mcp_bridge.clients.client import Client, Installed, Machine, Place
from mcp_bridge.clients.journal import Journal, Record
from mcp_bridge.clients.locating import found, here, path_of, place_of, within
from mcp_bridge.clients.shaping import launch, references, started
from mcp_bridge.clients.table import CLIENTS
from mcp_bridge.contracts.errors import ConfigError

LONGEST = 60.0
"""Seconds that an answer is waited for where nothing else is said: some clients wait for minutes."""
_FATAL = frozenset({"command", "folder", "settings"})
"""Checks without which a start is not worth while."""
_DIGITS = re.compile(r"\d")
"""Times and numbers of processes, in what two of them say alike."""


def examine(target: str, wishes: Wishes, call: Wanted | None) -> Exit:
    """Check the bridges of a client, or of all that are here. Raises ConfigError where there is nothing to look at."""
    machine = here()
    if target != EVERYWHERE:
        place_of(CLIENTS[target], wishes.scope)
    clients = [
        one for one in CLIENTS.values() if target == one.name or (target == EVERYWHERE and _is_here(one, machine))
    ]
    examiner = _Examiner(machine=machine, wishes=wishes, call=call, journal=journal())
    reports = [report for client in clients for report in examiner.reports(client, alone=target != EVERYWHERE)]
    if not reports:
        if wishes.as_json:
            data(as_data(reports))
        hint = "Put one in: mcp-bridge install CLIENT"
        raise ConfigError("no client on this machine has a bridge in its files", where="doctor all", hint=hint)
    if wishes.as_json:
        data(as_data(reports))
    else:
        for report in reports:
            show(report)
    return Exit.OK if all(report.ok for report in reports) else Exit.FAILED


def _is_here(client: Client, machine: Machine) -> bool:
    """Whether a client is on this machine, or has a file here: a project's may have come with it."""
    return found(client, machine) or any(os.path.isfile(path_of(place, machine)) for place in client.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examiner:
    """One look at clients, on one machine."""

    machine: Machine
    wishes: Wishes
    call: Wanted | None
    journal: Journal

    def reports(self, client: Client, *, alone: bool) -> Iterator[Report]:
        """A report for each server, each file that cannot be read and each server that has vanished; where there is
        none of these and the client is looked at `alone`, one that says so."""
        seen = [self._file(client, place) for place in client.places if self.wishes.scope in (None, place.scope)]
        told, broken = False, set[Path]()
        for file in seen:
            if file.path in broken:  # two scopes in one file
                continue
            if file.error is not None:
                broken.add(file.path)
            for report in self._of_file(client, file):
                told = True
                yield report
        if alone and not told:
            yield self._nothing(client, seen)

    def _file(self, client: Client, place: Place) -> _File:
        path = path_of(place, self.machine)
        try:
            return _File(place=place, path=path, servers=reading.of_place(client, place, self.machine))
        except ConfigError as error:
            return _File(place=place, path=path, error=error)

    def _of_file(self, client: Client, file: _File) -> Iterator[Report]:
        if file.error is not None:
            advice = file.error.hint or f"{client.title} reads none of its servers from such a file: mend it."
            finding = Finding("file", False, _without_hint(file.error), advice)
            yield Report(client=client, findings=[finding], scope=file.place.scope, path=file.path)
            return
        for server in file.servers:
            if self._is_wanted(client, server):
                yield self._report(client, server)
        for record in self.journal.all():
            if self._has_vanished(client, file, record):
                yield _vanished(client, file, record)

    def _is_wanted(self, client: Client, server: Installed) -> bool:
        name = self.wishes.name
        return server.name == name if name is not None else reading.is_bridge(client, server.value)

    def _has_vanished(self, client: Client, file: _File, record: Record) -> bool:
        place = (client.name, file.place.scope, file.path, tuple(within(file.place, self.machine)))
        if (record.client, record.scope, Path(record.path), tuple(record.within)) != place:
            return False
        # What serves the same under another name was renamed there.
        there = any(
            server.name == record.name or reading.served(client, server.value) == record.settings
            for server in file.servers
        )
        return not there and self.wishes.name in (None, record.name)

    def _report(self, client: Client, server: Installed) -> Report:
        start = launch(server, self.machine)
        ours = reading.is_bridge(client, server.value)
        subject = Subject(client=client, launch=start, again=_again(server, reading.settings_of(start.argv)), ours=ours)
        findings, first = self._examined(subject, server.name)
        says, has = started(client, server.value), {**self.machine.environ, **start.environ}
        return Report(
            client=client,
            findings=[*_switched_off(client, server), *findings],
            scope=server.place.scope,
            path=server.path,
            name=server.name,
            argv=start.argv,
            folder=start.folder,
            patience=start.patience,
            first_answer=first,
        ).without(secrets_of(has, [*says.env, *says.names, *references(client, server.value)]))

    def _examined(self, subject: Subject, name: str) -> tuple[list[Finding], float | None]:
        before = preflight(subject)
        if any(not one.ok and one.check in _FATAL for one in before):
            return before, None
        if (hidden := subject.launch.unresolved) and subject.client.surroundings.keeps_secrets:
            return [*before, _not_tried(hidden)], None
        talks = self._talks(subject)
        spoken = any(heard.finding.ok for heard in talks)
        findings = [*before, *_of_eras(talks, subject, spoken=spoken)]
        if (start := causes.started(talks, subject)) is not None:
            findings.append(start)
        findings += eras.beside(talks, ours=subject.ours)
        tools = next((heard.tools for heard in talks if heard.finding.ok), ())
        findings += rejections(subject, name, tools)
        return findings, next((heard.first_answer for heard in talks if heard.first_answer is not None), None)

    def _talks(self, subject: Subject) -> list[eras.Heard]:
        """The talk of each era; none after one whose process could not even be started."""
        limit = subject.launch.patience
        patience = self.wishes.patience or min(2 * limit, LONGEST)  # longer than the limit, to say how long it takes
        start = eras.Start(
            argv=subject.launch.argv, folder=subject.launch.folder, patience=patience, environ=subject.launch.environ
        )
        trial = Trial(self.call)
        talks = [eras.stateless(start, trial)]
        fault = talks[0].fault
        if fault is None or fault.kind != "not started":
            # One that was silent for longer than it may be is not given as long again.
            shorter = replace(start, patience=min(patience, limit)) if fault is not None else start
            talks.append(eras.handshake(shorter, trial))
        return talks

    def _nothing(self, client: Client, seen: Sequence[_File]) -> Report:
        what = f"server '{self.wishes.name}'" if self.wishes.name is not None else "bridge"
        names = [server.name for file in seen for server in file.servers]
        has = f"; it has: {', '.join(names)}" if names and self.wishes.name is not None else ""
        detail = f"no {what} in {', '.join(str(file.path) for file in seen)}{has}"
        absent = "" if found(client, self.machine) else f" {client.title} itself is not on this machine, as it seems."
        return Report(
            client=client, findings=[Finding("entry", False, detail, f"Put one in: {_install(client)}{absent}")]
        )


def _not_tried(names: Sequence[str]) -> Finding:
    what = f"not tried: without {', '.join(names)} it could not go well"
    return Finding("start", True, what, "Set it in this terminal to have it tried.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file of a client as it stands there, or why it cannot be read."""

    place: Place
    path: Path
    servers: Sequence[Installed] = ()
    error: ConfigError | None = None


def _switched_off(client: Client, server: Installed) -> Iterator[Finding]:
    if server.value.get("enabled") is False or server.value.get("disabled") is True:
        detail = f"it is switched off: {client.title} does not start it"
        yield Finding("entry", True, detail, f"Switch it on in {client.title}, or in its file.")


def _of_eras(talks: Sequence[eras.Heard], subject: Subject, *, spoken: bool) -> Iterator[Finding]:
    """A finding for each era; a stranger may speak one alone, and what is said twice is said once."""
    before = ""
    for heard in talks:
        finding = causes.explained(heard, subject)
        if not finding.ok and spoken and not subject.ours:
            finding = replace(finding, ok=True, advice="One era is enough for a client that speaks it.")
        elif finding.advice and _DIGITS.sub("", finding.advice) == before:
            finding = replace(finding, advice="The cause is the same.")
        else:
            before = _DIGITS.sub("", finding.advice)
        yield finding


def _without_hint(error: ConfigError) -> str:
    return str(ConfigError(error.problem, path=error.path, line=error.line, where=error.where))


def _vanished(client: Client, file: _File, record: Record) -> Report:
    detail = f"it was put in on {record.when[:10]}, and the file no longer has it"
    who = f"{client.title} or another program has written the file anew" if file.path.exists() else "The file is gone"
    again = _install(client, record.settings, record.scope, record.name)
    lasts = " What lasts is a bundle: mcp-bridge export mcpb." if client.name == "claude-desktop" else ""
    finding = Finding("entry", False, detail, f"{who}. Put it back: {again}{lasts}")
    return Report(client=client, findings=[finding], scope=record.scope, path=file.path, name=record.name)


def _again(server: Installed, settings: str | None) -> str:
    there = settings is not None and os.path.isabs(settings) and os.path.exists(settings)
    return _install(CLIENTS[server.client], settings if there else None, server.place.scope, server.name)


def _install(client: Client, settings: str | None = None, scope: str | None = None, name: str | None = None) -> str:
    """The command that puts a bridge in; `SETTINGS` stands where it is not known what is to be served."""
    scoped = ["--scope", scope] if scope is not None and scope != client.places[0].scope else []
    named = ["--name", name] if name is not None else []
    return shlex.join(["mcp-bridge", "install", client.name, settings or "SETTINGS", *scoped, *named])
