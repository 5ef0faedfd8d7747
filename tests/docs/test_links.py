"""Every file, page and section that the documentation names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.paths import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?:\]\(|\b(?:src|srcset|href)=\")(?![a-z]+:)([^)#\"\s]*)(#[^)\"\s]+)?")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NAMED_FILE = re.compile(r"`((?:mcp_bridge|_[a-z]\w*|benchmarks|config|docs|release|tests|web)/[\w./*-]*)(?:::\w+)?`")
NAMED_PAGE = re.compile(r"(?<![\w/.-])docs/(?:decisions/)?[\w-]+\.md\b")


def read_text(page: Path) -> str:
    """Return the text of a page without its fenced blocks, whose files belong to the reader."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def find_broken_links(page: Path) -> Iterator[str]:
    for target, anchor in LINK.findall(read_text(page)):
        path = page.parent / target if target else page
        if not path.exists():
            yield target
        elif anchor and anchor not in list_anchors(path):
            yield f"{target}{anchor}"


def list_anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    anchors = set()
    for heading in HEADING.findall(read_text(page)):
        text = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", heading)
        anchors.add("#" + re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return anchors


def find_missing_files(page: Path) -> Iterator[str]:
    for name in NAMED_FILE.findall(read_text(page)):
        folder = ROOT / "mcp_bridge" if name.startswith("_") else ROOT
        if not any(folder.glob(name.rstrip("/"))):
            yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_section(page: Path) -> None:
    assert list(find_broken_links(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_repository_that_a_page_names_exist(page: Path) -> None:
    assert list(find_missing_files(page)) == []


@pytest.mark.parametrize("folder", ["mcp_bridge", "tests", "benchmarks", "release", "docs"])
def test_pages_that_the_code_names_exist(folder: str) -> None:
    for file in (ROOT / folder).rglob("*.py"):
        missing = [name for name in NAMED_PAGE.findall(file.read_text(encoding="utf-8")) if not (ROOT / name).exists()]
        assert missing == [], file
