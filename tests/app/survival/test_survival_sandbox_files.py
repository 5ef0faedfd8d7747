"""A sandboxed source can read its own files and its imports, wherever the settings file is."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.survival.test_survival_sandbox import TOOLS, check_failure, list_visible_files
from tests.kits.constants import TIMEOUT
from tests.kits.sandbox.sandbox_kit import needs_bubblewrap, needs_landlock, on_both_mechanisms
from tests.kits.survival.survival_kit import FIRST_WAY, run_server

KEY = ".ssh/id_rsa"
OWN = (
    TOOLS
    + """
import helper, package.inner

@tool
def imports() -> list[str]:
    return [helper.NAME, package.inner.read_data()]
"""
)
INNER = """
from pathlib import Path

def read_data():
    return Path(__file__).with_name("data.txt").read_text()
"""
FILES = {
    KEY: "a key",
    "notes.txt": "private",
    "unused.py": "",
    "helper.py": "import second\nNAME = second.NAME",
    "second.py": "NAME = 'second'",
    "package/__init__.py": "",
    "package/inner.py": INNER,
    "package/data.txt": "data",
}
IMPORTED = {"helper.py", "second.py", "package"}


@contextlib.contextmanager
def run_at_home(home: Path, source: dict[str, Any], *, mechanism: str = "bubblewrap", **sandbox: Any) -> Iterator[Any]:
    """Run a server with settings in the user's home folder."""
    for name, text in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    python_source = {"type": "python", **source, "isolation": {"sandbox": {"type": mechanism, **sandbox}, "workers": 1}}
    with run_server(FIRST_WAY, home, OWN, {"sources": [python_source]}, env={"HOME": str(home)}) as server:
        yield server


@needs_bubblewrap
@pytest.mark.parametrize("source", [{"path": "own_tools.py"}, {"module": "own_tools"}], ids=["path", "module"])
def test_settings_in_the_home_folder_do_not_expose_it(source: dict[str, Any], tmp_path: Path) -> None:
    with run_at_home(tmp_path, source) as server:
        assert json.loads(server.get_text("imports")) == ["second", "data"]
        assert list_visible_files(server, ".") == {"own_tools.py", *IMPORTED}
        for name in (KEY, "notes.txt", "mcp-bridge.json"):
            check_failure(server, "reads", path=str(tmp_path / name))
        check_failure(server, "writes", path=str(tmp_path / "new.txt"))
        server.wait_for_stderr("SECURITY: the settings file of the sandboxed source")


@needs_bubblewrap
def test_a_source_that_is_the_home_folder_does_not_expose_it(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with run_at_home(tmp_path / "home", {"path": ".", "tools": []}) as server:
        server.wait_for_stderr("survival_tools")


@needs_landlock
def test_landlock_cannot_hide_the_names_in_the_home_folder(tmp_path: Path) -> None:
    with run_at_home(tmp_path, {"path": "own_tools.py"}, mechanism="landlock") as server:
        server.wait_for_stderr("Landlock cannot hide the names of files in your home folder")
        assert server.get_text("echo", text="served") == "served"


@on_both_mechanisms
def test_a_folder_of_tools_is_readable_as_a_whole(mechanism: str, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "first.py").write_text(TOOLS)
    (tmp_path / "tools" / "data.txt").write_text("data")
    (tmp_path / "notes.txt").write_text("private")
    source = {"type": "python", "path": "tools", "isolation": {"sandbox": mechanism, "workers": 1}}
    with run_server(FIRST_WAY, tmp_path, "", {"sources": [source]}) as server:
        assert server.get_text("reads", path="tools/data.txt") == "data"
        check_failure(server, "reads", path="notes.txt")
        if mechanism == "bubblewrap":
            assert list_visible_files(server, ".") == {"tools"}


@on_both_mechanisms
def test_a_path_that_exposes_the_home_folder_is_reported(mechanism: str, tmp_path: Path) -> None:
    with run_at_home(tmp_path, {"path": "own_tools.py"}, mechanism=mechanism, read=["."]) as server:
        server.wait_for_stderr("SECURITY: isolation.sandbox.read gives the sandbox of source")
        assert server.get_text("reads", path=KEY) == "a key"


@needs_bubblewrap
def test_a_writable_folder_around_the_settings_cannot_change_them(tmp_path: Path) -> None:
    inside = tmp_path / "settings"
    inside.mkdir()
    with run_at_home(inside, {"path": "own_tools.py"}, write=[str(tmp_path)]) as server:
        for name in ("mcp-bridge.json", "own_tools.py", "new.py"):
            check_failure(server, "writes", path=str(inside / name))


@on_both_mechanisms
def test_a_link_that_a_tool_makes_exposes_nothing(mechanism: str, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("NAME = 'a key'")
    inside = tmp_path / "settings"
    inside.mkdir()
    with run_at_home(inside, {"path": "own_tools.py"}, mechanism=mechanism, write=["."]) as server:
        assert json.loads(server.get_text("imports")) == ["second", "data"]
        (inside / "second.py").unlink()
        (inside / "second.py").symlink_to("../secret.py")
        assert server.get_result("wreck")["isError"]
        assert "a key" not in json.dumps(server.get_result("imports"))
        reasons = {"bubblewrap": "No module named 'second'", "landlock": "Permission denied"}
        server.wait_for_stderr(reasons[mechanism])


@needs_bubblewrap
def test_a_source_that_lists_no_files_is_rejected_in_the_home_folder(tmp_path: Path) -> None:
    source = {"type": "xaibo", "provider": "provider:Tools", "isolation": {"sandbox": "bubblewrap"}}
    (tmp_path / "bridge.json").write_text(json.dumps({"sources": [source]}))
    result = subprocess.run(
        [sys.executable, "-m", "mcp_bridge", "validate", "bridge.json"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert result.returncode != 0
    assert "the sandbox could read all keys in your home folder" in result.stderr
    assert "bridge.json:1" in result.stderr
