"""Collects a project to export: the settings, and the required files, variables and packages.

Nothing is imported or run. The files are those that the settings name and, followed through their imports, the Python
files that these need (`imports.py`). There is a warning about everything that cannot be detected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.store import parse_store_address
from mcp_bridge._desktop.packaging.imports import find_distributions, find_local_files, follow_imports
from mcp_bridge._desktop.packaging.requirements import parse_name, read_requirements
from mcp_bridge._settings import Document, prepare, read_document
from mcp_bridge._settings.documents.document import SUFFIXES
from mcp_bridge._settings.environment import EnvironmentVariable, list_variables
from mcp_bridge._upstream.trust.credentials import find_variables

Where = tuple[str | int, ...]

REQUIREMENTS_FILE = "requirements.txt"
NEVER_PACKED = (
    ".env", ".env.*", ".envrc", "*.env",
    "*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "*.jks", "*.ppk", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials", "credentials.json",
    ".aws", ".azure", ".docker", ".gnupg", ".kube", ".ssh",
    ".git", ".hg", ".svn", ".gitignore", ".ds_store", "thumbs.db",
    "__pycache__", "*.pyc", "*.pyo", ".venv", "venv", "node_modules", ".*_cache", "*.egg-info", ".tox",
    ".hypothesis", "*.log", "*.mcpb", "*.whl", "*.sqlite-wal", "*.sqlite-shm",
)  # fmt: skip
"""Patterns of secrets, histories and caches. A file is never packed if any segment of its path matches one of them."""
_REFERENCE_KEYS: Mapping[str, Sequence[str]] = {
    "python": ("path", "module"),
    "xaibo": ("provider", "agent"),
    "framework": ("objects", "utcp"),
    "skills": ("path",),
    "openapi": ("document",),
}
"""For each type of source, the options that name files, modules or objects in them (`module:Name`)."""
_FILE_KEYS = frozenset({"path", "agent", "utcp", "document"})
"""Those of these options that name only files."""
_CREDENTIAL_KEYS = ("auth", "headers", "env")
"""Options that can refer to variables with credentials."""
_PARTIAL_KEYS: Mapping[str, str] = {
    "agent": "the classes named in its agent are not detected",
    "utcp": "what its manuals refer to is not detected",
}
"""Options that name files in which not all references are detected."""
_ADD_HINT = "add it with --include and --needs"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """The additions of the user to the detected project: patterns of files, packages, and variables of tools."""

    include: Sequence[str] = ()
    requirements: Sequence[str] = ()
    variables: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class ProjectReferences:
    """The references of a document: files with their places, modules, variables, and warnings about the rest.

    `credentials` are the variables with credentials. They have to be set. `folders` are the paths of which all files
    are needed, not only those in Python.
    """

    paths: list[tuple[Where, str]] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    extras: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The exported project. `files` maps paths relative to the folder of the settings to real paths.

    `entry` is what is served: the relative path of the settings, a Python file or a folder. `token_env` is the variable
    that `http.token_env` names, `token_references` are those of `http.tokens`, `extras` are those of mcp-bridge itself.
    `warnings` says what may be missing on another machine.
    """

    name: str
    title: str | None
    version: str | None
    instructions: str | None
    entry: str
    files: Mapping[str, Path]
    variables: Sequence[EnvironmentVariable] = ()
    token_env: str | None = None
    token_references: Sequence[str] = ()
    requirements: Sequence[str] = ()
    extras: Sequence[str] = ()
    warnings: Sequence[str] = ()


def collect_project(path: Path, additions: Additions) -> Project:
    """Collect the project of a settings file, a Python file or a folder, without importing anything.

    Raises ConfigError if a file is missing, outside the folder of the settings, or never packed.
    """
    # The path is not resolved, because relative paths start at the settings, or at the link to them.
    path = Path(os.path.abspath(path))
    has_settings = path.suffix.lower() in SUFFIXES
    if not path.name or (not has_settings and path.suffix != ".py" and not os.path.isdir(path)):
        hint = f"Use a .py file, a folder of .py files, or a settings file ({', '.join(SUFFIXES)})"
        raise ConfigError("this file cannot be served", path=str(path), hint=hint)
    document = prepare(read_document(path)) if has_settings else Document(path=str(path), data={})
    root = path.parent.resolve()
    references = _find_references(document) if has_settings else ProjectReferences(paths=[(("FILE",), path.name)])
    # These are the files that are named. Those that they import are added.
    named_files = {*_find_referenced(references, document, root), *_find_included(additions.include, root)}
    local_files, packages = follow_imports(sorted(named_files), root)
    included = [file for file in local_files if not _is_excluded(file, root)]
    files = {file.relative_to(root).as_posix(): file.resolve() for file in included}
    if not path.is_dir():
        files[path.name] = path
    _check_encoding(files)
    variables = _collect_variables(document, references, additions.variables)
    requirements_file = path / REQUIREMENTS_FILE
    if not requirements_file.is_file():
        requirements_file = root / REQUIREMENTS_FILE
    requirements = read_requirements(requirements_file, additions.requirements)
    modules = dict.fromkeys(module.partition(".")[0] for module in references.modules)
    third_party = [name for name in modules if not find_local_files(name, (root,)) and name != "mcp_bridge"]
    packages = [*packages, *third_party]
    if document.data.get("event_loop") == "uvloop":
        references.extras.add("uvloop")
    http = _get_section(document.data, "http")
    return Project(
        name=_choose_name(document.data.get("name"), path),
        title=_to_text(document.data.get("title")),
        version=_to_text(document.data.get("version")),
        instructions=_to_text(document.data.get("instructions")),
        entry=path.name,
        files=dict(sorted(files.items())),
        variables=variables,
        token_env=_to_text(http.get("token_env")),
        token_references=[token for token in _get_section(http, "tokens").values() if isinstance(token, str)],
        requirements=requirements.packages,
        extras=tuple(sorted({*requirements.extras, *references.extras})),
        warnings=(
            *references.warnings,
            *requirements.warnings,
            *_warn_of_missing(packages, requirements.packages),
            *_warn_of_defaults(variables),
        ),
    )


def _to_text(value: Any) -> str | None:
    """Return a text of the settings, or None if it is missing, empty, or depends on a variable."""
    return value if isinstance(value, str) and value.strip() and "${" not in value else None


def _get_section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of the settings, or an empty one if it is missing or not a mapping."""
    section = data.get(name)
    return section if isinstance(section, dict) else {}


def _choose_name(name: Any, path: Path) -> str:
    """Choose the name in the settings, or that of the file or folder: lowercase letters, digits, `-`, `_` and `.`."""
    text = _to_text(name)
    if text is None:
        # Files of these names are in the folder of the project.
        text = path.parent.name if path.stem in ("mcp-bridge", "tools") else path.stem
    return re.sub(r"[^a-z0-9_.]+", "-", text.lower()).strip("-_.")[:64] or "tools"


def _find_references(document: Document) -> ProjectReferences:
    references = ProjectReferences()
    jwt = _get_section(_get_section(document.data, "http"), "jwt")
    if jwt:
        references.extras.add("jwt")
        keys = _to_text(jwt.get("jwks"))
        if keys is not None and "://" not in keys:
            references.paths.append((("http", "jwt", "jwks"), keys))
    sources = document.data.get("sources")
    if not isinstance(sources, list):
        references.warnings.append(f"the files and packages that this kind of file needs are not detected: {_ADD_HINT}")
        return references
    for index, source in enumerate(sources):
        if isinstance(source, dict):
            _add_source(source, ("sources", index), references)
    store = _get_section(document.data, "state").get("store")
    if isinstance(store, str):
        # The address may be the default of a variable, or the variable may be named after Redis.
        if "redis" in store.lower() or "unix://" in store:
            references.extras.add("redis")
            if isinstance(document.data.get("tasks"), dict):
                references.extras.add("tasks")
        elif ":" in parse_store_address(store).type and "${" not in store:
            references.modules.append(store.partition(":")[0])
    _add_policies(document.data.get("policy"), references)
    return references


def _add_policies(policies: Any, references: ProjectReferences) -> None:
    if not isinstance(policies, list):
        return
    for item in policies:
        names = list(item) if isinstance(item, dict) else [item]
        for name in names:
            if isinstance(name, str) and ":" in name:
                references.modules.append(name.partition(":")[0])
            elif name == "redact":
                references.extras.add("redact")
            elif name == "rate_limit":
                references.extras.add("rate-limit")


def _add_source(source: Mapping[str, Any], where: Where, references: ProjectReferences) -> None:
    source_type = str(source.get("type", ""))
    label = f"source '{source.get('name') or source_type}'"
    if ":" in source_type:
        references.modules.append(source_type.partition(":")[0])
    if source_type not in _REFERENCE_KEYS:
        references.warnings.append(f"{label}: the files and packages that it needs are not detected: {_ADD_HINT}")
    texts: list[tuple[str, Any]] = []
    for key in _REFERENCE_KEYS.get(source_type, ()):
        texts += [(key, text) for text in _to_list(source.get(key))]
    for key, text in texts:
        if not isinstance(text, str) or not text:
            continue
        if "${" in text:
            references.warnings.append(f"{label}: {key} depends on a variable: add the files with --include")
            continue
        name = text if key in _FILE_KEYS else text.partition(":")[0]
        if key in _FILE_KEYS or name.endswith(".py"):
            references.paths.append(((*where, key), name))
        else:
            references.modules.append(name)
        if source_type == "skills":
            references.folders.add(text)
        if key == "document" and text.lower().endswith((".yaml", ".yml")):
            references.extras.add("openapi")
        if key in _PARTIAL_KEYS:
            references.warnings.append(f"{label}: {_PARTIAL_KEYS[key]}: {_ADD_HINT}")
    if source.get("auth") == "oauth":
        references.extras.add("oauth")
    references.credentials += find_variables([source.get(key) for key in _CREDENTIAL_KEYS])
    names = _to_list(_get_section(source, "isolation").get("env"))
    references.variables += [name for name in names if isinstance(name, str) and name.isidentifier()]


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _find_referenced(references: ProjectReferences, document: Document, root: Path) -> Iterable[Path]:
    for where, text in references.paths:
        path = Path(os.path.normpath(root / os.path.expanduser(text)))
        is_inside = path.is_relative_to(root)
        hint = "Move it below that folder, and use a relative path"
        if is_inside and not os.path.exists(path):
            raise document.make_error(where, f"'{text}' does not exist", "Check the path")
        if not is_inside or not path.resolve().is_relative_to(root):
            raise document.make_error(where, f"'{text}' is outside the folder of the settings", hint)
        if os.path.isabs(os.path.expanduser(text)):
            raise document.make_error(where, f"'{text}' is an absolute path, which is invalid on other machines", hint)
        if _is_excluded(path, root):
            raise document.make_error(where, f"'{text}' is never packed", "Secrets and environments are not exported")
        if path.is_dir():
            pattern = "**/*" if text in references.folders else "*.py"
            yield from sorted(file for file in path.glob(pattern) if file.is_file())
        else:
            yield path
    for module in references.modules:
        yield from find_local_files(module.partition(".")[0], (root,))


def _find_included(patterns: Iterable[str], root: Path) -> Iterable[Path]:
    for pattern in patterns:
        try:
            files = sorted({Path(os.path.normpath(path)) for path in root.glob(pattern) if path.is_file()})
        except (ValueError, NotImplementedError):
            files = []
        if not files:
            hint = f"Use a file or a pattern relative to {root}, such as 'data/*.json'"
            raise ConfigError(f"no file matches '{pattern}'", where="--include", hint=hint)
        candidates = [path for path in files if not _is_excluded(path, root)]
        if not candidates:
            hint = "Secrets and caches are not exported: use ${NAME} in the settings"
            raise ConfigError(f"'{files[0].name}' is never packed", where="--include", hint=hint)
        yield from candidates


def _is_excluded(path: Path, root: Path) -> bool:
    """Return whether a file, or the target of a link, is never packed. Raises ConfigError if it is outside."""
    real = path.resolve()
    if not path.is_relative_to(root) or not real.is_relative_to(root):
        hint = "Copy the file into the folder"
        if path.is_relative_to(root):
            hint = f"It is a link to a file outside. {hint}"
        raise ConfigError("outside the folder of the settings", path=str(path), hint=hint)
    return _matches_excluded(path.relative_to(root)) or _matches_excluded(real.relative_to(root))


def _matches_excluded(path: Path) -> bool:
    return any(fnmatchcase(segment.lower(), pattern) for segment in path.parts for pattern in NEVER_PACKED)


def _check_encoding(names: Iterable[str]) -> None:
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConfigError("the file name is not valid UTF-8", path=name, hint="Rename the file") from None


def _warn_of_missing(packages: Iterable[str], requirements: Iterable[str]) -> Sequence[str]:
    names = {parse_name(text) for text in requirements}
    warnings = []
    for name in dict.fromkeys(packages):
        distributions = find_distributions(name) or (name,)
        if names.isdisjoint(map(parse_name, distributions)):
            warnings.append(f"'{name}' is imported but not required: add --needs {distributions[0]}")
    return warnings


def _warn_of_defaults(variables: Iterable[EnvironmentVariable]) -> Sequence[str]:
    """Warn of each secret variable with a default, because the settings are exported."""
    names = [variable.name for variable in variables if variable.is_secret and variable.default]
    return [f"{name}: its default is exported with the settings: use ${{{name}}} without a default" for name in names]


def _collect_variables(
    document: Document, references: ProjectReferences, names: Iterable[str]
) -> Sequence[EnvironmentVariable]:
    """Collect the variables in the settings, those the user has added, and those passed to workers if they are set."""
    variables = {variable.name: variable for variable in list_variables(document)}
    variables |= {name: EnvironmentVariable(name=name, is_credential=True) for name in references.credentials}
    for name in names:
        if not _VARIABLE_NAME.fullmatch(name):
            raise ConfigError(f"'{name}' is not the name of a variable", where="--env", hint="Pass only the name")
        variables[name] = EnvironmentVariable(name=name)
    for name in references.variables:
        variables.setdefault(name, EnvironmentVariable(name=name, default=""))
    return tuple(variables.values())
