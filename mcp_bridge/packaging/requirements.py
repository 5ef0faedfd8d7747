"""The packages that a project's tools need, as its requirements.txt and its person say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.contracts.errors import ConfigError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_PERSON = re.compile(r"://[^/@\s]+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """Requirements besides the bridge, its own extras, and a sentence for each line that cannot be handed on."""

    packages: Sequence[str] = ()
    extras: Sequence[str] = ()
    unclear: Sequence[str] = ()


def gathered(file: Path, added: Sequence[str]) -> Required:
    """What a file requires, and what a person adds, which stands for all lines of the file about the same package.

    Raises ConfigError for an added requirement that is none, or cannot be handed on.
    """
    packages, unclear = list(_checked(added)), []
    replaced = {canonical(text) for text in packages}
    for line in _lines(file):
        if not _travels(line):
            unclear.append(f"{file.name}: '{_shown(line)}' cannot be handed on: name the package with --needs")
        elif canonical(line) not in replaced or canonical(line) == DISTRIBUTION:
            packages.append(line)
    ours = [text for text in packages if canonical(text) == DISTRIBUTION]
    extras = {extra for text in ours if (found := _parsed(text)) for extra in found.extras}
    others = dict.fromkeys(text for text in packages if text not in ours)
    return Required(packages=tuple(others), extras=tuple(sorted(extras)), unclear=tuple(unclear))


def canonical(text: str) -> str | None:
    """The name in a requirement, as registries compare it; None for what is no requirement."""
    from packaging.utils import canonicalize_name

    found = _parsed(text)
    return canonicalize_name(found.name) if found is not None else None


def _parsed(text: str) -> Requirement | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _travels(text: str) -> bool:
    """Whether it is a requirement that means the same elsewhere, and tells nobody a password."""
    found = _parsed(text)
    if found is None or "${" in text:
        return False
    if found.url is None or canonical(text) == DISTRIBUTION:  # of the bridge only the extras are handed on
        return True
    try:
        address = urlsplit(found.url)
        return bool(address.hostname) and address.password is None and address.username in (None, "git")
    except ValueError:
        return False


def _shown(text: str) -> str:
    """The text without whom an address names, who may be a token."""
    return _PERSON.sub("://***@", text)


def _checked(added: Sequence[str]) -> Sequence[str]:
    for text in added:
        if not _travels(text):
            hint = "Write it as 'name' or 'name>=1.2'"
            raise ConfigError(f"'{_shown(text)}' is no requirement that can be handed on", where="--needs", hint=hint)
    return added


def _lines(file: Path) -> Sequence[str]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=str(file)) from None
    stripped = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
    return tuple(line for line in stripped if line)
