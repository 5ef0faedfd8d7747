"""Fuzzing: the number of examples, and the corpus of inputs of past failures (tests/kits/corpus).

Each file of the corpus is one finding: `kind` (the test that replays it: message, schema or settings), `name` (what
happened), the input and the expected result. FUZZ=50 multiplies the number of examples by 50, for a run overnight.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

TIMES = int(os.environ.get("FUZZ", "1"))
CORPUS = Path(__file__).parent / "corpus"


def use_examples(number: int) -> settings:
    """Return settings with this number of examples, times FUZZ. In CI the same examples run each time."""
    return settings(
        max_examples=number * TIMES,
        derandomize="CI" in os.environ and TIMES == 1,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )


def read_corpus(replays: str) -> list[Any]:
    """Return the findings of one kind, as parameters of a test."""
    findings = [(path, json.loads(path.read_text())) for path in sorted(CORPUS.glob("*.json"))]
    return [pytest.param(finding, id=path.stem) for path, finding in findings if finding["kind"] == replays]


def build_text(text: Any) -> str:
    """Return the text that a finding describes in a short form.

    A list is joined, `{"repeat": [text, times]}` repeats a text, and `{"nest": [[open, close], text, depth]}` nests it.
    """
    if isinstance(text, list):
        return "".join(map(build_text, text))
    if isinstance(text, dict) and "repeat" in text:
        repeated, times = text["repeat"]
        return str(repeated * times)
    if isinstance(text, dict):
        (before, after), inside, depth = text["nest"]
        return f"{before * depth}{inside}{after * depth}"
    return str(text)
