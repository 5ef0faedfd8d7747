"""Collects the packages for an exported project from its requirements.txt and the options of the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._version import DISTRIBUTION

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_USER_INFO = re.compile(r"://[^/@\s]+@")
"""The user part of a URL, which may be a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The required packages, the extras of mcp-bridge itself, and a warning for each ignored line."""

    packages: Sequence[str] = ()
    extras: Sequence[str] = ()
    warnings: Sequence[str] = ()


def read_requirements(file: Path, added: Sequence[str]) -> Requirements:
    """Read the requirements in a file. Those `added` by the user replace the lines about the same package.

    Raises ConfigError if an added requirement is invalid or not portable.
    """
    for text in added:
        if not _is_portable(text):
            problem = f"'{_USER_INFO.sub('://***@', text)}' is not a portable requirement"
            raise ConfigError(problem, where="--needs", hint="Use 'name' or 'name>=1.2'")
    packages = list(added)
    warnings: list[str] = []
    replaced_names = {parse_name(text) for text in added}
    try:
        content = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        content = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read: {error}", path=str(file)) from None
    for text in content.splitlines():
        line = re.sub(r"(^|\s)#.*", "", text).strip()
        if not line:
            continue
        if not _is_portable(line):
            redacted_line = _USER_INFO.sub("://***@", line)
            warnings.append(f"{file.name}: '{redacted_line}' is left out, as it is not portable: use --needs instead")
        elif parse_name(line) not in replaced_names or parse_name(line) == DISTRIBUTION:
            packages.append(line)
    # Only the extras of a requirement of mcp-bridge itself are used: the export adds this release.
    bridge_requirements = [text for text in packages if parse_name(text) == DISTRIBUTION]
    extras: set[str] = set()
    for text in bridge_requirements:
        requirement = _parse(text)
        if requirement is not None:
            extras |= requirement.extras
    further_packages = dict.fromkeys(text for text in packages if text not in bridge_requirements)
    return Requirements(packages=tuple(further_packages), extras=tuple(sorted(extras)), warnings=tuple(warnings))


def parse_name(text: str) -> str | None:
    """Return the normalized name of a requirement, or None if it is invalid."""
    from packaging.utils import canonicalize_name

    requirement = _parse(text)
    return canonicalize_name(requirement.name) if requirement is not None else None


def _parse(text: str) -> Requirement | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _is_portable(text: str) -> bool:
    """Return whether a requirement is valid on other machines, and contains no password."""
    requirement = _parse(text)
    if requirement is None or "${" in text:
        return False
    # Only the extras of the requirement of mcp-bridge itself are used.
    if requirement.url is None or parse_name(text) == DISTRIBUTION:
        return True
    url = split_url(requirement.url)
    return bool(url.hostname) and url.password is None and url.username in (None, "git")
