"""A bridge as a project that can be handed on: its settings, the files that these need, its variables and packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.document import SUFFIXES
from mcp_bridge.packaging.excluding import never_packed
from mcp_bridge.packaging.imports import distributions_of, followed, local
from mcp_bridge.packaging.needs import Needs, needs
from mcp_bridge.packaging.requirements import Required, canonical, gathered
from mcp_bridge.settings import Document, read
from mcp_bridge.settings.environment import Variable, variables

REQUIREMENTS = "requirements.txt"
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What a person adds to what is found: files by pattern, packages, variables that tools read by themselves."""

    include: Sequence[str] = ()
    requirements: Sequence[str] = ()
    variables: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What is handed on. `files` has real paths by those inside the project, which begin at the settings' folder."""

    name: str
    title: str | None
    version: str | None
    instructions: str | None
    entry: str
    """What is served: the settings, a Python file or a folder, inside the project."""
    files: Mapping[str, Path]
    variables: Sequence[Variable] = ()
    token_env: str | None = None
    """The variable that `http.token_env` names."""
    requirements: Sequence[str] = ()
    extras: Sequence[str] = ()
    """Those of the bridge itself that are required."""
    warnings: Sequence[str] = field(default=())
    """What may be missing where it arrives."""


def project(path: Path, additions: Additions = Additions()) -> Project:
    """The project that a settings file, a Python file or a folder of them stands for; nothing of it is imported.

    Raises ConfigError for a file that is missing, lies outside the settings' folder, or is of a kind that is never
    packed.
    """
    path = Path(os.path.abspath(path))  # not resolved: relative paths start where the settings are, or the link to them
    settings = path.suffix.lower() in SUFFIXES
    if not path.name or (not settings and path.suffix != ".py" and not os.path.isdir(path)):
        hint = f"Give a .py file, a folder of them, or settings ({', '.join(SUFFIXES)})"
        raise ConfigError("nothing here can be served", path=str(path), hint=hint)
    document = read(path) if settings else Document(path=str(path), data={})
    root = path.parent.resolve()
    wanted = needs(document) if settings else Needs(paths=[(("FILE",), path.name)])
    files = {*_asked(wanted, document, root), *_included(additions.include, root)}
    found = followed(sorted(files), root)
    inside = _inside(found.files, root)
    if not path.is_dir():
        inside[path.name] = path
    _check_names(inside)
    asked = _variables(document, wanted, additions.variables)
    own = path / REQUIREMENTS if (path / REQUIREMENTS).is_file() else root / REQUIREMENTS
    required = gathered(own, additions.requirements)
    missing = _missing([*found.packages, *_elsewhere(wanted, root)], required.packages)
    return Project(
        name=_name(document.data.get("name"), path),
        title=_text(document.data.get("title")),
        version=_text(document.data.get("version")),
        instructions=_text(document.data.get("instructions")),
        entry=path.name,
        files=dict(sorted(inside.items())),
        variables=asked,
        token_env=_token(document.data),
        requirements=required.packages,
        extras=_extras(required, document),
        warnings=(*wanted.unknown, *required.unclear, *missing, *_written(asked)),
    )


def _extras(required: Required, document: Document) -> Sequence[str]:
    """The extras that the requirements name, and the one that the event loop of the settings needs."""
    loop = ["uvloop"] if document.data.get("event_loop") == "uvloop" else []
    return tuple(sorted({*required.extras, *loop}))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() and "${" not in value else None


def _token(data: Mapping[str, Any]) -> str | None:
    http = data.get("http")
    return _text(http.get("token_env")) if isinstance(http, dict) else None


def _name(given: Any, path: Path) -> str:
    """The settings' name, or that of the folder, in small letters, digits, `-`, `_` and `.`."""
    text = _text(given) or (path.parent.name if path.stem in ("mcp-bridge", "tools") else path.stem)
    return re.sub(r"[^a-z0-9_.]+", "-", text.lower()).strip("-_.")[:64] or "tools"


def _asked(wanted: Needs, document: Document, root: Path) -> Iterable[Path]:
    """The files that the settings name, and those of the modules that they name and that are the project's own."""
    for where, text in wanted.paths:
        path = Path(os.path.normpath(root / os.path.expanduser(text)))
        inside = path.is_relative_to(root)
        hint = "Move it below that folder, and name it by a relative path"
        if inside and not os.path.exists(path):
            raise document.error(where, f"there is no '{text}'", "Check the path")
        if not inside or not path.resolve().is_relative_to(root):
            raise document.error(where, f"'{text}' is outside the folder of the settings", hint)
        if os.path.isabs(os.path.expanduser(text)):
            raise document.error(where, f"'{text}' is no relative path: elsewhere it leads to nothing", hint)
        if _is_hidden(path, root):
            raise document.error(where, f"'{text}' is never packed", "Secrets and environments stay where they are")
        yield from sorted(path.glob("*.py")) if path.is_dir() else (path,)
    for module in wanted.modules:
        yield from local(module.partition(".")[0], (root,))


def _elsewhere(wanted: Needs, root: Path) -> Iterable[str]:
    """The top names of modules that the settings name and that are not the project's own."""
    tops = dict.fromkeys(module.partition(".")[0] for module in wanted.modules)
    return [top for top in tops if not local(top, (root,)) and top != "mcp_bridge"]


def _included(patterns: Iterable[str], root: Path) -> Iterable[Path]:
    for pattern in patterns:
        try:
            found = sorted({Path(os.path.normpath(path)) for path in root.glob(pattern) if path.is_file()})
        except (ValueError, NotImplementedError):
            found = []
        if not found:
            hint = f"Give a file or a pattern, such as 'data/*.json', that begins at {root}"
            raise ConfigError(f"nothing is called '{pattern}'", where="--include", hint=hint)
        hidden = [path for path in found if _is_hidden(path, root)]
        if len(hidden) == len(found):
            hint = "Secrets and caches stay where they are: use ${NAME} in the settings"
            raise ConfigError(f"'{hidden[0].name}' is never packed", where="--include", hint=hint)
        yield from (path for path in found if path not in hidden)


def _inside(files: Iterable[Path], root: Path) -> dict[str, Path]:
    """The files by their paths inside the project, without those that are never packed."""
    return {path.relative_to(root).as_posix(): path.resolve() for path in files if not _is_hidden(path, root)}


def _is_hidden(path: Path, root: Path) -> bool:
    """Whether a file is never packed, by its name or by that of what a link leads to.

    Raises ConfigError for one outside the project.
    """
    real = path.resolve()
    if not path.is_relative_to(root) or not real.is_relative_to(root):
        hint = f"{'It is a link that leads out. ' if path.is_relative_to(root) else ''}Copy the file itself there"
        raise ConfigError("outside the folder of the settings", path=str(path), hint=hint)
    return never_packed(path.relative_to(root)) or never_packed(real.relative_to(root))


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConfigError("the name is not UTF-8 text", path=name, hint="Give the file another name") from None


def _missing(packages: Iterable[str], required: Iterable[str]) -> Sequence[str]:
    """A warning for each package that nothing among the requirements seems to bring."""
    names = {canonical(text) for text in required}
    found = []
    for name in dict.fromkeys(packages):
        distributions = distributions_of(name) or (name,)
        if names.isdisjoint(map(canonical, distributions)):
            found.append(f"'{name}' is imported, and not among the requirements: add --needs {distributions[0]}")
    return found


def _written(asked: Iterable[Variable]) -> Sequence[str]:
    """A warning for each secret that the settings, which are handed on, have a value for."""
    named = [variable.name for variable in asked if variable.secret and variable.default]
    return [f"{name}: the default in the settings is handed on with them: write ${{{name}}} alone" for name in named]


def _variables(document: Document, wanted: Needs, added: Iterable[str]) -> Sequence[Variable]:
    """Those that the settings refer to, those that workers are given where they are set, and those that were added."""
    known = {variable.name: variable for variable in variables(document)}
    for name in added:
        if not _ENVIRONMENT.fullmatch(name):
            raise ConfigError(f"'{name}' is no name of a variable", where="--env", hint="Give a name, not a value")
        known[name] = Variable(name=name)
    for name in wanted.variables:
        known.setdefault(name, Variable(name=name, default=""))
    return tuple(known.values())
