"""Replaces the secrets in a copy of an entry by references to variables.

Secrets are guessed by the name of the variable, header or option with the value, or by the form of the value.
For example, `--token=sk-123` becomes `--token=${DOCS_TOKEN}` in the arguments of the server `docs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge._json_schema.secret_names import is_secret_key

_KNOWN_FORM = re.compile(
    r"(?:sk-|gh[opsu]_|github_pat_|xox[abprs]-|AKIA|AIza|glpat-|npm_|hf_|eyJ|(?i:bearer)\s+(?=\S*\d))[A-Za-z0-9_.\-]{8,}"
)
"""Keys and tokens with the fixed beginnings of providers, and tokens with a digit after the word `Bearer`."""
_LONG_WORD = re.compile(r"[A-Za-z0-9+_=\-]{20,}")
_HEX = re.compile(r"[0-9a-fA-F]{32,}")
_USER_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_URL = re.compile(r"([^:/?#]*://[^/?#]*)?([^?#]*)(\??)([^#]*)(.*)", re.DOTALL)
"""A host, a path, a question mark, a query and a fragment. It matches any text, because the URL may be invalid, or
contain references to variables."""
_SCHEME = re.compile(r"(?i)(basic|bearer|token)\s+(.+)", re.DOTALL)
_HEADER_WORD = re.compile(r"([A-Za-z][A-Za-z0-9\-]*):(?!//)\s*(.+)", re.DOTALL)
"""An argument such as `Authorization: Bearer TOKEN`, but not a URL."""
_ASSIGNMENT = re.compile(r"(-{0,2}[A-Za-z][\w.\-]*)=(.+)", re.DOTALL)
"""An argument such as `--token=TOKEN` or `TOKEN=TOKEN`."""
_REFERENCE = re.compile(r"(?<!\$)\$\{")
"""The beginning of a reference to a variable; `$${` is the text `${`."""


@dataclass(slots=True)
class SecretCollector:
    """Collects the secrets of entries, and chooses a variable for each.

    `places` maps each variable to the place of its value. `reserved` are the variables to which entries already refer,
    so they cannot get other values.
    """

    places: dict[str, str] = field(default_factory=dict)
    reserved: Set[str] = frozenset()
    _values: dict[str, str] = field(default_factory=dict)

    def replace_secrets(self, server: str, options: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the options of a server without secrets. `where` names its place for users."""
        entry = _EntrySecrets(self, server, where)
        result = dict(options)
        env = options.get("env")
        if isinstance(env, Mapping):
            result["env"] = {name: entry.replace_variable(name, value) for name, value in env.items()}
        headers = options.get("headers")
        if isinstance(headers, Mapping):
            result["headers"] = {name: entry.replace_header(name, value) for name, value in headers.items()}
        args = options.get("args")
        if isinstance(args, list):
            result["args"] = entry.replace_arguments(args)
        url = options.get("url")
        if isinstance(url, str):
            result["url"] = entry.replace_in_url(url)
        return result

    def add_secret(self, server: str, name: str, value: str, where: str) -> str:
        """Add a secret, and return the reference to its variable.

        The variable has the name `name`, unless another one has this name. Then the server is added to it, and
        if necessary a number.
        """
        variable = _to_variable(name)
        number = 0
        while variable in self.reserved or self._values.get(variable, value) != value:
            number += 1
            suffix = f"_{number}" if number > 1 else ""
            variable = f"{_to_variable(server)}_{_to_variable(name)}{suffix}"
        self._values[variable] = value
        self.places.setdefault(variable, where)
        return f"${{{variable}}}"


@dataclass(slots=True)
class _EntrySecrets:
    """Replaces the secrets of one entry."""

    collector: SecretCollector
    server: str
    where: str

    def replace_variable(self, name: str, value: Any) -> Any:
        return self._add(name, value, f"env.{name}") if is_secret(name, value) else value

    def replace_header(self, name: str, value: Any) -> Any:
        """Replace the value of a header, but not its scheme."""
        if not is_secret(name, value):
            return value
        scheme = _SCHEME.fullmatch(value)
        variable = "TOKEN" if name.lower() == "authorization" else name
        if scheme is None:
            return self._add(f"{self.server}_{variable}", value, f"headers.{name}")
        return f"{scheme[1]} {self._add(f'{self.server}_{variable}', scheme[2], f'headers.{name}')}"

    def replace_arguments(self, words: list[Any]) -> list[Any]:
        result: list[Any] = []
        previous = ""
        for index, word in enumerate(words):
            option = ""
            # In `--token TOKEN`, the word before the value names it.
            if previous.startswith("-") and "=" not in previous and not str(word).startswith("-"):
                option = previous.lstrip("-")
            result.append(self._replace_argument(word, option, f"args[{index}]"))
            previous = str(word)
        return result

    def replace_in_url(self, url: str) -> str:
        if _USER_PASSWORD.search(url):
            return self._add(f"{self.server}_URL", url, "url")
        match = _URL.fullmatch(url)
        # Every text matches.
        assert match is not None
        host, path, question, query, fragment = match.groups(default="")
        segments = path.split("/")
        for index, segment in enumerate(segments):
            if is_secret("", segment):
                segments[index] = self._add(f"{self.server}_KEY", segment, "url")
        pairs = query.split("&")
        for index, pair in enumerate(pairs):
            name, _, value = pair.partition("=")
            if is_secret(name, value):
                pairs[index] = f"{name}={self._add(f'{self.server}_{name}', value, 'url')}"
        return f"{host}{'/'.join(segments)}{question}{'&'.join(pairs)}{fragment}"

    def _replace_argument(self, word: Any, option: str, place: str) -> Any:
        if not isinstance(word, str):
            return word
        # A header keeps its name and its scheme, so it is not replaced as a whole.
        header = _HEADER_WORD.fullmatch(word)
        if header is None and is_secret(option, word):
            return self._add(f"{self.server}_{option or 'SECRET'}", word, place)
        if header is not None and is_secret(header[1], header[2]):
            return word.replace(header[2], self.replace_header(header[1], header[2]))
        pair = _ASSIGNMENT.fullmatch(word)
        if pair is not None and is_secret(pair[1], pair[2]):
            return f"{pair[1]}={self._add(f'{self.server}_{pair[1]}', pair[2], place)}"
        if word.startswith(("http://", "https://")):
            return self.replace_in_url(word)
        return word

    def _add(self, name: str, value: str, place: str) -> str:
        return self.collector.add_secret(self.server, name, value, f"{self.where}.{place}")


def is_secret(name: str, value: Any) -> bool:
    """Return whether a value looks like a secret: by the name of its variable, header or option, or by its own form."""
    if not isinstance(value, str) or not value or _REFERENCE.search(value):
        return False
    if is_secret_key(name):
        return True
    if _KNOWN_FORM.search(value) or _USER_PASSWORD.search(value) or _HEX.fullmatch(value):
        return True
    if not _LONG_WORD.fullmatch(value):
        return False
    # Generated keys have small letters, capitals and digits; long words of people rarely have all three.
    return any(map(str.islower, value)) and any(map(str.isupper, value)) and any(map(str.isdigit, value))


def _to_variable(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()
    if not name:
        return "SECRET"
    # The name of a variable cannot begin with a digit.
    return f"_{name}" if name[0].isdigit() else name
