"""`module lock`: fetches the modules of a settings file that come from git, and records their commits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_bridge.amplifier.plan import read
from mcp_bridge.amplifier.source.git import is_git, parsed
from mcp_bridge.amplifier.source.lock_file import Locked, LockFile, Locking, Outcome, Wanted
from mcp_bridge.amplifier.source.options import AmplifierOptions
from mcp_bridge.cli.exits import Exit
from mcp_bridge.cli.group_options import LockOptions
from mcp_bridge.cli.output import format_count, report, write_json
from mcp_bridge.cli.target import SETTINGS_SUFFIXES, find_file, is_settings
from mcp_bridge.contracts.errors import BridgeError, ConfigError
from mcp_bridge.documents.document import combined
from mcp_bridge.registry.plugins import source_type
from mcp_bridge.settings import Settings, SourceSettings, load, options


def lock_modules(command: LockOptions) -> None:
    """Lock the modules that the plans of a settings file name; exit with 1 if one cannot be fetched.

    Raises ConfigError for settings that cannot be used, and for sources of modules that they do not allow.
    """
    file = find_file(command.file)
    if not is_settings(file):
        hint = f"Pass a settings file or a mount plan ({', '.join(SETTINGS_SUFFIXES)})"
        raise ConfigError("modules from git are listed in settings", path=str(file), hint=hint)
    settings = load(file, os.environ)
    wanted = _find_git_modules(settings)
    lock_file = LockFile.of(settings.directory)
    report_progress = _ignore if command.as_json else report
    outcome = Locking(lock_file, file.name, update=command.update, report=report_progress).run(wanted)
    if command.as_json:
        rows = [_describe_module(module) for module in outcome.locked]
        removed, failed = outcome.removed, outcome.failed
        write_json({"lock": str(lock_file.path), "modules": rows, "removed": removed, "errors": failed})
    else:
        _report_outcome(outcome, lock_file.path)
    raise SystemExit(Exit.FAILED if outcome.failed else Exit.OK)


def _ignore(text: str) -> None:
    pass


def _find_git_modules(settings: Settings) -> list[Wanted]:
    """Find the modules from git in all plans. Raises ConfigError with the line of each that is not allowed."""
    wanted, errors = [], []
    for source in settings.sources:
        model = source_type(source.type)
        if not (isinstance(model, type) and issubclass(model, AmplifierOptions)):
            continue
        amplifier = options(model, source)
        for place, uri in _list_git_sources(amplifier):
            try:
                address = parsed(uri)
                address.check(amplifier.git)
            except BridgeError as error:
                errors.append(_locate_error(source, place, str(error)))
            else:
                wanted.append(Wanted(address, amplifier.folder(settings.directory)))
    if errors:
        raise combined(errors)
    return wanted


def _list_git_sources(amplifier: AmplifierOptions) -> Iterator[tuple[tuple[str | int, ...], str]]:
    plan, _ = read(amplifier.plan)
    for spec in plan.everything():
        if is_git(spec.source):
            yield (*spec.place, "source"), spec.source


def _locate_error(source: SourceSettings, place: tuple[str | int, ...], problem: str) -> ConfigError:
    """Return an error with its place in the file; a file that is itself a plan has no key `plan`."""
    if source.origin is None:
        return ConfigError(problem)
    where = source.origin.where
    return source.origin.document.error((*where, "plan", *place) if where else place, problem)


def _report_outcome(outcome: Outcome, path: Path) -> None:
    for problem in outcome.failed:
        report(f"mcp-bridge: {problem}")
    if outcome.failed:
        report("Nothing was locked. Fix these problems and retry.")
        return
    for module in outcome.locked:
        report(f"{_describe_change(module):8} {module.entry.commit[:12]}  {module.uri}")
    for uri in outcome.removed:
        report(f"{'removed':8} {'':12}  {uri}")
    report(f"{path.name}: {format_count(len(outcome.locked), 'module')} from git")


def _describe_change(module: Locked) -> str:
    if not module.was:
        return "locked"
    return "kept" if module.was == module.entry.commit else "updated"


def _describe_module(module: Locked) -> dict[str, Any]:
    entry = module.entry
    row = {"uri": module.uri, "state": _describe_change(module), "commit": entry.commit, "hash": entry.hash}
    return row | {"was": module.was or None, "folder": str(module.folder), "installed": list(entry.installed)}
