"""References to environment variables in the settings: `${NAME}`, `${NAME:-default}`, and `${env:NAME}` as in VS Code.

The default is used if the variable is unset or empty, and ends at the first `}`. `$${` is a literal `${`. References
are replaced in values, not in keys, and not in the text that replaces another reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.document import Document, join_errors
from mcp_bridge._settings.documents.positions import KeyPath, walk_values
from mcp_bridge._settings.documents.value_text import SENSITIVE, is_encodable

_REFERENCE = re.compile(
    r"(?P<literal>\$\$\{)|\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{"
)

_PUBLIC = frozenset({"HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"})
"""Variables that every process has. They are not secrets: redacting them would make logs unreadable."""
PLAN_KEYS = (
    "session", "orchestrator", "context", "providers", "tools", "hooks", "agents", "spawn", "bundle", "includes"
)  # fmt: skip
"""The keys of a mount plan of Amplifier, and of a bundle, which is a mount plan with three more keys."""
SERVER_SECTIONS = ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp", "extensions", "amp.mcpServers")
"""The keys under which clients list servers."""
_SECRET_SECTIONS = ("sources", "state", *SERVER_SECTIONS, *PLAN_KEYS)
"""The sections that may contain secrets. The others describe the server, its limits and its addresses."""
_COMMON_KEYS = frozenset({"type", "name", "prefix", "alias", "include", "exclude", "tags"})
"""Keys of a source that all types have. They name and select tools, and contain no secrets."""
_MAX_WORD = 7
"""A value of at most so many letters, such as `user`, is an ordinary word, and not a secret."""
_MAX_NUMBER = 5
"""A value of at most so many digits, such as `8080`, is an ordinary number, and not a secret."""


def expand(document: Document, environ: Mapping[str, str], entries: Iterable[KeyPath] = ()) -> Document:
    """Replace the references in a document.

    The new document's `secrets` are the values from `environ`, and `hidden_places` their key paths. `visible_secrets`
    are the secrets that clients may see: the name of the variable is not that of a secret, and the value is an ordinary
    word or appears only in settings that clients see.

    `entries` are the places of entries whose problems do not concern the rest of the document. These problems become
    its `entry_problems`. For all others, this raises one ConfigError, which names every variable that is not set.
    """
    expansion = _Expansion(document=document, environ=environ)
    data = {key: expansion.replace_all(item, (key,)) for key, item in document.data.items()}
    problems = dict(expansion.take_entry_problems(entries))
    if expansion.errors:
        raise join_errors([error for _, error in expansion.errors])
    return replace(
        document,
        data=data,
        hidden_places=document.hidden_places | expansion.hidden,
        secrets=document.secrets | expansion.secrets,
        visible_secrets=document.visible_secrets | (expansion.secrets - expansion.redacted),
        entry_problems=problems,
    )


@dataclass(slots=True, kw_only=True)
class _Expansion:
    """The state of one walk over the data."""

    document: Document
    environ: Mapping[str, str]
    errors: list[tuple[KeyPath, ConfigError]] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    redacted: set[str] = field(default_factory=set)
    hidden: set[KeyPath] = field(default_factory=set)

    def replace_all(self, value: Any, place: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: self.replace_all(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.replace_all(item, (*place, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            return _REFERENCE.sub(lambda match: self._replace(match, place), value)
        return value

    def _replace(self, match: re.Match[str], place: KeyPath) -> str:
        name, default = match["name"], match["default"]
        if match["literal"]:
            return "${"
        if match.string.startswith("${input:", match.start()):
            hint = "Use an environment variable instead: ${NAME}."
            return self._fail(place, "'${input:...}' is a question that only an editor can ask its user", hint)
        if name is None:
            hint = "Write ${NAME} or ${NAME:-default}, or '$${' for a literal '${'."
            return self._fail(place, "'${' does not begin a valid reference to a variable", hint)
        value = self.environ.get(name)
        if value is None and default is None:
            hint = f"Set it, or give a default: ${{{name}:-default}}."
            return self._fail(place, f"the environment variable {name} is not set", hint)
        if not value:
            return default or ""
        if not is_encodable(value):
            return self._fail(place, f"the environment variable {name} is not UTF-8 text", "Set it to UTF-8 text.")
        if name not in _PUBLIC:
            self.secrets.add(value)
            self.hidden.add(place)
            is_word = value.isalpha() and len(value) <= _MAX_WORD
            is_number = value.isdecimal() and len(value) <= _MAX_NUMBER
            is_for_clients = place[0] not in _SECRET_SECTIONS
            if place[0] == "sources" and len(place) > 2:
                is_for_clients = place[2] in _COMMON_KEYS
            if _is_secret_name(name) or not (is_for_clients or is_word or is_number):
                self.redacted.add(value)
        return value

    def _fail(self, place: KeyPath, problem: str, hint: str) -> str:
        """Add an error, and return the replacement of the reference. The other references are still checked."""
        self.errors.append((place, self.document.make_error(place, problem, hint)))
        return ""

    def take_entry_problems(self, entries: Iterable[KeyPath]) -> Iterator[tuple[KeyPath, ConfigError]]:
        """Remove the errors in each of the entries, and yield its place with one error for all of them."""
        for entry in entries:
            other_errors, entry_errors = [], []
            for place, error in self.errors:
                if place[: len(entry)] == entry:
                    entry_errors.append(error)
                else:
                    other_errors.append((place, error))
            if entry_errors:
                self.errors = other_errors
                yield entry, join_errors(entry_errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """A variable that settings refer to. `default` is that of the first reference, if all references have one."""

    name: str
    default: str | None = None
    is_credential: bool = False

    @property
    def is_secret(self) -> bool:
        return self.is_credential or _is_secret_name(self.name)


def list_variables(document: Document) -> tuple[EnvironmentVariable, ...]:
    """List the variables of a document in its order, without the common ones of every process."""
    variables: dict[str, EnvironmentVariable] = {}
    for _, value in walk_values(document.data):
        if not isinstance(value, str):
            continue
        for match in _REFERENCE.finditer(value):
            name, default = match["name"], match["default"]
            if name is None or name in _PUBLIC:
                continue
            if name not in variables or default is None:
                variables[name] = EnvironmentVariable(name=name, default=default)
    return tuple(variables.values())


def _is_secret_name(variable: str) -> bool:
    return any(word in variable.lower() for word in SENSITIVE)
