"""Finds the module to validate, and checks its import name and its entry point without running it."""

from __future__ import annotations

import keyword
import os
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge._integrations.amplifier.loader import ModuleLoader
from mcp_bridge._integrations.amplifier.module_import import find_import_target
from mcp_bridge._integrations.amplifier.module_sources import ENTRY_POINT_GROUP, FileSource

NAME_RULE = "its_import_name_is_valid"
ENTRY_POINT_RULE = "its_pyproject_has_an_entry_point_that_names_it"
_FOLDER_PREFIX = "amplifier-module-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedModule:
    """A module to examine. It has either a `path`, or the entry `point` of an installed package."""

    id: str
    path: Path | None = None
    point: EntryPoint | None = None


def find_module(address: str, folder: Path) -> ExaminedModule:
    """Find the module of a path or a name. A name is looked up as in `ModuleLoader`. Raises ModuleNotFoundError."""
    if "://" in address and not address.startswith("file://"):
        raise ModuleNotFoundError(f"{address[:100]} is a URL, and this command fetches nothing")
    if _is_path(address, folder):
        try:
            path = FileSource(address if address.startswith(("file://", "~")) else folder / address).resolve()
        except OSError as error:
            raise ModuleNotFoundError(f"{address[:100]}: {error.strerror}") from error
        if path.is_file() and path.suffix != ".py":
            raise ModuleNotFoundError(f"{address[:100]} is a file, but not a Python file")
        name = path.stem if path.is_file() else path.name
        return ExaminedModule(id=name.removeprefix(_FOLDER_PREFIX), path=path)
    points = entry_points(group=ENTRY_POINT_GROUP)
    matches = points.select(name=address)
    if matches:
        return ExaminedModule(id=address, point=next(iter(matches)))
    match = ModuleLoader(search_paths=[folder]).search_folders(address)
    if match is not None:
        return ExaminedModule(id=address, path=match.resolve())
    hint = f". Installed modules: {', '.join(sorted(points.names))}" if points else ""
    raise ModuleNotFoundError(
        f"'{address}' is neither a folder nor a file, and no module of that name is installed or in {folder}{hint}"
    )


def check_structure(subject: ExaminedModule) -> dict[str, str]:
    """Return the problem of each applicable rule; empty if the module follows the rule."""
    if subject.point is not None:
        return {NAME_RULE: _describe_name_problem(subject.point.module)}
    assert subject.path is not None
    try:
        name = find_import_target(subject.path, subject.id).name
    except ModuleLoadError:
        # The import of the module reports the same error.
        return {}
    problems = {NAME_RULE: _describe_name_problem(name)}
    file = _find_pyproject(subject.path)
    if file is not None or not subject.path.is_file():
        problems[ENTRY_POINT_RULE] = _describe_entry_point_problem(file, subject.path, name)
    return problems


def _describe_name_problem(name: str) -> str:
    for segment in name.split("."):
        if not segment.isidentifier() or keyword.iskeyword(segment):
            return f"'{segment}' is not valid in an import. Rename it"
    top = name.partition(".")[0]
    return f"'{top}' is a module of the standard library. Rename it" if top in sys.stdlib_module_names else ""


def _describe_entry_point_problem(file: Path | None, path: Path, name: str) -> str:
    table = f'[project.entry-points."{ENTRY_POINT_GROUP}"]'
    if file is None:
        return f"{path} has no pyproject.toml. Add one, with {table}"
    try:
        project: Any = tomllib.loads(file.read_text("utf-8"))
        points = project["project"]["entry-points"][ENTRY_POINT_GROUP]
        targets = [str(value).partition(":")[0].strip() for value in points.values()]
    except (OSError, ValueError) as error:
        return f"{file} cannot be read: {error}"
    except (KeyError, TypeError, AttributeError):
        targets = []
    # A single file needs no entry point.
    if name in targets or (path.is_file() and not targets):
        return ""
    return f"no entry point in {file} names '{name}'. Add {table} with NAME = \"{name}:mount\""


def _find_pyproject(path: Path) -> Path | None:
    """Return the pyproject.toml of the project around a file or a package. The code may be in the folder `src`."""
    folder = path if path.is_dir() else path.parent
    while (folder / "__init__.py").is_file() and not (folder / "pyproject.toml").is_file():
        folder = folder.parent
    candidates = [folder / "pyproject.toml"]
    if folder.name == "src":
        candidates.append(folder.parent / "pyproject.toml")
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    return None


def _is_path(address: str, folder: Path) -> bool:
    if address.startswith(("file://", "~", ".")) or address.endswith(".py"):
        return True
    return "/" in address or "\\" in address or os.path.exists(folder / address)
