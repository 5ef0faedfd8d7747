"""Writes Amplifier modules into files, and installs distributions with modules, for the tests of the loader."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

MODULE = """
from mcp_bridge.amplifier import ToolResult


class Here:
    name = "here"
    description = "Says where it is."

    async def execute(self, input):
        return ToolResult(output=__file__)


async def mount(coordinator, config):
    await coordinator.mount("tools", Here())
"""
"""A module that mounts a tool `here`, which returns the path of its file."""


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write these files into a folder, and return the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), "utf-8")
    return folder


def install_distribution(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    points: Mapping[str, str],
    files: Mapping[str, str],
    name: str = "mine",
) -> Path:
    """Install a distribution into a folder. Its `files` can be imported, and `points` are its entry points."""
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    write_files(
        folder, {f"{info}/METADATA": metadata, f"{info}/entry_points.txt": f"[amplifier.modules]\n{lines}", **files}
    )
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.syspath_prepend(str(folder))
    return folder
