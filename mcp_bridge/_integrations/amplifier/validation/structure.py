"""The structure of a module, checked without running it: its folder, its pyproject.toml and its entry point."""

from __future__ import annotations

import keyword
import os
import sys
import tomllib
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge._integrations.amplifier.loader import ModuleLoader
from mcp_bridge._integrations.amplifier.module_import import ImportTarget, find_import_target
from mcp_bridge._integrations.amplifier.module_sources import ENTRY_POINT_GROUP, FileSource
from mcp_bridge._integrations.amplifier.validation.checklist import ItemFindings

PREFIX = "amplifier-module-"
_POINT = f'[project.entry-points."{ENTRY_POINT_GROUP}"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedModule:
    """A module to examine, by its `path`, or by the `point` of an installed package."""

    id: str
    path: Path | None = None
    point: EntryPoint | None = None


def find_module(given: str, folder: Path) -> ExaminedModule:
    """Find the module that a path or a name means. Names resolve as in the loader. Raises ModuleNotFoundError."""
    if "://" in given and not given.startswith("file://"):
        raise ModuleNotFoundError(f"{given[:100]} is a URL, and this command fetches nothing")
    if _is_path(given, folder):
        try:
            path = FileSource(given if given.startswith(("file://", "~")) else folder / given).resolve()
        except OSError as error:
            raise ModuleNotFoundError(f"{given[:100]}: {error.strerror}") from error
        if path.is_file() and path.suffix != ".py":
            raise ModuleNotFoundError(f"{given[:100]} is a file, but not a Python file")
        name = path.stem if path.is_file() else path.name
        return ExaminedModule(id=name.removeprefix(PREFIX), path=path)
    points = entry_points(group=ENTRY_POINT_GROUP)
    if found_points := points.select(name=given):
        return ExaminedModule(id=given, point=next(iter(found_points)))
    found = ModuleLoader(search_paths=[folder]).search_folders(given)
    if found is not None:
        return ExaminedModule(id=given, path=found.resolve())
    known = f". Installed modules: {', '.join(sorted(points.names))}" if points else ""
    raise ModuleNotFoundError(
        f"'{given}' is neither a folder nor a file, and no module of that name is installed or in {folder}{known}"
    )


def check_structure(subject: ExaminedModule, findings: ItemFindings) -> bool:
    """Check the structure of a module. Return whether there is anything to import."""
    if subject.point is not None:
        return _check_installed(subject.point, findings)
    assert subject.path is not None
    try:
        place = find_import_target(subject.path, subject.id)
    except ModuleLoadError as error:
        _check_pyproject(subject, None, findings)
        findings.add("structure.package", "failed", str(error), "Put the code into a package, with __init__.py")
        return False
    top = place.name.partition(".")[0]
    there = PathFinder.find_spec(top, [str(place.folder)]) is not None
    _add_package(findings, f"{place.folder} has '{place.name}'", there=there)
    _check_name(place.name, findings)
    _check_pyproject(subject, place, findings)
    return there


def _check_installed(point: EntryPoint, findings: ItemFindings) -> bool:
    top = point.module.partition(".")[0]
    there = PathFinder.find_spec(top, sys.path) is not None
    _add_package(findings, f"the entry point '{point.name}' names '{point.value}'", there=there)
    _check_name(point.module, findings)
    findings.add("structure.pyproject", "skipped", "an installed module needs none")
    if there:
        findings.add("structure.entry_point", "passed", f"{point.name} = {point.value}")
    return there


def _add_package(findings: ItemFindings, what: str, *, there: bool) -> None:
    if there:
        findings.add("structure.package", "passed", what)
    else:
        findings.add("structure.package", "failed", f"{what}, which does not exist", "Check the package and its name")


def _check_name(name: str, findings: ItemFindings) -> None:
    wrong = next((part for part in name.split(".") if not part.isidentifier() or keyword.iskeyword(part)), None)
    top = name.partition(".")[0]
    if wrong is not None:
        advice = f"Rename it, such as to '{''.join(c if c.isalnum() else '_' for c in wrong)}'"
        findings.add("structure.name", "failed", f"'{wrong}' is not valid in an import", advice)
    elif top in sys.stdlib_module_names:
        findings.add("structure.name", "failed", f"'{top}' is a module of the standard library", "Rename it")
    else:
        findings.add("structure.name", "passed", name)


def _check_pyproject(subject: ExaminedModule, place: ImportTarget | None, findings: ItemFindings) -> None:
    """Check the pyproject.toml, which a single file does not need."""
    assert subject.path is not None
    file = _find_pyproject(subject.path)
    if file is None and subject.path.is_file():
        for item in ("structure.pyproject", "structure.entry_point"):
            findings.add(item, "skipped", "a single file needs none")
        return
    if file is None:
        found = f"{subject.path} has no pyproject.toml"
        findings.add("structure.pyproject", "failed", found, f"Add one, with {_POINT}")
        findings.add("structure.entry_point", "skipped", found)
        return
    try:
        declared: Any = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        findings.add("structure.pyproject", "failed", f"{file} cannot be read: {error}", "Fix the file")
        findings.add("structure.entry_point", "skipped", "pyproject.toml cannot be read")
        return
    findings.add("structure.pyproject", "passed", str(file))
    if place is None:
        findings.add("structure.entry_point", "skipped", "there is no package for it")
        return
    _check_entry_point(file, _read_entry_points(declared), place, findings, single=subject.path.is_file())


def _check_entry_point(
    file: Path, points: dict[str, str], place: ImportTarget, findings: ItemFindings, *, single: bool
) -> None:
    targets = {name: value.partition(":")[0].strip() for name, value in points.items()}
    mine = next((name for name, target in targets.items() if target == place.name), None)
    if mine is not None:
        findings.add("structure.entry_point", "passed", f"{mine} = {points[mine]}")
        return
    if single and not points:
        findings.add("structure.entry_point", "skipped", "a single file needs none")
        return
    known = ", ".join(f"{name} = {value}" for name, value in points.items()) or "none"
    advice = f'Add {_POINT} with NAME = "{place.name}:mount"'
    findings.add(
        "structure.entry_point",
        "failed",
        f"the entry points {ENTRY_POINT_GROUP} of {file} are: {known}, and none of them names '{place.name}'",
        advice,
    )


def _read_entry_points(declared: Any) -> dict[str, str]:
    try:
        points = declared["project"]["entry-points"][ENTRY_POINT_GROUP]
        return {str(name): str(value) for name, value in points.items()}
    except (KeyError, TypeError, AttributeError):
        return {}


def _find_pyproject(path: Path) -> Path | None:
    """The pyproject.toml of a folder, or of the project around a file or a package, at most one `src` further up."""
    if path.is_dir() and not (path / "__init__.py").is_file():
        return path / "pyproject.toml" if (path / "pyproject.toml").is_file() else None
    top = path if path.is_dir() else path.parent
    while (top / "__init__.py").is_file() and not (top / "pyproject.toml").is_file():
        top = top.parent
    places = [top, top.parent] if top.name == "src" else [top]
    return next((place / "pyproject.toml" for place in places if (place / "pyproject.toml").is_file()), None)


def _is_path(given: str, folder: Path) -> bool:
    is_marked = given.startswith(("file://", "~", ".")) or "/" in given or "\\" in given or given.endswith(".py")
    return is_marked or os.path.exists(folder / given)
