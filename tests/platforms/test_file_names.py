"""Files that the bridge names after the texts of others are not devices of Windows, such as CON."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from mcp_bridge._integrations.amplifier.source.checkouts import Checkouts
from mcp_bridge._integrations.amplifier.source.git import GitAddress
from mcp_bridge._runtime.file_names import make_file_name
from tests.kits.platforms.simulated_systems import SimulatedComputer

TOOLS = """
from mcp_bridge import tool

@tool
def greet() -> str:
    "Greet."
    return "Hello"
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("con", "_con"),
        ("Aux.v2", "_Aux.v2"),
        ("NUL .txt", "_NUL .txt"),
        ("com1", "_com1"),
        ("LPT\u00b9", "_LPT\u00b9"),
        ("conin$", "_conin$"),
        ("con:", "con_"),
        ("C:prn", "C_prn"),
        ("report. ", "report._"),
        ("...", "_"),
        ("", "_"),
        ("a/../b\\c", "a_.._b_c"),
        ("contract", "contract"),
        ("com10", "com10"),
        ("my-aux", "my-aux"),
    ],
)
def test_a_name_is_changed_only_if_a_system_would_not_accept_it(text: str, name: str) -> None:
    assert make_file_name(text) == name


def test_a_checkout_of_a_host_with_the_name_of_a_device_has_another_name() -> None:
    address = GitAddress(uri="git+https://aux.example/tool", url="https://aux.example/tool")
    folder = Checkouts(Path("modules")).locate(address, "0" * 40).parent.parent
    assert folder.name.startswith("_aux.example-tool-")


def test_a_document_with_the_name_of_a_device_is_imported(windows: SimulatedComputer) -> None:
    document = {"openapi": "3.1.0", "info": {"title": "CON", "version": "1"}, "paths": {"/a": {"get": {}}}}
    (windows.folder / "api.json").write_text(json.dumps(document))
    result = windows.run("import", "openapi", "api.json")
    assert result.returncode == 0, result.stderr
    assert json.loads((windows.folder / "_con.json").read_text())["info"]["title"] == "CON"


def test_a_project_with_the_name_of_a_device_is_exported(windows: SimulatedComputer) -> None:
    (windows.folder / "own_tools.py").write_text(TOOLS)
    settings = {"name": "nul", "sources": [{"type": "python", "path": "own_tools.py"}]}
    (windows.folder / "bridge.json").write_text(json.dumps(settings))
    result = windows.run("export", "mcpb", "bridge.json", "--from-index")
    assert result.returncode == 0, result.stderr
    with zipfile.ZipFile(windows.folder / "_nul.mcpb") as bundle:
        assert json.loads(bundle.read("manifest.json"))["name"] == "nul"
