"""What the settings say that they need beside them: files, modules, variables; and what cannot be known."""

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
"""Options of the types of sources whose values are files, or modules, or objects in them (`module:Name`)."""
_FILES = frozenset({"path", "agent", "utcp"})
_OPEN: Mapping[str, str] = {
    "agent": "the classes that its agent names are not followed",
    "utcp": "what its manuals refer to is not followed",
}
"""Options behind which there is more than can be seen."""


@dataclass(slots=True, kw_only=True)
class Needs:
    """What one document needs: files and where they are named, modules, variables, and sentences about the rest."""

    paths: list[tuple[Where, str]] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def needs(document: Document) -> Needs:
    """What a settings document needs, without running anything."""
    found = Needs()
    sources = document.data.get("sources")
    if not isinstance(sources, list):
        found.unknown.append("what this kind of file needs beside it is not known: add it with --include and --needs")
        return found
    for index, source in enumerate(sources):
        if isinstance(source, dict):
            _source(source, ("sources", index), found)
    for section in (document.data.get("state"), document.data.get("approvals")):
        store = section.get("store") if isinstance(section, dict) else None
        if isinstance(store, str) and ":" in store:
            found.modules.append(store.partition(":")[0])
    return found


def _source(source: Mapping[str, Any], where: Where, found: Needs) -> None:
    kind = str(source.get("type", ""))
    called = f"source '{source.get('name') or kind}'"
    if ":" in kind:
        found.modules.append(kind.partition(":")[0])
    if kind not in KEYS:
        found.unknown.append(f"{called}: what it needs beside it is not known: add it with --include and --needs")
    for key, text in _texts(source, KEYS.get(kind, ())):
        if "${" in text:
            found.unknown.append(f"{called}: {key} depends on a variable: add what it names with --include")
            continue
        name = text.partition(":")[0] if key not in _FILES else text
        if key in _FILES or name.endswith(".py"):
            found.paths.append(((*where, key), name))
        else:
            found.modules.append(name)
        if key in _OPEN:
            found.unknown.append(f"{called}: {_OPEN[key]}: add what is missing with --include and --needs")
    isolation = source.get("isolation")
    if isinstance(isolation, dict):
        found.variables += [
            name for name in _list(isolation.get("env")) if isinstance(name, str) and name.isidentifier()
        ]


def _texts(source: Mapping[str, Any], keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        for value in _list(source.get(key)):
            if isinstance(value, str) and value:
                yield key, value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
