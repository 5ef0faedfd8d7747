"""Completions: what may be offered for an argument of a prompt or a variable of a URI template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Completions = Sequence[str] | Callable[..., Any]
"""All values, or a function that gives them: it gets what was typed so far, and, where it has a second parameter,
the arguments that are known already (a mapping of text). It may be async. The bridge ranks and cuts its answer."""
