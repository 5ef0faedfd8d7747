"""Completions: suggested values for an argument of a prompt or a variable of a URI template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Completions = Sequence[str] | Callable[..., Any]
"""All values, or a function that returns them. The function receives the text typed so far and, if it has a second
parameter, the arguments that are already known (a mapping of text). It may be async. The server ranks and truncates
the values."""
