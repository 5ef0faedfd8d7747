"""Editing one entry in realistic files: golden/formats/CASE.before.EXT and CASE.after.EXT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._desktop.config_file import load_file, save_file
from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.syntax import Format
from tests.kits.paths import KITS

FOLDER = KITS / "clients" / "golden" / "formats"
BEFORE = sorted(FOLDER.glob("*.before.*"))
PLACES: dict[str, tuple[Format, list[str]]] = {
    "json": ("json", ["mcpServers"]),
    "jsonc": ("jsonc", ["context_servers"]),
    "yaml": ("yaml", ["extensions"]),
    "toml": ("toml", ["mcp_servers"]),
}
LISTED = "list"
ENTRY = {"command": "/opt/bin/mcp-bridge", "args": ["serve", "/home/me/tools.py"], "env": {"TOKEN": "${TOKEN}"}}


@pytest.mark.parametrize("before", BEFORE, ids=lambda path: path.name)
def test_an_entry_is_added_as_in_the_golden_file_and_removed_without_a_trace(before: Path, tmp_path: Path) -> None:
    case, _, extension = before.name.split(".")
    path = tmp_path / "file"
    path.write_bytes(before.read_bytes())
    format, within = PLACES[extension]
    options: dict[str, Any] = {"listed": case.startswith(LISTED)}
    new_text = editor.put_entry(format, load_file(path).content, within, "tools", ENTRY, **options)
    save_file(path, load_file(path), new_text)
    assert path.read_bytes() == (FOLDER / f"{case}.after.{extension}").read_bytes()
    old = before.read_bytes().decode("utf-8-sig")
    change = editor.describe_change(format, old, new_text, within, "tools", **options)
    remaining_text = editor.revert_change(format, load_file(path).content, within, "tools", change, **options)
    save_file(path, load_file(path), remaining_text)
    assert path.read_bytes() == before.read_bytes()


def test_there_is_a_golden_pair_for_each_format() -> None:
    assert {path.suffix[1:] for path in BEFORE} == set(PLACES)
    assert {path.name for path in BEFORE} == {
        path.name.replace(".after.", ".before.") for path in FOLDER.glob("*.after.*")
    }
