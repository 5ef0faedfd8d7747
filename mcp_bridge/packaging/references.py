"""The files, modules and variables that a settings file refers to, found without running anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.settings import Document

Where = tuple[str | int, ...]

KEYS: Mapping[str, Sequence[str]] = {
    "python": ("path", "module"),
    "xaibo": ("provider", "agent"),
    "framework": ("objects", "utcp"),
}
"""By type of source, the options whose values are files, modules or objects in them (`module:Name`)."""
_FILE_KEYS = frozenset({"path", "agent", "utcp"})
_PARTIAL_KEYS: Mapping[str, str] = {
    "agent": "the classes named in its agent are not detected",
    "utcp": "what its manuals refer to is not detected",
}
"""Options whose files may refer to more than is detected."""
_ADD = "add it with --include and --needs"


@dataclass(slots=True, kw_only=True)
class ProjectReferences:
    """What a document refers to: files with their places, modules, variables, and warnings about the rest."""

    paths: list[tuple[Where, str]] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def find_references(document: Document) -> ProjectReferences:
    """Find what a settings document refers to."""
    references = ProjectReferences()
    sources = document.data.get("sources")
    if not isinstance(sources, list):
        references.warnings.append(f"the files and packages that this kind of file needs are not detected: {_ADD}")
        return references
    for index, source in enumerate(sources):
        if isinstance(source, dict):
            _add_source(source, ("sources", index), references)
    for section in (document.data.get("state"), document.data.get("approvals")):
        store = section.get("store") if isinstance(section, dict) else None
        if isinstance(store, str) and ":" in store:
            references.modules.append(store.partition(":")[0])
    return references


def _add_source(source: Mapping[str, Any], where: Where, references: ProjectReferences) -> None:
    kind = str(source.get("type", ""))
    label = f"source '{source.get('name') or kind}'"
    if ":" in kind:
        references.modules.append(kind.partition(":")[0])
    if kind not in KEYS:
        references.warnings.append(f"{label}: the files and packages that it needs are not detected: {_ADD}")
    for key, text in _list_texts(source, KEYS.get(kind, ())):
        if "${" in text:
            references.warnings.append(f"{label}: {key} depends on a variable: add the files with --include")
            continue
        name = text.partition(":")[0] if key not in _FILE_KEYS else text
        if key in _FILE_KEYS or name.endswith(".py"):
            references.paths.append(((*where, key), name))
        else:
            references.modules.append(name)
        if key in _PARTIAL_KEYS:
            references.warnings.append(f"{label}: {_PARTIAL_KEYS[key]}: {_ADD}")
    isolation = source.get("isolation")
    if isinstance(isolation, dict):
        references.variables += [
            name for name in _to_list(isolation.get("env")) if isinstance(name, str) and name.isidentifier()
        ]


def _list_texts(source: Mapping[str, Any], keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        for value in _to_list(source.get(key)):
            if isinstance(value, str) and value:
                yield key, value


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
