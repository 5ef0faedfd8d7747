"""`export`, of a whole bridge: a bundle, a registry's entry, a client's file, links, an image."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import anyio

from mcp_bridge.cli.delivering import deliver, write
from mcp_bridge.cli.exits import Exit, counted, say
from mcp_bridge.cli.served import Served, entry_for
from mcp_bridge.cli.showing import started
from mcp_bridge.cli.target import Target, find, load
from mcp_bridge.clients.client import Entry
from mcp_bridge.clients.links import link, linkable
from mcp_bridge.clients.locating import here
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.packaging.bundle import bundle
from mcp_bridge.packaging.client_file import INSPECTOR, client_file
from mcp_bridge.packaging.dockerfile import dockerfile, in_context
from mcp_bridge.packaging.manifest import Description, Offered, semantic_version
from mcp_bridge.packaging.project import Additions, project
from mcp_bridge.packaging.release import read_wheel
from mcp_bridge.packaging.server_json import Published, server_json
from mcp_bridge.pipes import private
from mcp_bridge.wire.names import client_name


def export_mcpb(
    path: Path | None, additions: Additions, description: Description, wheel: Path | None, output: Path | None
) -> None:
    """Write an MCP bundle, and say what is in it. Raises ConfigError for what cannot be packed or written."""
    path = find(path)
    found = project(path, additions)
    held = read_wheel(wheel) if wheel is not None else None
    semantic_version(found, description)  # before anything is started
    _warn(found.warnings)
    with private():  # stdout is for nobody
        target = load(path)
        anyio.run(started, target.bridge)
        offered = _offered(target)
    secrets = [os.environ.get(variable.name, "") for variable in found.variables if variable.secret]
    made = bundle(found, offered, description, wheel=held, secrets=secrets)
    output = output if output is not None else Path(f"{found.name}.mcpb")
    write(made.content, output)
    for name, size in made.files.items():
        say(f"  {size:>9,}  {name}")
    if description.author is None:
        say("author: unknown; --author says whose it is")
    say(f"{output}: {counted(len(made.files), 'file')}, {counted(len(offered.tools), 'tool')}")


def export_server_json(
    path: Path | None,
    additions: Additions,
    namespace: str,
    source: Published,
    description: Description,
    output: Path | None,
) -> None:
    """Write the entry for the MCP registry, and say what the registry asks for besides. Raises ConfigError."""
    found = project(find(path), additions)
    made = server_json(found, namespace, source, description)
    deliver(json.dumps(made, indent=2, ensure_ascii=False), output)
    if source.bundle_url is None:
        say(f"The registry wants this line in the README of '{source.package}', as it is published:")
        say(f"  mcp-name: {made['name']}")
    else:
        say(f"Publish the bundle at {source.bundle_url} first, unchanged: the registry has its hash.")


def export_mcp_json(path: Path | None, client: str, name: str | None, output: Path | None) -> None:
    """Write a client's file with this server alone in it. Raises ConfigError."""
    entry, serves = entry_for(path, name)
    deliver(client_file(client, entry, here()), output)
    _tell(entry, serves)
    if client == INSPECTOR and entry.secrets:
        say("Inspector hands on no variables by itself: give it each with -e NAME=VALUE")


def export_links(path: Path | None, name: str | None, output: Path | None) -> None:
    """Write the links that install this server, one line for each client. Raises ConfigError."""
    entry, serves = entry_for(path, name)
    lines = []
    for client in linkable():
        try:
            lines.append(f"{client}\t{link(client, entry)}")
        except ConfigError as error:
            say(f"{client}: {error}")
    deliver("\n".join(lines), output)
    _tell(entry, serves)


def export_dockerfile(
    path: Path | None, additions: Additions, wheel: Path | None, output: Path | None, *, http: bool
) -> None:
    """Write a Dockerfile, to be built in the folder of the settings. Raises ConfigError."""
    path = find(path)
    found = project(path, additions)
    _warn(found.warnings)
    held = read_wheel(wheel) if wheel is not None else None
    context = in_context(wheel, path.parent) if wheel is not None else ""
    deliver(dockerfile(found, wheel=held, context=context, http=http), output)
    say(f"Build it in {path.parent.resolve()}: it copies {counted(len(found.files), 'file')} from there, by name")


def _offered(target: Target) -> Offered:
    """What the running bridge has. A problem that `validate` finds keeps it from being handed on."""
    bridge = target.bridge
    problems = [f"source '{name}': {text}" for name, found in bridge.problems.items() for text in found]
    if problems:
        _warn(problems)
        say("Nothing was written: mend this first.")
        raise SystemExit(Exit.FAILED)
    tools = sorted((client_name(entry.name), entry.description) for entry in bridge.registry.search())
    return Offered(tools=tools, prompts=len(bridge.registry.prompts) > 0)


def _tell(entry: Entry, serves: Served) -> None:
    """What a file or a link cannot have: the values of variables."""
    if entry.secrets:
        say(f"Values are not in it; when the client starts it these have to be set: {', '.join(entry.secrets)}")
    _warn(serves.notes)


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(sentence)
