"""Each test named in docs/security-tests.md exists."""

from __future__ import annotations

import re

from tests.kits.paths import ROOT

NAMED = re.compile(r"`(tests/\S+?\.py)::(test_\w+)`")


def test_every_test_that_the_page_names_is_there() -> None:
    tests = NAMED.findall((ROOT / "docs" / "security-tests.md").read_text())
    assert len(tests) > 60
    files = {file: (ROOT / file).read_text() for file, _ in tests if (ROOT / file).is_file()}
    missing = [f"{file}::{name}" for file, name in tests if f"def {name}(" not in files.get(file, "")]
    assert missing == []


def test_no_case_is_named_twice() -> None:
    page = (ROOT / "docs" / "security-tests.md").read_text()
    rows = [line for line in page.splitlines() if NAMED.search(line)]
    assert len(rows) == len(set(rows))
