"""What the fuzzing tests share: how many examples, and the corpus of what once failed (tests/kits/corpus).

Each file of the corpus is one finding: `kind` (which test replays it: message, schema or settings), `name` (what once
happened), what was given, and what is expected. FUZZ=50 multiplies the examples by 50, for a long run by night.
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


def examples(number: int) -> settings:
    """So many examples, many more with FUZZ; the same ones every time in CI, where a failure has to come again."""
    return settings(
        max_examples=number * TIMES,
        derandomize="CI" in os.environ and TIMES == 1,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )


def corpus(kind: str) -> list[Any]:
    """The findings of a kind, as parameters of a test."""
    found = [(path, json.loads(path.read_text())) for path in sorted(CORPUS.glob("*.json"))]
    return [pytest.param(finding, id=path.stem) for path, finding in found if finding["kind"] == kind]


def built(text: Any) -> str:
    """A text of the corpus: parts in a row, `{"repeat": [it, times]}`, `{"nest": [[open, close], it, depth]}`."""
    if isinstance(text, list):
        return "".join(map(built, text))
    if isinstance(text, dict) and "repeat" in text:
        again, times = text["repeat"]
        return str(again * times)
    if isinstance(text, dict):
        (before, after), inside, depth = text["nest"]
        return f"{before * depth}{inside}{after * depth}"
    return str(text)
