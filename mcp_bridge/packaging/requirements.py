"""The packages that a project's tools need, as its requirements.txt and its person say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.contracts.errors import ConfigError


def gathered(file: Path, added: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What is required, the bridge itself left out, and a sentence for each line that cannot be handed on.

    Raises ConfigError for an added requirement that is none.
    """
    required = {canonical(text): text for text in _checked(added) if canonical(text) != DISTRIBUTION}
    unclear = []
    for line in _lines(file):
        name = canonical(line)
        if name == DISTRIBUTION:
            continue
        if name is None or " @ file:" in line:
            unclear.append(f"{file.name}: '{line}' cannot be handed on: name the package with --needs")
        else:
            required.setdefault(name, line)
    return tuple(required.values()), tuple(unclear)


def canonical(text: str) -> str | None:
    """The name in a requirement, as registries compare it; None for what is no requirement."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return None


def _checked(added: Sequence[str]) -> Sequence[str]:
    for text in added:
        if canonical(text) is None:
            raise ConfigError(f"'{text}' is no requirement", where="--needs", hint="Write it as 'name' or 'name>=1.2'")
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
