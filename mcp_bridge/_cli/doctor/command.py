"""`doctor`: checks the servers of a client, or the server of a file, a URL or a command."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mcp_bridge._cli.doctor.checks import CallCheck, TrialCall
from mcp_bridge._cli.doctor.confinement import check_confinements
from mcp_bridge._cli.doctor.conversation import INHERITED, RemoteStart, StartCommand, select_inherited
from mcp_bridge._cli.doctor.eras import check_handshake, check_stateless, collect_checks
from mcp_bridge._cli.doctor.report import CheckResult, find_secret_values, format_results, redact_results
from mcp_bridge._cli.exits import exit_with
from mcp_bridge._cli.options import DoctorOptions, check_timeout
from mcp_bridge._cli.output import print_lines, write_json
from mcp_bridge._cli.server_address import find_address
from mcp_bridge._cli.target import check_servable, find_file, is_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.positions import walk_values

ALL_CLIENTS = "all"
DEFAULT_TIMEOUT = 20.0
"""Seconds to wait for each response."""
_CREDENTIAL = re.compile(r"\benv:([A-Za-z_][A-Za-z0-9_]*)")
"""A reference to a variable in the settings of another server."""


def run_doctor(options: DoctorOptions) -> None:
    """Check the servers of a client, or one server. Exit with 1 if a check fails.

    Raises ConfigError for invalid options.
    """
    if options.timeout is not None:
        check_timeout(options.timeout)
    target = options.target
    call = TrialCall.parse(options.call) if options.call is not None else None
    if target is not None and options.command is None and _is_client(target):
        ok = _examine_clients(target, options, call)
    else:
        for option, value in (("--scope", options.scope), ("--name", options.name)):
            if value is not None:
                raise ConfigError("needs a client", where=option, hint="Use it with `mcp-bridge doctor CLIENT`")
        ok = _examine_server(target, options, call)
    exit_with(ok=ok)


def _is_client(target: str) -> bool:
    """Return whether the target is a client. Raises ConfigError if it is neither a client nor a file."""
    if "." in target or len(Path(target).parts) != 1:
        return False
    from mcp_bridge._cli.clients import suggest_clients
    from mcp_bridge._desktop.table import CLIENTS

    if target in CLIENTS or target == ALL_CLIENTS:
        return True
    # Path.exists raises for a name that is too long.
    if os.path.exists(target):
        return False
    names = suggest_clients(target)
    hint = f"Known clients: {', '.join(CLIENTS)}"
    if names:
        hint = f"Did you mean {' or '.join(names)}?"
    raise ConfigError(f"'{target}' is neither a client nor an existing file", where="doctor", hint=hint)


def _examine_clients(target: str, options: DoctorOptions, call: TrialCall | None) -> bool:
    from mcp_bridge._cli.doctor.client import examine_clients

    client = target if target != ALL_CLIENTS else None
    reports = examine_clients(client, scope=options.scope, name=options.name, timeout=options.timeout, call=call)
    ok = all(report.ok for report in reports)
    if options.as_json:
        write_json({"ok": ok, "servers": [report.to_json() for report in reports]})
    if not reports:
        hint = "Install one: mcp-bridge install CLIENT"
        raise ConfigError("no client on this machine has a bridge installed", where="doctor all", hint=hint)
    if not options.as_json:
        for report in reports:
            report.show()
    return ok


def _examine_server(target: str | None, options: DoctorOptions, call: TrialCall | None) -> bool:
    """Check the server of a file, of a URL or of a command, in both eras."""
    address = find_address(target, options)
    names: Sequence[str] = ()
    argv: Sequence[str]
    if address is None:
        path = find_file(target)
        if not is_settings(path) or not os.path.exists(path):
            check_servable(path)
        argv = [sys.executable, "-m", "mcp_bridge", "serve", str(path.resolve())]
        names = _list_needed_variables(path)
    else:
        argv = address.argv
    timeout = options.timeout or DEFAULT_TIMEOUT
    call_check = CallCheck(call) if call is not None else None
    environ = select_inherited(names)
    url = address.url if address is not None else None
    # The folder is empty, so that relative paths cannot work by chance.
    with tempfile.TemporaryDirectory() as folder:
        start: StartCommand | RemoteStart
        if address is not None and address.url is not None:
            start = RemoteStart(address=address, timeout=timeout)
        else:
            start = StartCommand(argv=argv, folder=Path(folder), timeout=timeout, environ=environ)
        outcomes = [check_stateless(start, call_check), check_handshake(start, call_check)]
    checks = [*_warn_of_variables(names), *collect_checks(outcomes, is_bridge=address is None)]
    if address is None:
        checks += check_confinements(path, os.environ)
    eras = [outcome.result for outcome in outcomes]
    # A bridge supports both eras. Another server needs to support only one.
    if address is None:
        are_eras_ok = all(era.ok for era in eras)
    else:
        are_eras_ok = any(era.ok for era in eras)
    ok = are_eras_ok and all(check.ok for check in checks)
    secrets = [*find_secret_values(environ, ())]
    if address is not None:
        secrets += address.secrets
    results = redact_results([*eras, *checks], secrets)
    if options.as_json:
        subject = {"url": url} if url is not None else {"command": list(argv)}
        write_json({**subject, "ok": ok, "checks": [asdict(result) for result in results]})
    else:
        print_lines(f"url: {url}" if url is not None else f"command: {shlex.join(argv)}")
        print_lines(*format_results(results))
    return ok


def _list_needed_variables(path: Path) -> list[str]:
    """Return the variables to which a settings file refers, if they are set and clients do not pass them anyway."""
    if not is_settings(path):
        return []
    from mcp_bridge._settings import prepare, read_document
    from mcp_bridge._settings.environment import list_variables

    try:
        document = prepare(read_document(path))
    except ConfigError:
        # The server itself reports the error in its file.
        return []
    names = [variable.name for variable in list_variables(document)]
    for _, value in walk_values(document.data):
        if isinstance(value, str):
            names += _CREDENTIAL.findall(value)
    return [name for name in dict.fromkeys(names) if name in os.environ and name not in INHERITED]


def _warn_of_variables(names: Sequence[str]) -> list[CheckResult]:
    """Warn of variables that clients do not pass to servers unless the entry has them."""
    if not names:
        return []
    words = " ".join(f"--env {name}" for name in names)
    advice = f"The entry of the server in the client needs them: mcp-bridge install CLIENT FILE {words}"
    return [
        CheckResult(
            "variables", True, f"taken from this shell, but clients do not pass them: {', '.join(names)}", advice
        )
    ]
