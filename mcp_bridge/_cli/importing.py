"""`import`: makes a settings file from the servers in the files of the clients on this machine."""

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
    """Write a settings file with the servers of clients, and report what was taken from where.

    Raises ConfigError for a file that exists, and for a client or file that cannot be read.
    """
    _check_out(options)
    result = ServerImport()
    for found in _find_all(options.sources):
        if isinstance(found, ConfigError):
            result.problems.append(found)
        else:
            result.add_server(found)
    text = result.render_settings()
    if not result.taken:
        _report_rest(result)
        hint = "`mcp-bridge clients` lists the files that it reads; --from reads another one"
        raise ConfigError("no servers were found in the files of your MCP clients", hint=hint)
    if options.out == STDOUT:
        print(text, end="")
    else:
        _write_file(options, text)
    if options.as_json and options.out != STDOUT:
        write_json(_describe(result, options.out))
    else:
        _report(result, find_other_variables(text, result.secrets), options.out)


def _check_out(options: ImportOptions) -> None:
    out = options.out
    if out == STDOUT:
        return
    if out.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError("the settings are written as YAML", path=str(out), hint="Use a name that ends in .yaml")
    if os.path.lexists(out) and not options.force:
        raise ConfigError("this file exists", path=str(out), hint="Replace it with --force, or use another --out FILE")


def _find_all(sources: Sequence[str] | None) -> Iterator[FoundServer | ConfigError]:
    machine = detect_machine()
    for name in sources or CLIENTS:
        if is_settings(Path(name)):
            yield from find_servers_in_file(Path(name))
        else:
            yield from find_servers(find_client(name), machine)


def _write_file(options: ImportOptions, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if options.force else os.O_EXCL)
    try:
        # Not readable by others: an unusual secret may not look like one.
        with open(os.open(options.out, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"it cannot be written: {error.strerror}", path=str(options.out)) from None


def _report(result: ServerImport, others: Sequence[str], out: Path) -> None:
    report(f"Imported {format_count(len(result.taken), 'server')}:")
    width = max(map(len, result.taken))
    report(*(f"  {name:{width}}  from {', '.join(one.place for one in found)}" for name, found in result.taken.items()))
    _report_rest(result)
    if result.secrets.places:
        report("Set these variables where you run it. Their values were not copied:")
        width = max(map(len, result.secrets.places))
        report(*(f"  {name:{width}}  its value is in {place}" for name, place in result.secrets.places.items()))
    if others:
        report(f"The entries already refer to these variables: {', '.join(others)}")
    if out != STDOUT:
        report(f"Wrote {out}. Next:", f"  mcp-bridge list {out}", f"  mcp-bridge install CLIENT {out}")


def _list_notes(result: ServerImport) -> list[dict[str, str]]:
    """Return the notes about the servers that are taken, each once, however many files have the server."""
    notes = {(name, note): one.path for name, found in result.taken.items() for one in found for note in one.notes}
    return [{"name": name, "path": str(path), "note": note} for (name, note), path in notes.items()]


def _report_rest(result: ServerImport) -> None:
    report(*(f"Note about '{row['name']}' in {row['path']}: {row['note']}" for row in _list_notes(result)))
    report(*(f"Skipped '{one.name}' from {one.place}: {one.omission}" for one in result.left_out))
    report(*(f"PROBLEM: {error}" for error in result.problems))


def _describe(result: ServerImport, out: Path) -> dict[str, object]:
    return {
        "file": str(out),
        "servers": [
            {"name": name, "from": [{"client": one.client, "path": str(one.path), "name": one.name} for one in found]}
            for name, found in result.taken.items()
        ],
        "left_out": [{"name": one.name, "path": str(one.path), "reason": one.omission} for one in result.left_out],
        "notes": _list_notes(result),
        "variables": [{"name": name, "place": place} for name, place in result.secrets.places.items()],
        "problems": [str(error) for error in result.problems],
    }
