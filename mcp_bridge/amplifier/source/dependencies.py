"""Dependencies of modules from git: what a pyproject.toml requires, what is installed, and what pip adds."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, DistributionFinder, distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcp_bridge.amplifier.errors import ModuleLoadError
from mcp_bridge.amplifier.importing import CORE

if TYPE_CHECKING:
    from packaging.requirements import Requirement

TIMEOUT = 600.0
"""Seconds that pip may take."""
_CORE = CORE.replace("_", "-")
_TARGET_VARIABLES = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")
"""Environment variables that would make pip install to another folder, or not at all."""


def site_of(sites: Path, subdirectory: str) -> Path:
    """The folder of a module's packages. It depends on the Python version, because several may share a checkout."""
    python = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    return sites / python / (quote(subdirectory, safe="") or "top")


def needed(folder: Path, uri: str) -> list[Requirement]:
    """The requirements of a module on this machine, without amplifier-core. Raises ModuleLoadError."""
    with _explain_errors(uri):
        lines = _read_project(folder).get("dependencies", [])
        return _parse_requirements(lines) if lines else []


def check_python(folder: Path, uri: str) -> None:
    """Raises ModuleLoadError where a module requires another version of Python."""
    from packaging.specifiers import SpecifierSet

    with _explain_errors(uri):
        required, version = _read_project(folder).get("requires-python", ""), platform.python_version()
        is_supported = SpecifierSet(required).contains(version, prereleases=True)
    if not is_supported:
        raise ModuleLoadError(f"{uri} is for Python {required}, and the bridge runs on {version}")


def missing(requirements: Sequence[Requirement], path: Sequence[str]) -> list[Requirement]:
    """The requirements that are installed in none of these folders."""
    return [one for one in requirements if any(_find_package(name, path) is None for name in _list_names(one, path))]


def clashing(requirements: Sequence[Requirement], path: Sequence[str]) -> list[str]:
    """The requirements of which another version is installed, which Python would import first, as messages."""
    clashes = []
    for one in requirements:
        found = _find_package(one.name, path)
        if found is not None and not one.specifier.contains(found.version, prereleases=True):
            clashes.append(f"{one.name}{one.specifier}, where {found.version} is installed")
    return clashes


def present(site: Path) -> list[str]:
    """The packages in a folder, as `name==version`."""
    return sorted(f"{one.name}=={one.version}" for one in distributions(path=[str(site)]))


def agree(installed: Sequence[str], locked: Sequence[str]) -> bool:
    """Whether each package that is in both lists has the same version in both."""
    ours, theirs = (dict(line.split("==", 1) for line in lines if "==" in line) for lines in (installed, locked))
    return all(theirs.get(name, version) == version for name, version in ours.items())


def install(requirements: Sequence[Requirement], site: Path, uri: str, versions: Sequence[str] = ()) -> None:
    """Install into a new folder, in the versions that `versions` lists. Raises ModuleLoadError where pip fails.

    Only wheels are installed, because their installation runs no code. Packages of the bridge's own environment are
    imported first, so their versions apply here as well.
    """
    urls = [str(one) for one in requirements if one.url]
    names = " ".join(repr(str(one)) for one in requirements)
    if urls:
        raise ModuleLoadError(f"{uri} needs {', '.join(urls)}, which is not fetched. Install it with the bridge")
    if importlib.util.find_spec("pip") is None:
        raise ModuleLoadError(f"{uri} needs {names}, and there is no pip to fetch it. Install it with the bridge")
    site.mkdir(parents=True)
    constraints = site.with_name(f"{site.name}.txt")
    constraints.write_text("\n".join([*_list_environment(), *versions]), "utf-8")
    options = ["--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--no-compile", "--quiet"]
    _run_pip(["install", *options, "--target", str(site), "--constraint", str(constraints), "--"], requirements, uri)
    for core in (*site.glob(CORE), *site.glob(f"{CORE}-*.dist-info")):
        shutil.rmtree(core)  # two copies would not recognise each other's classes


def _run_pip(args: Sequence[str], requirements: Sequence[Requirement], uri: str) -> None:
    names = [str(one) for one in requirements]
    try:
        done = subprocess.run(  # noqa: S603  # parsed requirements, and no shell
            [sys.executable, "-P", "-m", "pip", *args, *names],
            env={name: value for name, value in os.environ.items() if name not in _TARGET_VARIABLES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ModuleLoadError(f"{uri}: pip took longer than {TIMEOUT:g} seconds for {', '.join(names)}") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
        problem = "; ".join(line.removeprefix("ERROR: ").strip() for line in lines)
        raise ModuleLoadError(f"{uri} needs {', '.join(names)}, which pip cannot install: {problem}")


def _read_project(folder: Path) -> dict[str, Any]:
    try:
        text = (folder / "pyproject.toml").read_text("utf-8")
    except FileNotFoundError:
        return {}
    project: dict[str, Any] = tomllib.loads(text).get("project", {})
    return project


@contextlib.contextmanager
def _explain_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ModuleLoadError(f"{uri}: its pyproject.toml cannot be read: {error}") from error


def _parse_requirements(lines: Sequence[str]) -> list[Requirement]:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return [
        one
        for one in map(Requirement, lines)
        if canonicalize_name(one.name) != _CORE and (one.marker is None or one.marker.evaluate({"extra": ""}))
    ]


def _list_names(requirement: Requirement, path: Sequence[str]) -> Iterator[str]:
    """The required package, and the packages that its extras require."""
    yield requirement.name
    found = _find_package(requirement.name, path) if requirement.extras else None
    for line in (found.requires or []) if found is not None else []:
        from packaging.requirements import Requirement

        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            continue
        if any(one.marker.evaluate({"extra": extra}) for extra in requirement.extras):
            yield one.name


def _find_package(name: str, path: Sequence[str]) -> Distribution | None:
    context: Any = DistributionFinder.Context(name=name, path=list(path))
    return next(iter(Distribution.discover(context=context)), None)


def _list_environment() -> list[str]:
    """The packages of the bridge's environment, as `name==version`."""
    versions = {one.name: one.version for one in reversed(list(distributions())) if one.name and one.version}
    return [f"{name}=={version}" for name, version in sorted(versions.items())]
