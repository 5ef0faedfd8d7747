"""`import`: writes a settings file with the servers in the files of the clients on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_bridge._cli.clients import find_client
from mcp_bridge._cli.desktop_options import ImportOptions
from mcp_bridge._cli.output import format_count, report, write_json
from mcp_bridge._cli.target import is_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.locations import detect_machine
from mcp_bridge._desktop.server_import import (
    FoundServer,
    ServerImport,
    find_other_variables,
    find_servers,
    find_servers_in_file,
)
from mcp_bridge._desktop.table import CLIENTS

STDOUT = Path("-")


def import_servers(options: ImportOptions) -> None:
    """Write a settings file with the servers of clients, and report their origins.

    Raises ConfigError if the file exists, or if a client's file cannot be read.
    """
    out = options.out
    is_stdout = out == STDOUT
    if not is_stdout and out.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError("the settings are written as YAML", path=str(out), hint="Use a name that ends in .yaml")
    if not is_stdout and os.path.lexists(out) and not options.force:
        raise ConfigError("this file exists", path=str(out), hint="Replace it with --force, or use another --out FILE")
    result = _collect_servers(options.sources or list(CLIENTS))
    text = result.render_settings()
    if not result.servers:
        _report_omissions(result)
        hint = "`mcp-bridge install` lists the files that it reads; --from reads another one"
        raise ConfigError("no servers were found in the files of your MCP clients", hint=hint)
    if is_stdout:
        print(text, end="")
    else:
        _write_file(options, text)
    if options.as_json and not is_stdout:
        write_json(_describe(result, out))
    else:
        _report(result, find_other_variables(text, result.secrets), out)


def _collect_servers(sources: Sequence[str]) -> ServerImport:
    """Collect the servers of clients and files. Raises ConfigError."""
    result = ServerImport()
    machine = detect_machine()
    for name in sources:
        if is_settings(Path(name)):
            servers: Iterator[FoundServer | ConfigError] = find_servers_in_file(Path(name))
        else:
            servers = find_servers(find_client(name), machine)
        for server in servers:
            if isinstance(server, ConfigError):
                result.problems.append(server)
            else:
                result.add_server(server)
    return result


def _write_file(options: ImportOptions, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if options.force else os.O_EXCL)
    try:
        # Other users must not read the file, because a secret in it may not have been recognized.
        with open(os.open(options.out, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"it cannot be written: {error.strerror}", path=str(options.out)) from None


def _report(result: ServerImport, other_variables: Sequence[str], out: Path) -> None:
    report(f"Imported {format_count(len(result.servers), 'server')}:")
    width = max(map(len, result.servers))
    for name, servers in result.servers.items():
        report(f"  {name:{width}}  from {', '.join(server.place for server in servers)}")
    _report_omissions(result)
    if result.secrets.places:
        report("Set these variables where you run it. Their values were not copied:")
        width = max(map(len, result.secrets.places))
        for name, place in result.secrets.places.items():
            report(f"  {name:{width}}  its value is in {place}")
    if other_variables:
        report(f"The entries already refer to these variables: {', '.join(other_variables)}")
    if out != STDOUT:
        report(f"Wrote {out}. Next:", f"  mcp-bridge list {out}", f"  mcp-bridge install CLIENT {out}")


def _list_notes(result: ServerImport) -> list[dict[str, str]]:
    """Return the notes about the imported servers, each once. Several files may have the same server."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for name, servers in result.servers.items():
        for server in servers:
            for note in server.notes:
                rows[name, note] = {"name": name, "path": str(server.path), "note": note}
    return list(rows.values())


def _report_omissions(result: ServerImport) -> None:
    for row in _list_notes(result):
        report(f"Note about '{row['name']}' in {row['path']}: {row['note']}")
    for server in result.omitted:
        report(f"Skipped '{server.name}' from {server.place}: {server.omission}")
    for error in result.problems:
        report(f"PROBLEM: {error}")


def _describe(result: ServerImport, out: Path) -> dict[str, object]:
    servers: list[dict[str, object]] = []
    for name, entries in result.servers.items():
        origins = [{"client": entry.client, "path": str(entry.path), "name": entry.name} for entry in entries]
        servers.append({"name": name, "from": origins})
    return {
        "file": str(out),
        "servers": servers,
        "left_out": [
            {"name": server.name, "path": str(server.path), "reason": server.omission} for server in result.omitted
        ],
        "notes": _list_notes(result),
        "variables": [{"name": name, "place": place} for name, place in result.secrets.places.items()],
        "problems": [str(error) for error in result.problems],
    }
