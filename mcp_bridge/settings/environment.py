"""References to environment variables in the settings: `${NAME}` and `${NAME:-default}`.

A default is taken when the variable is unset or empty, and ends at the first `}`. `$${` is a literal `${`. Only
values are expanded, never keys, and what came out is never expanded again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.document import Document, combined
from mcp_bridge.documents.positions import Place, walk
from mcp_bridge.documents.value_text import SENSITIVE, is_text

_REFERENCE = re.compile(r"(?P<literal>\$\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{")

_PUBLIC = frozenset({"HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"})
"""Variables that every process has and that are in every path: not secrets, or no log could be read."""
_HOLDERS = ("sources", "state")
"""The parts of the settings that may hold secrets; the others say what clients are told, or limits and addresses."""
_FRAME = frozenset({"type", "name", "prefix", "alias", "include", "exclude", "tags", "match_all_tags"})
"""Keys of a source that are not its own: they say what its tools are called."""
_WORD, _NUMBER = 8, 6
"""A value of fewer letters alone, or digits alone, is an ordinary word or number, such as `user` or `8080`."""


def expand(document: Document, environ: Mapping[str, str]) -> Document:
    """The document with its references replaced.

    `secrets` of the answer holds the values that came from `environ` (none of them empty), `hidden` their places;
    `told` the secrets that clients may see: ordinary words, and what stands only where it is for clients to see,
    both only of variables that are not named as secrets are.

    Raises ConfigError that names every variable that is not set, and no value.
    """
    expansion = _Expansion(document=document, environ=environ)
    data = {key: expansion.value(item, (key,)) for key, item in document.data.items()}
    if expansion.errors:
        raise combined(expansion.errors)
    hidden = document.hidden | expansion.hidden
    secrets = document.secrets | expansion.secrets
    told = document.told | (expansion.secrets - expansion.kept)
    return replace(document, data=data, hidden=hidden, secrets=secrets, told=told)


@dataclass(slots=True, kw_only=True)
class _Expansion:
    """One walk over the data, and what it gathers."""

    document: Document
    environ: Mapping[str, str]
    errors: list[ConfigError] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    hidden: set[Place] = field(default_factory=set)

    def value(self, value: Any, place: Place) -> Any:
        """A copy of the value with its references replaced."""
        if isinstance(value, dict):
            return {key: self.value(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*place, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            return _REFERENCE.sub(lambda match: self._replaced(match, place), value)
        return value

    def _replaced(self, match: re.Match[str], place: Place) -> str:
        name, default = match["name"], match["default"]
        if match["literal"]:
            return "${"
        if name is None:
            hint = "Write ${NAME} or ${NAME:-default}; for a literal '${' write '$${'."
            return self._fail(place, "a '${' that is not a reference to a variable", hint)
        found = self.environ.get(name)
        if found is None and default is None:
            hint = f"Set it, or give a default: ${{{name}:-default}}."
            return self._fail(place, f"the environment variable {name} is not set", hint)
        if not found:
            return default or ""
        if not is_text(found):
            return self._fail(place, f"the environment variable {name} is not UTF-8 text", "Set it anew.")
        if name not in _PUBLIC:
            self.secrets.add(found)
            self.hidden.add(place)
            if _names_secret(name) or not (_is_for_clients(place) or _is_common(found)):
                self.kept.add(found)
        return found

    def _fail(self, place: Place, problem: str, hint: str) -> str:
        self.errors.append(self.document.error(place, problem, hint))
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable that settings refer to; where all references have a default, the first of these."""

    name: str
    default: str | None = None

    @property
    def secret(self) -> bool:
        """Whether it is named as secrets are."""
        return _names_secret(self.name)


def variables(document: Document) -> tuple[Variable, ...]:
    """The variables that a document refers to, each once, in its order; those that every process has left out."""
    found: dict[str, Variable] = {}
    for _, value in walk(document.data):
        for match in _REFERENCE.finditer(value) if isinstance(value, str) else ():
            name, default = match["name"], match["default"]
            if name is None or name in _PUBLIC:
                continue
            if name not in found or default is None:
                found[name] = Variable(name=name, default=default)
    return tuple(found.values())


def _names_secret(variable: str) -> bool:
    return any(word in variable.lower() for word in SENSITIVE)


def _is_for_clients(place: Place) -> bool:
    return place[0] not in _HOLDERS or (place[0] == "sources" and len(place) > 2 and place[2] in _FRAME)


def _is_common(value: str) -> bool:
    return (value.isalpha() and len(value) < _WORD) or (value.isdecimal() and len(value) < _NUMBER)
