"""`export`: exports tools for the APIs of language models, or the server as a bundle, an entry, a link or an image."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mcp_bridge._app.http_access import list_known_tokens
from mcp_bridge._cli import logs
from mcp_bridge._cli.desktop_options import (
    BundleOptions,
    ClientFileOptions,
    DockerfileOptions,
    PackageOptions,
    RegistryEntryOptions,
    ToolExportOptions,
)
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.install import build_entry
from mcp_bridge._cli.output import format_count, report, report_problems
from mcp_bridge._cli.target import find_file, load_and_start
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.exports import INSPECTOR, build_client_file, build_install_link, list_linkable_clients
from mcp_bridge._desktop.locations import detect_machine
from mcp_bridge._desktop.packaging.bundle import Description, PublishedEntries, build_bundle, choose_version
from mcp_bridge._desktop.packaging.dockerfile import build_dockerfile, find_in_context
from mcp_bridge._desktop.packaging.project import Additions, Project, collect_project
from mcp_bridge._desktop.packaging.release import Wheel, build_wheel, read_wheel
from mcp_bridge._desktop.packaging.server_json import build_server_json, choose_publication
from mcp_bridge._integrations.export.exporting import Export
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._runtime.file_names import make_file_name

_PASSWORD_URL = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""A URL with a password is a secret, whatever the name of its variable."""
_INDEX_HINT = "Use --from-index once your package index has it."


def export_tools(options: ToolExportOptions) -> None:
    """Export the tools in the format of an API.

    Raises ConfigError if the file cannot be written, ToolNotFound for an unknown name in `only`.
    """
    logs.configure_logging(options.log_level)
    file = find_file(options.file)
    bridge = load_and_start(file)
    export = Export(bridge.registry, options.api, strict=options.strict, only=options.only or ())
    report(*map(str, export.problems))
    report_problems(bridge.problems)
    _deliver(_format_json(export.tools), options.output, sources=[file])


def export_bundle(options: BundleOptions) -> None:
    """Write an MCP bundle and list its files. Raises ConfigError if a file cannot be packed or written."""
    logs.configure_logging(options.log_level)
    file = find_file(options.file)
    project = collect_project(file, _to_additions(options))
    description = Description(
        version=options.package_version, text=options.description, author=options.author, license=options.license
    )
    wheel = _choose_wheel(options)
    # An invalid version is an error before the sources are started.
    choose_version(project, description)
    report(*project.warnings)
    bridge = load_and_start(file)
    if any(bridge.problems.values()):
        report_problems(bridge.problems)
        report("Nothing was written. Fix these problems first.")
        raise SystemExit(ExitCode.FAILED)
    tools = sorted((to_client_name(entry.name), entry.description) for entry in bridge.registry.search())
    entries = PublishedEntries(tools=tools, has_prompts=len(bridge.registry.prompts) > 0)
    secrets = _find_secret_values(project, file.parent)
    content, files = build_bundle(project, entries, description, wheel=wheel, secrets=secrets)
    output = options.output if options.output is not None else Path(f"{make_file_name(project.name)}.mcpb")
    _write_file(content, output, sources=project.files.values())
    for name, size in files.items():
        report(f"  {size:>9,}  {name}")
    if wheel is not None and options.wheel is None:
        report(f"mcp-bridge itself is in the bundle, as {wheel.name}. {_INDEX_HINT}")
    if description.author is None:
        report("author: unknown; set it with --author")
    report(f"{output}: {format_count(len(files), 'file')}, {format_count(len(entries.tools), 'tool')}")


def export_registry_entry(options: RegistryEntryOptions) -> None:
    """Write an entry for the MCP registry, and report the other requirements of the registry. Raises ConfigError."""
    publication = choose_publication(options.package, options.package_version, options.bundle, options.bundle_url)
    project = collect_project(find_file(options.file), Additions(variables=options.env or ()))
    entry = build_server_json(project, options.namespace, publication, Description(text=options.description))
    _deliver(_format_json(entry), options.output, sources=project.files.values())
    if publication.bundle_url is None:
        report(f"The registry requires this line in the published README of '{publication.package}':")
        report(f"  mcp-name: {entry['name']}")
    else:
        report(f"First publish the unchanged bundle at {publication.bundle_url}: the entry has its hash.")


def export_client_file(options: ClientFileOptions) -> None:
    """Write a client's file with only this server, or links. Raises ConfigError, for example if the file exists."""
    output = options.output
    if output is not None and os.path.isfile(output) and os.path.getsize(output):
        hint = "`mcp-bridge install` adds the server to an existing file"
        raise ConfigError("the file exists, and its content would be lost", path=str(output), hint=hint)
    entry, file = build_entry(options.file, options.name)
    if options.links:
        lines: list[str] = []
        for client in list_linkable_clients():
            try:
                lines.append(f"{client}\t{build_install_link(client, entry)}")
            except ConfigError as error:
                report(f"{client}: {error}")
        text = "\n".join(lines)
    else:
        text = build_client_file(options.client, entry, detect_machine())
    _deliver(text, output)
    if entry.secrets:
        report(f"Set these variables where the client starts the server: {', '.join(entry.secrets)}")
    report(*file.notes)
    if options.client == INSPECTOR and entry.secrets:
        report("The Inspector passes on no variables by itself: add -e NAME=VALUE for each")


def export_dockerfile(options: DockerfileOptions) -> None:
    """Write a Dockerfile, to be built in the folder of the settings. Raises ConfigError."""
    file = find_file(options.file)
    wheel = _choose_wheel(options)
    project = collect_project(file, _to_additions(options))
    report(*project.warnings)
    wheel_path = wheel.name if wheel is not None else ""
    if options.wheel is not None:
        wheel_path = find_in_context(options.wheel, file.parent)
    text = build_dockerfile(project, wheel=wheel, wheel_path=wheel_path, http=options.http)
    _deliver(text, options.output, sources=project.files.values())
    if wheel is not None and options.wheel is None:
        _write_file(wheel.content, file.parent / wheel.name)
        report(f"Wrote {file.parent / wheel.name}, from which the image installs mcp-bridge. {_INDEX_HINT}")
    report(f"Build it in {file.parent.resolve()}, from which it copies {format_count(len(project.files), 'file')}.")


def _choose_wheel(options: PackageOptions) -> Wheel | None:
    """Return the wheel of the option, or one of the running version; None to install from a package index."""
    if options.wheel is not None and options.from_index:
        raise ConfigError("--wheel and --from-index exclude each other", where="--wheel", hint="Use one of them")
    if options.wheel is not None:
        return read_wheel(options.wheel)
    return None if options.from_index else build_wheel()


def _to_additions(options: PackageOptions) -> Additions:
    return Additions(include=options.include or (), requirements=options.needs or (), variables=options.env or ())


def _find_secret_values(project: Project, directory: Path) -> Sequence[str]:
    """Find values that no file may contain: those of secret variables, and URLs with passwords."""
    values = list(list_known_tokens(directory, project.token_references, os.environ))
    if project.token_env is not None:
        values.append(os.environ.get(project.token_env, ""))
    for variable in project.variables:
        value = os.environ.get(variable.name, "")
        if variable.is_secret or _PASSWORD_URL.search(value):
            values.append(value)
    return values


def _format_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _deliver(text: str, output: Path | None, *, sources: Iterable[Path] = ()) -> None:
    """Print a text, or write it to a file. Raises ConfigError as `_write_file` does."""
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    _write_file(text.rstrip("\n").encode("utf-8", errors="replace") + b"\n", output, sources=sources)
    report(f"Wrote {output}")


def _write_file(content: bytes, output: Path, *, sources: Iterable[Path] = ()) -> None:
    """Write a file atomically. Raises ConfigError if writing fails, or if the file is one of the `sources`."""
    # The target of a link may be on another file system.
    real = Path(os.path.realpath(output))
    try:
        if output.exists() and any(source.exists() and output.samefile(source) for source in sources):
            problem = "this is a file of the project, and would be overwritten"
            raise ConfigError(problem, path=str(output), where="--output", hint="Use another file")
        # A pipe or a terminal cannot be replaced.
        if output.exists() and not output.is_file():
            output.write_bytes(content)
            return
        temporary = real.with_name(f".mcp-bridge-{os.getpid()}")
        with contextlib.ExitStack() as undo:
            with temporary.open("xb") as file:
                undo.callback(temporary.unlink)
                file.write(content)
            temporary.replace(real)
            undo.pop_all()
    except OSError as error:
        raise ConfigError(f"cannot write: {error.strerror}", path=str(output), hint="Use another file") from error
