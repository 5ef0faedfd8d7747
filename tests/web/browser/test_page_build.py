"""The built page matches its sources, is small, and contains the licences of its libraries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.kits.node.needed import print_uncaptured
from tests.kits.node.toolchain import ToolchainUnavailable, find_node, install, node_environment
from tests.kits.paths import ROOT

STATIC = ROOT / "mcp_bridge" / "_web" / "static"
SOURCES = ROOT / "web"
MOST_COMPRESSED = 47_000
"""Bytes of all files of the page, compressed as in a wheel."""


@pytest.mark.npm
def test_the_built_page_matches_its_sources(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    try:
        node = find_node()
        modules = install(node, SOURCES)
    except ToolchainUnavailable as missing:
        reason = f"the page was NOT BUILT AGAIN: {missing}"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        print_uncaptured(pytestconfig, reason)
        pytest.skip(reason)
    copy = shutil.copytree(SOURCES, tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    (copy / "node_modules").symlink_to(modules)
    command = [node, copy / "build.mjs", tmp_path / "static"]
    subprocess.run(command, env=node_environment(node), check=True, timeout=120)
    new_files = {path.name: path.read_bytes() for path in (tmp_path / "static").iterdir()}
    files = {path.name: path.read_bytes() for path in STATIC.iterdir()}
    assert new_files == files, "run `npm ci && npm run build` in web/ and commit the result"


def test_the_page_is_small() -> None:
    assert sum(len(zlib.compress(path.read_bytes(), 9)) for path in STATIC.iterdir()) < MOST_COMPRESSED


def test_the_page_names_its_libraries_with_their_licences() -> None:
    script = (STATIC / "app.js").read_text(encoding="utf-8")
    for name in ("preact", "@preact/signals"):
        assert re.search(rf"{re.escape(name)} \d+\.\d+\.\d+ \(MIT\)", script)
    assert "Permission is hereby granted" in script


def test_no_file_of_the_page_refers_to_another_site() -> None:
    reference = re.compile(r"""(?:src|href|url|import|fetch)\s*[=(]?\s*["'`(]\s*(?:https?:)?//[^"'`]+""")
    for path in STATIC.iterdir():
        assert not reference.findall(path.read_text(encoding="utf-8")), path.name


def test_the_lock_file_of_the_page_names_no_registry() -> None:
    assert '"resolved"' not in (SOURCES / "package-lock.json").read_text()
