"""`export`, of a whole bridge: a bundle, a registry's entry, a client's file, links, an image."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio

from mcp_bridge.cli.delivering import deliver, write
from mcp_bridge.cli.exits import Exit, counted, say
from mcp_bridge.cli.served import Served, entry_for
from mcp_bridge.cli.showing import started
from mcp_bridge.cli.target import Target, find, load
from mcp_bridge.clients.client import Entry
from mcp_bridge.clients.client_file import INSPECTOR, client_file, link, linkable
from mcp_bridge.clients.locating import here
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.packaging.bundle import bundle
from mcp_bridge.packaging.dockerfile import dockerfile, in_context
from mcp_bridge.packaging.manifest import Description, Offered, semantic_version
from mcp_bridge.packaging.project import Additions, Project, project
from mcp_bridge.packaging.release import read_wheel
from mcp_bridge.packaging.server_json import Published, server_json
from mcp_bridge.runtime.descriptors import private
from mcp_bridge.wire.names import client_name

_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""In an address: it is a secret, whatever the variable is called."""


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
    made = bundle(found, offered, description, wheel=held, secrets=_secrets(found))
    output = output if output is not None else Path(f"{found.name}.mcpb")
    write(made.content, output, kept=found.files.values())
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
    deliver(json.dumps(made, indent=2, ensure_ascii=False), output, kept=found.files.values())
    if source.bundle_url is None:
        say(f"The registry wants this line in the README of '{source.package}', as it is published:")
        say(f"  mcp-name: {made['name']}")
    else:
        say(f"Publish the bundle at {source.bundle_url} first, unchanged: the registry has its hash.")


def export_mcp_json(path: Path | None, client: str, name: str | None, output: Path | None) -> None:
    """Write a client's file with this server alone in it, over no other. Raises ConfigError."""
    if output is not None and os.path.isfile(output) and os.path.getsize(output):
        hint = "`mcp-bridge install` adds the server to a client's file, and leaves what else is in it alone"
        raise ConfigError("is there already, and would lose what is in it", path=str(output), hint=hint)
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
    deliver("\n".join(lines), output, kept=[serves.path])
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
    deliver(dockerfile(found, wheel=held, context=context, http=http), output, kept=found.files.values())
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


def _secrets(found: Project) -> Sequence[str]:
    """Values that must stand in no file: those of variables that are named as secrets are, and of passwords."""
    names = {variable.name: variable.secret for variable in found.variables}
    if found.token_env is not None:
        names[found.token_env] = True
    values = {os.environ.get(name, ""): secret for name, secret in names.items()}
    return [value for value, secret in values.items() if secret or _PASSWORD.search(value)]


def _tell(entry: Entry, serves: Served) -> None:
    """What a file or a link cannot have: the values of variables."""
    if entry.secrets:
        say(f"Values are not in it; when the client starts it these have to be set: {', '.join(entry.secrets)}")
    _warn(serves.notes)


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(sentence)
