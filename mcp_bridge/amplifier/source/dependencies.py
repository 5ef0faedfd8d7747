"""What a module from git needs besides itself: what its pyproject.toml says, what is there, what is to be installed."""

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

PATIENCE = 600.0
"""Seconds that pip may take."""
_CORE = CORE.replace("_", "-")
_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")
"""Settings of pip that would have it install to another place, or not at all."""


def site_of(sites: Path, subdirectory: str) -> Path:
    """Where the packages that a module needs are, for this Python: a checkout may be used by several."""
    python = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    return sites / python / (quote(subdirectory, safe="") or "top")


def needed(folder: Path, uri: str) -> list[Requirement]:
    """What a module says that it needs here, without Amplifier's core. Raises ModuleLoadError where that is unclear."""
    with _read(uri):
        lines = _project(folder).get("dependencies", [])
        return _requirements(lines) if lines else []


def check_python(folder: Path, uri: str) -> None:
    """Raises ModuleLoadError where a module says that it is for other versions of Python."""
    from packaging.specifiers import SpecifierSet

    with _read(uri):
        wanted, here = _project(folder).get("requires-python", ""), platform.python_version()
        suits = SpecifierSet(wanted).contains(here, prereleases=True)
    if not suits:
        raise ModuleLoadError(f"{uri} is for Python {wanted}, and the bridge runs on {here}")


def missing(requirements: Sequence[Requirement], path: Sequence[str]) -> list[Requirement]:
    """Those that are installed in none of these folders."""
    return [one for one in requirements if any(_found(name, path) is None for name in _names(one, path))]


def clashing(requirements: Sequence[Requirement], path: Sequence[str]) -> list[str]:
    """Those that are installed in another version, which would be found first: what they want, and what there is."""
    clashes = []
    for one in requirements:
        found = _found(one.name, path)
        if found is not None and not one.specifier.contains(found.version, prereleases=True):
            clashes.append(f"{one.name}{one.specifier}, where {found.version} is installed")
    return clashes


def present(site: Path) -> list[str]:
    """What is installed in a folder, as `name==version`."""
    return sorted(f"{one.name}=={one.version}" for one in distributions(path=[str(site)]))


def agree(there: Sequence[str], known: Sequence[str]) -> bool:
    """Whether what is in both lists has the same version in both."""
    ours, theirs = (dict(line.split("==", 1) for line in lines if "==" in line) for lines in (there, known))
    return all(theirs.get(name, version) == version for name, version in ours.items())


def install(requirements: Sequence[Requirement], site: Path, uri: str, known: Sequence[str] = ()) -> None:
    """Install into a new folder, in the versions of `known` where it names them.

    Only wheels: nothing of them is run. What is installed where the bridge runs is found first, so that its versions
    hold here too. Raises ModuleLoadError where pip is missing or fails.
    """
    elsewhere = [str(one) for one in requirements if one.url]
    names = " ".join(repr(str(one)) for one in requirements)
    if elsewhere:
        raise ModuleLoadError(f"{uri} needs {', '.join(elsewhere)}, which is not fetched. Install it with the bridge")
    if importlib.util.find_spec("pip") is None:
        raise ModuleLoadError(f"{uri} needs {names}, and there is no pip to fetch it. Install it with the bridge")
    site.mkdir(parents=True)
    held = site.with_name(f"{site.name}.txt")
    held.write_text("\n".join([*_here(), *known]), "utf-8")
    options = ["--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--no-compile", "--quiet"]
    _run_pip(["install", *options, "--target", str(site), "--constraint", str(held), "--"], requirements, uri)
    for core in (*site.glob(CORE), *site.glob(f"{CORE}-*.dist-info")):
        shutil.rmtree(core)  # two of them would not know each other's objects


def _run_pip(args: Sequence[str], requirements: Sequence[Requirement], uri: str) -> None:
    wanted = [str(one) for one in requirements]
    try:
        done = subprocess.run(  # noqa: S603  # requirements that have been parsed, and no shell
            [sys.executable, "-P", "-m", "pip", *args, *wanted],
            env={name: value for name, value in os.environ.items() if name not in _ELSEWHERE},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ModuleLoadError(f"{uri}: pip took longer than {PATIENCE:g} seconds for {', '.join(wanted)}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
        told = "; ".join(line.removeprefix("ERROR: ").strip() for line in said)
        raise ModuleLoadError(f"{uri} needs {', '.join(wanted)}, which pip cannot install: {told}")


def _project(folder: Path) -> dict[str, Any]:
    try:
        text = (folder / "pyproject.toml").read_text("utf-8")
    except FileNotFoundError:
        return {}
    project: dict[str, Any] = tomllib.loads(text).get("project", {})
    return project


@contextlib.contextmanager
def _read(uri: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ModuleLoadError(f"{uri}: its pyproject.toml cannot be read: {error}") from error


def _requirements(lines: Sequence[str]) -> list[Requirement]:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found = [Requirement(line) for line in lines]
    return [
        one
        for one in found
        if canonicalize_name(one.name) != _CORE and (one.marker is None or one.marker.evaluate({"extra": ""}))
    ]


def _names(requirement: Requirement, path: Sequence[str]) -> Iterator[str]:
    """The package that is required, and what its extras require."""
    yield requirement.name
    found = _found(requirement.name, path) if requirement.extras else None
    for line in (found.requires or []) if found is not None else []:
        from packaging.requirements import Requirement

        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            continue
        if any(one.marker.evaluate({"extra": extra}) for extra in requirement.extras):
            yield one.name


def _found(name: str, path: Sequence[str]) -> Distribution | None:
    context: Any = DistributionFinder.Context(name=name, path=list(path))
    return next(iter(Distribution.discover(context=context)), None)


def _here() -> list[str]:
    """What is installed where the bridge runs."""
    known = {one.name: one.version for one in reversed(list(distributions())) if one.name and one.version}
    return [f"{name}=={version}" for name, version in sorted(known.items())]
