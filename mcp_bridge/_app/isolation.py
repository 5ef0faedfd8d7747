"""Isolates a source: builds the order and the confinement of its workers from the settings."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.source import Source
from mcp_bridge._engine.selection import Selection
from mcp_bridge._isolation.confinement import Confinement, ContainedProcess, PlainProcess, SandboxedProcess
from mcp_bridge._isolation.options import IsolationOptions
from mcp_bridge._isolation.order import WorkerLimits, WorkerOrder
from mcp_bridge._isolation.source import IsolatedSource
from mcp_bridge._runtime import sandbox
from mcp_bridge._runtime.container.engine import find_program

if TYPE_CHECKING:
    from mcp_bridge._settings import Settings, SourceSettings
    from mcp_bridge._settings.isolation import ContainerSettings
    from mcp_bridge._settings.sections import SandboxSettings

logger = logging.getLogger("mcp_bridge.isolation")


def isolate(inner: Source, source: SourceSettings, settings: Settings, selection: Selection, *, watch: bool) -> Source:
    """Wrap a source so that it runs in worker processes. Raises ConfigError if its confinement is unavailable."""
    options = source.isolation
    directory = settings.directory
    assert options is not None
    if inner.middleware and not options.tools and not inner.disable_middleware():
        hint = "List the tools to isolate under isolation.tools, or remove isolation"
        error = ConfigError("its hooks govern calls, which is not possible from another process", hint=hint)
        raise source.add_location(error, "isolation")
    confinement: Confinement = PlainProcess()
    key = "sandbox" if options.container is None else "container"
    # Without a sandbox or container, the code of the worker could do as much as other tools.
    invokes: tuple[str, ...] = ("*",)
    if options.sandbox is not None:
        confinement, invokes = _build_sandbox(inner, source, options.sandbox, directory), ()
    if options.container is not None:
        confinement, invokes = _build_container(inner, source, options.container, directory), ()
    if options.tools and not isinstance(confinement, PlainProcess):
        logger.warning(
            "SECURITY: source %r has isolation.tools, so the bridge imports its code outside of the sandbox or "
            "container, and confines only calls of these tools. If you do not trust the code, remove `tools`",
            inner.name,
        )
    isolation = IsolationOptions(
        tools=options.tools,
        workers=options.workers,
        limits=WorkerLimits(memory=options.memory, file_size=options.file_size),
        env=options.env,
        invokes=invokes if options.invokes is None else options.invokes,
        confinement=confinement,
        place=str(source.add_location(ConfigError(f"source '{inner.name}'"), "isolation", key)),
    )
    order = WorkerOrder(
        type=source.type,
        name=inner.name,
        options=source.options,
        directory=str(directory.resolve()),
        working_dir=str(settings.working_directory),
        roots=settings.uses_roots,
        watch=watch,
        is_whole=not options.tools,
        is_contained=options.container is not None,
        selection=selection.dump(),
    )
    return IsolatedSource(inner, order, isolation)


def _build_sandbox(inner: Source, source: SourceSettings, settings: SandboxSettings, directory: Path) -> Confinement:
    """Return the sandbox of a source, with its own files and those in the settings.

    Raises ConfigError if no sandbox is installed, or if the sandbox would make the home folder accessible.
    """
    try:
        sandbox.check_installation(settings.type)
        files = sandbox.list_source_files(inner, directory.resolve())
    except ConfigError as error:
        raise source.add_location(error, "isolation", "sandbox") from None
    # Python lists the folders from which it imports the source and this package.
    listed_folders = (str(directory.resolve()), str(sandbox.PACKAGE_FOLDER.parent))
    options = settings.to_options(directory, files, listed_folders)
    sandbox.warn_of_home(inner.name, "isolation.sandbox.read", options.read)
    sandbox.warn_of_home(inner.name, "isolation.sandbox.write", options.write)
    return SandboxedProcess(options=options)


def _build_container(
    inner: Source, source: SourceSettings, settings: ContainerSettings, directory: Path
) -> Confinement:
    """Return the container of a source, with its own files and those in the settings.

    Raises ConfigError if no engine is installed, or if the container would make the home folder accessible.
    """
    try:
        program = find_program(settings.engine)
        files = sandbox.list_source_files(inner, directory.resolve())
    except ConfigError as error:
        raise source.add_location(error, "isolation", "container") from None
    options = settings.to_options(program, directory, files)
    sandbox.warn_of_home(inner.name, "isolation.container.read", options.read)
    sandbox.warn_of_home(inner.name, "isolation.container.write", options.write)
    return ContainedProcess(options=options, source=inner.name)
