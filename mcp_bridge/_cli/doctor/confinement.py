"""Checks the sandboxes and containers in a settings file: which mechanism each of them uses, and whether it works.

They are tried without the files of the sources, whose code `doctor` does not load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
from pydantic import TypeAdapter, ValidationError

from mcp_bridge._cli.doctor.report import CheckResult
from mcp_bridge._cli.target import is_settings
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._runtime import sandbox
from mcp_bridge._runtime.container import engine as container_engine
from mcp_bridge._settings import SourceSettings, load
from mcp_bridge._settings.isolation import ContainerSettings
from mcp_bridge._settings.sections import OptionalSandbox, SandboxSettings

_SANDBOXED_TYPES = ("command", "mcp")
"""The types of sources whose programs can run in a sandbox."""
_MEMORY = 64 * 1024**2


def check_confinements(path: Path, environ: Mapping[str, str]) -> list[CheckResult]:
    """Return a result for each sandbox and container in a settings file."""
    if not is_settings(path):
        return []
    try:
        settings = load(path, environ)
    except ConfigError:
        # The server reports the error itself.
        return []
    results = []
    for source in settings.sources:
        for place, confinement in _list_confinements(source):
            try:
                if isinstance(confinement, SandboxSettings):
                    folder = settings.directory / Path(source.options.get("cwd") or "").expanduser()
                    mechanism = _find_mechanism(confinement, folder)
                else:
                    mechanism = _find_engine(confinement)
                results.append(CheckResult(place, True, f"works, with {mechanism}"))
            except (ConfigError, SourceError) as error:
                results.append(CheckResult(place, False, str(error)))
    return results


def _list_confinements(source: SourceSettings) -> Iterator[tuple[str, SandboxSettings | ContainerSettings]]:
    """Yield the sandboxes and containers of a source with their places in the settings."""
    settings = source.isolation
    if settings is not None and settings.sandbox is not None:
        yield source.add_location(ConfigError(""), "isolation", "sandbox").where, settings.sandbox
    if settings is not None and settings.container is not None:
        yield source.add_location(ConfigError(""), "isolation", "container").where, settings.container
    if source.type in _SANDBOXED_TYPES and "sandbox" in source.options:
        try:
            options: SandboxSettings | None = TypeAdapter(OptionalSandbox).validate_python(source.options["sandbox"])
        except ValidationError:
            return
        if options is not None:
            yield source.add_location(ConfigError(""), "sandbox").where, options


def _find_mechanism(settings: SandboxSettings, directory: Path) -> str:
    """Return the mechanism of a sandbox. Raises ConfigError or SourceError if there is none."""
    sandbox.check_installation(settings.type)
    options = anyio.run(sandbox.probe, settings.to_options(directory), str(directory.resolve()), _MEMORY)
    return anyio.run(sandbox.describe_mechanism, options.type)


def _find_engine(settings: ContainerSettings) -> str:
    """Return the engine and the image of a container. Raises ConfigError or SourceError if it cannot be started."""
    program = container_engine.find_program(settings.engine)
    image = settings.to_options(program, Path()).image
    engine = anyio.run(container_engine.probe, program, image)
    return f"{engine.version} and the image {image}"
