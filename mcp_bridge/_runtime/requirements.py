"""Finds the missing requirements of Python code, and suggests their installation after a failed import.

It imports importlib.metadata, tomllib and packaging late, because every start imports this file.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from packaging.requirements import Requirement

_PACKAGE = Path(__file__).parent.parent
_USER_INFO = re.compile(r"//[^/@]*@")
"""The user and password in a URL, which a message must not show."""
_KNOWN_PACKAGES = {
    "agents": "openai-agents", "amplifier_core": f"{DISTRIBUTION}[amplifier]",
    "amplifier_foundation": "git+https://github.com/microsoft/amplifier-foundation",
    "anthropic": "anthropic", "crewai": "crewai", "fastmcp": "fastmcp", "langchain": "langchain",
    "langchain_core": "langchain-core", "llama_index": "llama-index-core", "llm": "llm",
    "openai": "openai", "pydantic_ai": "pydantic-ai-slim", "smolagents": "smolagents",
    "xaibo": "xaibo>=0.3,<0.4",
}  # fmt: skip
"""The packages that contain some modules.

The name of any other module is never suggested as a package. Its package may have another name, and a third party could
have registered this one.
"""


def suggest_package(error: BaseException) -> str:
    """Return advice on installing the missing package of a failed import, as the end of a message.

    The requirements are those of the file with the import: in the pyproject.toml of its project, in a requirements.txt
    next to one of these files, or in the metadata of its package. Other errors have no advice.
    """
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    file = _find_importing_file(error)
    origin, lines = _read_requirements_of(file) if file is not None else ("", [])
    missing = [line for line in lines if find_missing(parse_requirements([line]), sys.path)]
    top, _, submodule = error.name.partition(".")
    if missing:
        return f". {origin} requires what is not installed. Run: {_build_command(missing)}"
    if top in _KNOWN_PACKAGES:
        return f". Run: {_build_command([_KNOWN_PACKAGES[top]])}"
    # A missing submodule rather means a typing error or another version of an installed package.
    if file is None or submodule:
        return ""
    return ". Install the package that provides it, or correct the import"


def parse_requirements(lines: Iterable[str]) -> list[Requirement]:
    """Return the requirements for this machine. Raises ValueError for an invalid one."""
    from packaging.requirements import Requirement

    requirements = [Requirement(line) for line in lines]
    return [item for item in requirements if item.marker is None or item.marker.evaluate({"extra": ""})]


def find_missing(requirements: Sequence[Requirement], path: Sequence[str]) -> list[Requirement]:
    """Return the requirements with a package, their own or one of their extras, that is missing in these folders."""
    from packaging.requirements import Requirement

    missing = []
    for requirement in requirements:
        names = [requirement.name]
        package = find_package(requirement.name, path) if requirement.extras else None
        lines = package.requires if package is not None else None
        for line in lines or []:
            item = Requirement(line)
            # An item whose marker is false without an extra belongs to extras.
            if item.marker is None or item.marker.evaluate({"extra": ""}):
                continue
            if any(item.marker.evaluate({"extra": extra}) for extra in requirement.extras):
                names.append(item.name)
        if any(find_package(name, path) is None for name in names):
            missing.append(requirement)
    return missing


def find_package(name: str, path: Sequence[str]) -> Distribution | None:
    """Return the installed package with a name, or None."""
    from importlib.metadata import Distribution, DistributionFinder

    context: Any = DistributionFinder.Context(name=name, path=list(path))
    return next(iter(Distribution.discover(context=context)), None)


def _find_importing_file(error: ModuleNotFoundError) -> Path | None:
    """Return the file with the failed import, or None if the import is one of the bridge itself."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith("<") and "importlib" not in Path(frame.filename).parts:
            file = Path(frame.filename)
            return None if file.is_relative_to(_PACKAGE) else file
    return None


def _read_requirements_of(file: Path) -> tuple[str, list[str]]:
    """Return where the requirements of a file are declared, for a message, and those that are valid."""
    from importlib.metadata import distribution, packages_distributions
    from tomllib import loads

    if "site-packages" in file.parts:
        module = file.parts[file.parts.index("site-packages") + 1].removesuffix(".py")
        names = packages_distributions().get(module)
        if not names:
            return "", []
        return f"The package '{names[0]}'", _select_valid(distribution(names[0]).requires or [])
    project = next((folder for folder in file.parents if (folder / "pyproject.toml").is_file()), None)
    with suppress(OSError, ValueError, AttributeError, TypeError):
        if project is not None:
            path = project / "pyproject.toml"
            document = loads(path.read_text("utf-8"))
            lines = _select_valid(document.get("project", {}).get("dependencies", []))
            if lines:
                return str(path), lines
    folders = [file.parent] if project is None else [file.parent, project]
    for folder in folders:
        with suppress(OSError, ValueError):
            path = folder / "requirements.txt"
            text = path.read_text("utf-8-sig")
            return str(path), _select_valid(re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines())
    return "", []


def _select_valid(lines: Iterable[str]) -> list[str]:
    valid = []
    for line in lines:
        with suppress(ValueError):
            parse_requirements([line])
            valid.append(line.strip())
    return valid


def _build_command(requirements: Sequence[str]) -> str:
    """Return the command that installs the requirements, for this Python."""
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", "install"]
    else:
        # Environments that uv has created have no pip.
        command = ["uv", "pip", "install", "--python", sys.executable]
    for line in requirements:
        command.append(_USER_INFO.sub("//***@", line.partition(";")[0].strip()))
    return shlex.join(command)
