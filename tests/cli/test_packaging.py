"""The wheel: what is in it, that it works where it is installed, and the name it is installed by."""

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
from tests.kits.packaging.packaging_kit import built_wheel
from tests.kits.paths import ROOT

BUILD = 180
SKIPPED = {".git", ".venv", ".node", "node_modules", "dist", "build", "__pycache__", ".ruff_cache", ".mypy_cache"}
WRONG = re.compile(
    r"(?:pip3?|pipx|uv|uv pip|uv tool)\s+(?:install|add|run)\s+(?:-\S+\s+)*['\"]?mcp[-_]bridge\b"
    r"|uvx\s+(?:-\S+\s+)*['\"]?mcp[-_]bridge\b(?!\.)"
    r"|https?://\S+/(?:p|project|simple)/mcp[-_]bridge\b",
    re.IGNORECASE,
)
"""Ways to install `mcp-bridge`, which is somebody else's package."""


def pip(*args: str | Path, python: str | Path = sys.executable) -> subprocess.CompletedProcess[str]:
    """pip, with its output kept for a failure."""
    return subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", *args],
        capture_output=True, text=True, timeout=BUILD,
        env={key: value for key, value in os.environ.items() if "COV" not in key},
    )  # fmt: skip


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The project's wheel."""
    return built_wheel(tmp_path_factory, pytestconfig)


def test_the_wheel_has_the_package_and_nothing_of_the_workshop(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.name == f"mcp_tool_bridge-{__version__}-py3-none-any.whl"
    assert {name.partition("/")[0] for name in names} == {"mcp_bridge", f"mcp_tool_bridge-{__version__}.dist-info"}
    assert "mcp_bridge/py.typed" in names
    assert f"mcp_tool_bridge-{__version__}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if Path(name).match("test_*.py") or "__pycache__" in name]
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mcp_bridge").rglob("*.py")}
    assert modules <= set(names)


def test_the_metadata_says_what_is_installed(wheel: Path) -> None:
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
    done = pip("--python", str(venv), "install", "--no-deps", "--no-index", "--quiet", wheel)
    assert done.returncode == 0, done.stderr
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
    listed = run("list", "--quiet", TOOLS)
    assert "echo" in listed.stdout.splitlines(), listed.stderr
    code = "import mcp_bridge; print(mcp_bridge.__file__)"
    where = subprocess.run(
        [binaries / "python", "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=BUILD
    )
    assert where.stdout.startswith(str(venv))


def texts() -> list[Path]:
    """Every file of the repository that people read or run."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED]
        found += [Path(folder, name) for name in files if not name.startswith(".coverage")]
    return found


def test_nothing_tells_to_install_the_other_package_of_that_name() -> None:
    wrong = []
    for path in texts():
        try:
            content = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # not text, or gone since
        if path != Path(__file__):
            wrong += [f"{path.relative_to(ROOT)}: {found[0]}" for found in WRONG.finditer(content)]
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
