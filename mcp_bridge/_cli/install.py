"""`install`: adds the server to an MCP client, or shows the change."""

from __future__ import annotations

import itertools
import os
import random
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from mcp_bridge._app.server_name import to_server_name
from mcp_bridge._cli.clients import find_client, list_clients
from mcp_bridge._cli.desktop_options import InstallOptions
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.output import report, write_json
from mcp_bridge._cli.target import ServedFile, check_file, find_file
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop import installation
from mcp_bridge._desktop.client import Client, ConfigPlace, InstalledServer, Machine, ServerEntry
from mcp_bridge._desktop.entries import build_entry_value, can_reference_variables, format_reference
from mcp_bridge._desktop.entry_display import render_entry_diff
from mcp_bridge._desktop.installation import InstallationPlan, InstallationResult
from mcp_bridge._desktop.journal import InstallationJournal, open_journal
from mcp_bridge._desktop.locations import (
    detect_machine,
    find_place,
    is_client_installed,
    resolve_place_path,
    resolve_server_keys,
)
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._settings.documents.syntax import FileChanged, UnsafeEdit
from mcp_bridge._version import DISTRIBUTION

T = TypeVar("T")

ATTEMPTS = 6
"""The maximum number of attempts to edit a file while other programs write it."""
PAUSE = (0.02, 0.2)
"""The shortest and the longest pause between two attempts, in seconds."""
_ACTIONS = {
    "install": ("installed", "would install"),
    "update": ("updated", "would update"),
    "replace": ("replaced", "would replace"),
    "none": ("already installed", "already installed"),
}
"""The report of each action, and that of a dry run."""
_URL = re.compile(r"https?://", re.IGNORECASE)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TEMPORARY_FOLDERS = (("uv", "archive-v0"), ("uv", "builds-v0"), (".cache", "uv"))
"""Pairs of adjacent path segments that occur only in temporary environments of uvx."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallRequest:
    """A request to install a server: its entry, the place in the files of the client, and the options."""

    client: Client
    place: ConfigPlace
    entry: ServerEntry
    source: str
    """The absolute path of the file that is served, or the URL."""
    notes: Sequence[str]
    machine: Machine
    options: InstallOptions

    @property
    def path(self) -> Path:
        return resolve_place_path(self.place, self.machine)

    @property
    def location(self) -> str:
        return f"{self.client.title} ({self.place.scope}), {self.path}"

    @property
    def json_base(self) -> dict[str, Any]:
        """The beginning of every JSON result."""
        return {"client": self.client.name, "scope": self.place.scope, "path": str(self.path), "name": self.entry.name}

    def format_snippet(self) -> str:
        from mcp_bridge._desktop.exports import format_snippet

        value = build_entry_value(self.client, self.entry)
        return format_snippet(self.place, self.entry, value, self.machine)


def install_server(options: InstallOptions) -> None:
    """Install a server in a client, or list the clients if none is given.

    Exit with 1 if the client's file cannot be changed. Raises ConfigError.
    """
    if options.client is None:
        if replace(options, as_json=False) != InstallOptions():
            hint = "Pass the name of a client. `mcp-bridge install` alone lists the clients."
            raise ConfigError("no client was given", where="CLIENT", hint=hint)
        list_clients(as_json=options.as_json)
        return
    client = find_client(options.client)
    switches = {"--print": options.only_print, "--link": options.link, "--dry-run": options.dry_run}
    names = [name for name, is_used in switches.items() if is_used]
    if len(names) > 1:
        raise ConfigError(f"cannot be used with {' and '.join(names[1:])}", where=names[0], hint="Choose one.")
    place = find_place(client, options.scope)
    if options.file is not None and _URL.match(options.file):
        entry = _build_remote_entry(options, options.file)
        source = options.file
        notes = ["the server at the URL was not contacted"]
    else:
        path = Path(options.file) if options.file is not None else None
        entry, file = build_entry(path, options.name, shared=options.shared)
        entry = _add_variables(entry, options)
        source = str(file.path)
        notes = [*file.notes]
    machine = detect_machine()
    request = InstallRequest(
        client=client, place=place, entry=entry, source=source, notes=notes, machine=machine, options=options
    )
    if options.link:
        _show_link(request)
    elif options.only_print:
        _show_snippet(request)
    else:
        _install(request)


def build_entry(file: Path | None, name: str | None, *, shared: bool = False) -> tuple[ServerEntry, ServedFile]:
    """Build the entry of a file under the given name, or the name in its settings.

    If `shared`, the entry starts a relay, and several clients use one server.

    Raises ConfigError if the file cannot be served, or clients do not accept the name.
    """
    name = _check_server_name(name)
    checked_file = check_file(find_file(file))
    command, *args = find_program()
    args.append("serve")
    if shared:
        args.append("--shared")
    args.append(str(checked_file.path))
    entry = ServerEntry(name=name or checked_file.name, command=command, args=args, secrets=checked_file.secrets)
    return entry, checked_file


def _check_server_name(name: str | None) -> str | None:
    if name is not None and not _SERVER_NAME.fullmatch(name):
        hint = "Use at most 64 letters, digits, - and _: every client accepts those."
        raise ConfigError(f"'{name}' is not a valid server name", where="--name", hint=hint)
    return name


def _build_remote_entry(options: InstallOptions, url: str) -> ServerEntry:
    """Build the entry for a URL. Raises ConfigError for options of servers that a client starts."""
    if options.env:
        raise ConfigError("cannot be used with a URL", where="--env", hint="Set variables where that server runs.")
    if options.shared:
        raise ConfigError("cannot be used with a URL", where="--shared", hint="All clients share that server anyway.")
    if options.token_env is not None:
        _check_variable(options.token_env, "--token-env", "Use the NAME of the variable with the token.")
    address = split_url(url)
    if address.username is not None or not address.hostname:
        hint = "Use http://HOST:PORT/mcp; a token is passed with --token-env."
        raise ConfigError("the URL is not valid, has no host, or has a user in it", where="FILE|URL", hint=hint)
    name = _check_server_name(options.name) or to_server_name(address.netloc)
    return ServerEntry(name=name, command="", url=url, token_env=options.token_env)


def _add_variables(entry: ServerEntry, options: InstallOptions) -> ServerEntry:
    """Add the variables of --env. NAME becomes a reference to the variable, and NAME=VALUE is written as it is."""
    if options.token_env is not None:
        raise ConfigError("only a URL has a token", where="--token-env", hint="Pass a variable with --env NAME.")
    secrets = [*entry.secrets]
    variables: dict[str, str] = {}
    for word in options.env or ():
        name, equals, value = word.partition("=")
        _check_variable(name, "--env", "Use NAME or NAME=VALUE.")
        if equals:
            variables[name] = value
        elif name not in secrets:
            secrets.append(name)
    return replace(entry, secrets=[name for name in secrets if name not in variables], variables=variables)


def _check_variable(name: str, option: str, hint: str) -> None:
    if not _VARIABLE_NAME.fullmatch(name):
        raise ConfigError(f"'{name}' is not the name of a variable", where=option, hint=hint)


def find_program() -> Sequence[str]:
    """Return the command of this installation, with its absolute path.

    Raises ConfigError in a temporary environment, because it would disappear.
    """
    if not sys.executable:
        raise ConfigError("this Python does not know its own path", hint="Install the package into an environment.")
    folder = Path(os.path.abspath(sys.executable)).parent
    if any(pair in _TEMPORARY_FOLDERS for pair in itertools.pairwise(folder.parts)):
        hint = f"Install it first: uv tool install {DISTRIBUTION}"
        raise ConfigError(f"this command runs from a temporary environment of uvx, {folder}", hint=hint)
    for name in ("mcp-bridge", "mcp-bridge.exe"):
        script = folder / name
        if script.is_file() and os.access(script, os.X_OK):
            return (str(script),)
    return (os.path.abspath(sys.executable), "-m", "mcp_bridge")


def retry_if_changed(attempt: Callable[[], T]) -> T:
    """Retry an edit while other programs write the same file. Raises FileChanged after the last attempt."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except FileChanged:
            # The pause is random, so that two programs do not collide again.
            time.sleep(random.uniform(*PAUSE))  # noqa: S311
    return attempt()


def _install(request: InstallRequest) -> None:
    journal = open_journal()
    plans: list[InstallationPlan] = []

    def attempt() -> tuple[InstallationPlan, InstallationResult]:
        plan = _make_plan(request, journal)
        if plan.action == "none" and plans:
            # An earlier attempt has written the entry before it failed, so only a plan has to be recorded. It is the
            # first one, because that has read the file before any attempt changed it.
            plan = plans[0]
            problem = installation.record_installation(plan, request.machine, journal, request.source)
            return plan, InstallationResult(journal_problem=problem)
        plans.append(plan)
        return plan, installation.apply_installation(plan, request.machine, journal, settings=request.source)

    try:
        if request.options.dry_run:
            _show_plan(request, _make_plan(request, journal))
            return
        warnings = _check_start(request, _make_plan(request, journal)) if request.options.check else []
        plan, result = retry_if_changed(attempt)
    except UnsafeEdit as error:
        _report_unsafe(request, error)
    notes = [*warnings, *_list_notes(request, plan, result)]
    action, _ = _ACTIONS[plan.action]
    if request.options.as_json:
        write_json(_describe_plan(request, plan, action) | {"backup": result.backup, "notes": notes})
        return
    report(f"{action}: '{plan.entry.name}' in {request.location}")
    for note in notes:
        report(f"  {note}")


def _check_start(request: InstallRequest, plan: InstallationPlan) -> Sequence[str]:
    """Start the server once, as `doctor` does, and return warnings. Exit with 1 if the client could not use it."""
    if plan.action == "none" or plan.entry.url is not None:
        return []
    unset = [name for name in plan.entry.secrets if name not in request.machine.environ]
    if unset:
        return [f"WARNING: the server was not started to check it, because {', '.join(unset)} is not set here"]
    from mcp_bridge._cli.doctor.client import check_start
    from mcp_bridge._cli.doctor.report import format_results

    server = InstalledServer(
        client=request.client.name,
        place=plan.place,
        path=plan.file.path,
        name=plan.entry.name,
        value=plan.value,
    )
    server_report, rejections = check_start(server, request.machine, secrets=plan.entry.secrets)
    failures = [result for result in server_report.results if not result.ok]
    # The failure of a source is only a warning, because the other sources are served.
    is_usable = all(result.check.startswith("source ") for result in failures)
    if is_usable:
        warnings = [f"WARNING: {result.check}: {result.detail}" for result in failures]
        for rejection in rejections:
            label = "note" if rejection.ok else "WARNING"
            warnings.append(f"{label}: {rejection.check}: {rejection.detail}. {rejection.advice}")
        return warnings
    if request.options.as_json:
        checks = [asdict(result) for result in server_report.results]
        write_json(request.json_base | {"action": "refused", "problem": "the server does not start", "checks": checks})
    else:
        report(f"mcp-bridge: nothing was installed, because {request.client.title} could not use this server:")
        report(*format_results(failures), "To install it anyway, pass --no-check.")
    raise SystemExit(ExitCode.FAILED)


def _make_plan(request: InstallRequest, journal: InstallationJournal) -> InstallationPlan:
    return installation.prepare_installation(
        request.client,
        request.place,
        request.entry,
        request.machine,
        journal,
        force=request.options.force,
        use_command=request.options.use_client_command,
    )


def _show_plan(request: InstallRequest, plan: InstallationPlan) -> None:
    keys = resolve_server_keys(plan.place, request.machine)
    texts = (plan.file.content, plan.text)
    diff = render_entry_diff(plan.client, plan.place, plan.file.path, keys, plan.entry.name, texts)
    _, action = _ACTIONS[plan.action]
    if request.options.as_json:
        write_json(_describe_plan(request, plan, action) | {"difference": diff})
        return
    report(f"{action}: '{plan.entry.name}' in {request.location}")
    if plan.command is not None:
        report("  with the client's own command:")
        print(shlex.join(plan.command))
    elif diff:
        print(diff, end="")


def _show_link(request: InstallRequest) -> None:
    from mcp_bridge._desktop.exports import build_install_link

    url = build_install_link(request.client.name, request.entry)
    notes = list(_list_secret_notes(request.client, request.entry.secrets))
    if request.options.as_json:
        write_json({"client": request.client.name, "name": request.entry.name, "link": url, "notes": notes})
        return
    print(url)
    report(*notes)


def _show_snippet(request: InstallRequest) -> None:
    notes = list(_list_secret_notes(request.client, request.entry.secrets))
    snippet = request.format_snippet()
    if request.options.as_json:
        value = dict(build_entry_value(request.client, request.entry))
        write_json(request.json_base | {"notes": notes, "entry": value, "snippet": snippet})
        return
    report(f"for {request.location}:")
    print(snippet, end="")
    report(*notes)


def _report_unsafe(request: InstallRequest, error: UnsafeEdit) -> NoReturn:
    """Report why the file is left unchanged, and the text to paste if its path can be a file. Exit with 1."""
    can_paste = os.path.isfile(request.path) or not os.path.lexists(request.path)
    snippet = request.format_snippet() if can_paste else None
    if request.options.as_json:
        write_json(request.json_base | {"action": "left alone", "problem": str(error), "snippet": snippet})
    else:
        report(f"mcp-bridge: {error}")
        if snippet is not None:
            report(f"Add this to {request.path} yourself:")
            print(snippet, end="")
            report(*_list_secret_notes(request.client, request.entry.secrets))
    raise SystemExit(ExitCode.FAILED)


def _describe_plan(request: InstallRequest, plan: InstallationPlan, action: str) -> dict[str, Any]:
    return request.json_base | {
        "path": str(plan.file.path),
        "name": plan.entry.name,
        "action": action,
        "entry": dict(installation.build_redacted_value(plan)),
        "command": list(plan.command) if plan.command is not None else None,
        "secrets": list(plan.entry.secrets),
    }


def _list_notes(request: InstallRequest, plan: InstallationPlan, result: InstallationResult) -> Iterator[str]:
    if result.backup is not None:
        yield f"backup: {result.backup}"
    if plan.action == "replace":
        yield "uninstall restores the entry that was replaced"
    if result.is_reformatted:
        yield f"{request.client.title}'s own command has changed the layout of the file, but nothing else in it"
    if result.journal_problem is not None:
        problem = result.journal_problem
        yield f"the installation could not be recorded, so uninstall cannot restore the layout: {problem}"
    if not is_client_installed(request.client, request.machine):
        yield f"{request.client.title} was not found on this machine"
    yield from request.notes
    yield from _list_secret_notes(request.client, plan.entry.secrets)
    if plan.entry.token_env is not None:
        yield f"it sends the token in {plan.entry.token_env}. {request.client.secrets_advice}"
    if plan.entry.variables:
        yield f"the values of {', '.join(plan.entry.variables)} are in the file as plain text"
    if request.place.scope == "project" and plan.entry.url is None:
        yield "the entry has absolute paths of this machine: other users of the project need their own"
    if plan.action != "none" and request.client.next_steps:
        yield request.client.next_steps


def _list_secret_notes(client: Client, names: Sequence[str]) -> Iterator[str]:
    if names:
        if can_reference_variables(client):
            names = [format_reference(client, name) or name for name in names]
        yield f"variables it needs: {', '.join(names)}. {client.secrets_advice}"
