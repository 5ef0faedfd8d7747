"""`module lock`: fetches modules from git, and records their commits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mcp_bridge._cli.exits import exit_with
from mcp_bridge._cli.options import LockOptions
from mcp_bridge._cli.output import format_count, print_lines, report, write_json
from mcp_bridge._cli.target import find_settings
from mcp_bridge._contracts.errors import BridgeError, ConfigError
from mcp_bridge._engine.plugins import load_source_type
from mcp_bridge._integrations.amplifier.mount_plan import read_plan
from mcp_bridge._integrations.amplifier.source.git import is_git_source, parse_address
from mcp_bridge._integrations.amplifier.source.lock_file import (
    LockedModule,
    LockFile,
    LockOutcome,
    ModuleLocker,
    RequestedModule,
)
from mcp_bridge._integrations.amplifier.source.options import AmplifierOptions
from mcp_bridge._integrations.amplifier.source.source import AmplifierSource
from mcp_bridge._settings import Settings, SourceSettings, load, parse_options
from mcp_bridge._settings.documents.document import join_errors


def lock_modules(command: LockOptions) -> None:
    """Lock the modules in the plans of a settings file. Exit with 1 if one cannot be fetched.

    Raises ConfigError if the settings are invalid, or do not allow the source of a module.
    """
    settings = load(find_settings(command.file, "a settings file or a mount plan"), os.environ)
    modules = _find_git_modules(settings)
    lock_file = LockFile.read(settings.directory)
    progress = (lambda _: None) if command.as_json else report
    outcome = ModuleLocker(lock_file, update=command.update, report=progress).lock(modules)
    if command.as_json:
        rows = [_describe_module(module) for module in outcome.locked]
        write_json({"lock": str(lock_file.path), "modules": rows, "errors": outcome.errors})
    else:
        _report_outcome(outcome, lock_file.path)
    exit_with(ok=not outcome.errors)


def _find_git_modules(settings: Settings) -> list[RequestedModule]:
    """Find the modules from git in all plans. Raises ConfigError with the line of each forbidden one."""
    modules: list[RequestedModule] = []
    errors: list[ConfigError] = []
    for source in settings.sources:
        if not issubclass(load_source_type(source.type), AmplifierSource):
            continue
        amplifier = parse_options(AmplifierOptions, source)
        plan, _ = read_plan(amplifier.plan)
        for spec in (*plan.list_modules(), *plan.list_agent_modules()):
            if not is_git_source(spec.source):
                continue
            try:
                address = parse_address(spec.source)
                address.require_allowed(amplifier.git)
            except BridgeError as error:
                errors.append(_locate_error(source, (*spec.place, "source"), str(error)))
            else:
                modules.append(RequestedModule(address, amplifier.get_checkouts_folder(settings.directory)))
    if errors:
        raise join_errors(errors)
    return modules


def _locate_error(source: SourceSettings, place: tuple[str | int, ...], problem: str) -> ConfigError:
    """Return an error with its place in the file. `place` is the key path in the plan."""
    if source.origin is None:
        return ConfigError(problem)
    # If the whole file is the plan, the source has no place, and no key `plan`.
    where = source.origin.where
    if where:
        place = (*where, "plan", *place)
    return source.origin.document.make_error(place, problem)


def _report_outcome(outcome: LockOutcome, path: Path) -> None:
    if outcome.errors:
        for problem in outcome.errors:
            report(f"mcp-bridge: {problem}")
        report("Nothing was locked. Fix these problems and retry.")
        return
    for module in outcome.locked:
        print_lines(f"{_describe_change(module):8} {module.entry.commit[:12]}  {module.uri}")
    print_lines(f"{path.name}: {format_count(len(outcome.locked), 'module')} from git")


def _describe_change(module: LockedModule) -> str:
    if not module.previous_commit:
        return "locked"
    return "kept" if module.previous_commit == module.entry.commit else "updated"


def _describe_module(module: LockedModule) -> dict[str, Any]:
    entry = module.entry
    return {
        "uri": module.uri,
        "state": _describe_change(module),
        "commit": entry.commit,
        "hash": entry.hash,
        "was": module.previous_commit or None,
        "folder": str(module.folder),
    }
