"""`${NAME}` in a call template: a variable of the environment, which need not stand in the manual."""

from __future__ import annotations

import os
import re
from typing import Any

from mcp_bridge.contracts.errors import SourceError

_REFERENCE = re.compile(r"\$\{(\w+)\}")
SHELL = "commands"
"""The key whose text is for a shell, which has variables of its own."""


def substituted(value: Any, manual: str) -> Any:
    """The value with its variables filled in; one of this manual (`manual_NAME`, as UTCP has it) comes first.

    Raises SourceError for a variable that is not set.
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda found: _value(found[1], manual), value)
    if isinstance(value, dict):
        return {key: item if key == SHELL else substituted(item, manual) for key, item in value.items()}
    if isinstance(value, list):
        return [substituted(item, manual) for item in value]
    return value


def _value(name: str, manual: str) -> str:
    own = f"{manual.replace('_', '__')}_{name}"
    for known in (own, name):
        if os.environ.get(known):
            return os.environ[known]
    raise SourceError(f"the variable ${{{name}}} is not set. Set {name}, or {own} for this manual alone")
