"""The wheel: its files, its installation, and the name of the distribution."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from mcp_bridge._version import __version__
from tests.kits.cli.cli_running import TOOLS
from tests.kits.packaging.packaging_kit import build_wheel
from tests.kits.paths import ROOT

BUILD = 180
SKIPPED = {".git", ".node", "node_modules", "dist", "build", "__pycache__", ".ruff_cache", ".mypy_cache"}
WRONG = re.compile(
    r"(?:pip3?|pipx|uv|uv pip|uv tool)\s+(?:install|add|run)\s+(?:-\S+\s+)*['\"]?mcp[-_]bridge\b"
    r"|uvx\s+(?:-\S+\s+)*['\"]?mcp[-_]bridge\b(?!\.)"
    r"|https?://\S+/(?:p|project|simple)/mcp[-_]bridge\b",
    re.IGNORECASE,
)
"""Commands that would install `mcp-bridge`, a package of another project."""


def run_pip(*args: str | Path, python: str | Path = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run pip, and show its output if it fails."""
    return subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", *args],
        capture_output=True, text=True, timeout=BUILD,
        env={key: value for key, value in os.environ.items() if "COV" not in key},
    )  # fmt: skip


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Build the wheel of this package."""
    return build_wheel(tmp_path_factory, pytestconfig)


def test_the_wheel_has_only_the_package(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.name == f"mcp_tool_bridge-{__version__}-py3-none-any.whl"
    assert {name.partition("/")[0] for name in names} == {"mcp_bridge", f"mcp_tool_bridge-{__version__}.dist-info"}
    assert "mcp_bridge/py.typed" in names
    assert f"mcp_tool_bridge-{__version__}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if Path(name).match("test_*.py") or "__pycache__" in name]
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mcp_bridge").rglob("*.py")}
    assert modules <= set(names)


def test_the_metadata_matches_the_installed_package(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        folder = f"mcp_tool_bridge-{__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        scripts = archive.read(f"{folder}/entry_points.txt").decode()
    assert metadata["Name"] == "mcp-tool-bridge"
    assert metadata["Version"] == __version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert metadata.get_payload().startswith("#")
    assert "mcp-bridge = mcp_bridge._cli:main" in scripts


def test_the_installed_command_works_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=BUILD)
    binaries = venv / ("Scripts" if os.name == "nt" else "bin")
    result = run_pip("--python", str(venv), "install", "--no-deps", "--no-index", "--quiet", wheel)
    assert result.returncode == 0, result.stderr
    site = next(venv.glob("lib/python*/site-packages"))
    # The dependencies are those of this environment: the network is not what is tested. Its .pth files, such as
    # the one of this project's editable installation, are not read from there.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    environ = {key: value for key, value in os.environ.items() if "COV" not in key and key != "PYTHONPATH"}

    def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [binaries / "mcp-bridge", *args], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=BUILD
        )

    version = run("--version")
    assert version.stdout == f"mcp-bridge {__version__}\n", version.stderr
    listing = run("list", "--quiet", TOOLS)
    assert "echo" in listing.stdout.splitlines(), listing.stderr
    code = "import mcp_bridge; print(mcp_bridge.__file__)"
    where = subprocess.run(
        [binaries / "python", "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=BUILD
    )
    assert where.stdout.startswith(str(venv))


def list_text_files() -> list[Path]:
    """Return the text files of the repository."""
    paths = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".venv")]
        paths += [Path(folder, name) for name in files if not name.startswith(".coverage")]
    return paths


def test_no_document_installs_the_other_package_of_that_name() -> None:
    wrong = []
    for path in list_text_files():
        try:
            content = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            # The file is no text, or was removed in the meantime.
            continue
        if path != Path(__file__):
            wrong += [f"{path.relative_to(ROOT)}: {match[0]}" for match in WRONG.finditer(content)]
    assert not wrong


@pytest.mark.parametrize(
    "words",
    [
        "pip install mcp-bridge",
        "uvx mcp-bridge serve",
        "uv tool install mcp-bridge",
        "https://index.example/project/mcp-bridge/",
    ],
)
def test_the_search_for_the_other_package_finds_it(words: str) -> None:
    assert WRONG.search(words)


@pytest.mark.parametrize(
    "words", ["pip install mcp-tool-bridge", "uvx --from mcp-tool-bridge mcp-bridge", "run mcp-bridge"]
)
def test_the_search_for_the_other_package_leaves_ours_alone(words: str) -> None:
    assert not WRONG.search(words)
