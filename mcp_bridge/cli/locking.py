"""`module lock`: fetch the modules of a settings file that come from git, and write down which commits these are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge.cli.exits import Exit, counted, say
from mcp_bridge.cli.target import SETTINGS, find
from mcp_bridge.contracts.errors import BridgeError, ConfigError

if TYPE_CHECKING:
    from mcp_bridge.amplifier.source.lock_file import Locked, Outcome, Wanted
    from mcp_bridge.amplifier.source.options import AmplifierOptions
    from mcp_bridge.settings import Settings, SourceSettings


def lock(path: Path | None, *, update: bool, as_json: bool) -> None:
    """Lock what the plans of a file name, and say what was done; exit 1 when something cannot be fetched.

    Raises ConfigError for settings that cannot be used, or that name what they do not allow.
    """
    from mcp_bridge.amplifier.source.lock_file import LockFile, Locking
    from mcp_bridge.settings import load

    path = find(path)
    if path.suffix.lower() not in SETTINGS:
        hint = f"Name settings or a mount plan ({', '.join(SETTINGS)})"
        raise ConfigError("modules from git are named in settings", path=str(path), hint=hint)
    settings = load(path, os.environ)
    wanted = _wanted(settings)
    found = LockFile.of(settings.directory)
    report = (lambda text: None) if as_json else say
    outcome = Locking(found, path.name, update=update, report=report).run(wanted)
    _tell(outcome, found.path, as_json=as_json)
    raise SystemExit(Exit.FAILED if outcome.failed else Exit.OK)


def _wanted(settings: Settings) -> list[Wanted]:
    """The modules from git of all plans. Raises ConfigError that names each which is not allowed, with its line."""
    from mcp_bridge.amplifier.source.git import parsed
    from mcp_bridge.amplifier.source.lock_file import Wanted
    from mcp_bridge.documents.document import combined

    wanted, errors = [], []
    for source in settings.sources:
        options = _options(source)
        for place, uri in _named(options) if options is not None else ():
            assert options is not None
            try:
                address = parsed(uri)
                address.check(options.git)
            except BridgeError as error:
                errors.append(_at(source, place, str(error)))
            else:
                wanted.append(Wanted(address, options.folder(settings.directory)))
    if errors:
        raise combined(errors)
    return wanted


def _options(source: SourceSettings) -> AmplifierOptions | None:
    """The options of a source where it is one of Amplifier modules."""
    from mcp_bridge.amplifier.source.options import AmplifierOptions
    from mcp_bridge.registry.plugins import source_type
    from mcp_bridge.settings import options

    model = source_type(source.type)
    if not (isinstance(model, type) and issubclass(model, AmplifierOptions)):
        return None
    return options(model, source)


def _named(options: AmplifierOptions) -> Iterator[tuple[tuple[str | int, ...], str]]:
    from mcp_bridge.amplifier.plan import read
    from mcp_bridge.amplifier.source.git import is_git

    plan, _ = read(options.plan)
    for spec in plan.everything():
        if is_git(spec.source):
            yield (*spec.place, "source"), spec.source


def _at(source: SourceSettings, place: tuple[str | int, ...], problem: str) -> ConfigError:
    """An error at the place in the file; a file that is a plan itself has no `plan` above it."""
    if source.origin is None:
        return ConfigError(problem)
    where = source.origin.where
    return source.origin.document.error((*where, "plan", *place) if where else place, problem)


def _tell(outcome: Outcome, path: Path, *, as_json: bool) -> None:
    if as_json:
        from mcp_bridge.cli.showing import data

        rows = [_row(one) for one in outcome.locked]
        data({"lock": str(path), "modules": rows, "removed": outcome.removed, "errors": outcome.failed})
        return
    for problem in outcome.failed:
        say(f"mcp-bridge: {problem}")
    if outcome.failed:
        say("nothing was locked, see above")
        return
    for one in outcome.locked:
        say(f"{_state(one):8} {one.entry.commit[:12]}  {one.uri}")
    for uri in outcome.removed:
        say(f"{'removed':8} {'':12}  {uri}")
    say(f"{path.name}: {counted(len(outcome.locked), 'module')} from git")


def _state(one: Locked) -> str:
    if not one.was:
        return "locked"
    return "kept" if one.was == one.entry.commit else "updated"


def _row(one: Locked) -> dict[str, Any]:
    row = {"uri": one.uri, "state": _state(one), "commit": one.entry.commit, "hash": one.entry.hash}
    return row | {"was": one.was or None, "folder": str(one.folder), "installed": list(one.entry.installed)}
