"""Each decision has a page with its reason, and a line in the list of decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kits.paths import ROOT

INDEX = ROOT / "docs" / "decisions" / "index.md"
PAGES = sorted(page for page in INDEX.parent.glob("*.md") if page != INDEX)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_has_a_reason_and_names_what_was_rejected(page: Path) -> None:
    parts = re.findall(r"^(# |\*\*Why\.\*\* |\*\*Rejected\.\*\* )\S", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert parts == ["# ", "**Why.** ", "**Rejected.** "]


def test_the_list_has_every_decision_under_its_title() -> None:
    lines = re.findall(r"^- \[(.+)\]\((.+)\)$", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    titles = [(page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "), page.name) for page in PAGES]
    assert sorted(lines) == sorted(titles)
