"""Fixtures of the packaging tests: the wheel, uv, and the official bundle tool; tests are skipped without a network."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kits.cli.cli_running import CommandResult
from tests.kits.constants import TIMEOUT
from tests.kits.node.toolchain import (
    RegistryUnreachable,
    ToolchainUnavailable,
    find_node,
    install,
    node_environment,
    run,
)
from tests.kits.packaging.packaging_kit import (
    KEY,
    BundleTool,
    build_wheel,
    is_offline,
    run_pip,
    skip_or_fail,
    write_shelf_project,
)
from tests.kits.packaging.packaging_kit import run_in_new_process as command
from tests.kits.paths import KITS


@pytest.fixture
def project_folder(tmp_path: Path) -> Path:
    """Write a project to export."""
    return write_shelf_project(tmp_path / "shelf")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Build the project's wheel."""
    return build_wheel(tmp_path_factory, pytestconfig)


@pytest.fixture(scope="module")
def shelf_export(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CommandResult]:
    """Return the bundle of the example project, and the report of the command."""
    return _export_bundle(tmp_path_factory.mktemp("bundled"))


@pytest.fixture(scope="module")
def shelf_bundle(shelf_export: tuple[Path, CommandResult]) -> Path:
    """Return the bundle of an exported project."""
    return shelf_export[0]


@pytest.fixture(scope="module")
def wheel_bundle(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """Return the bundle of an exported project that includes this project's wheel."""
    return _export_bundle(tmp_path_factory.mktemp("with a wheel"), "--wheel", wheel)[0]


def _export_bundle(parent: Path, *options: str | Path) -> tuple[Path, CommandResult]:
    folder = write_shelf_project(parent / "shelf")
    result = command(folder, "export", "mcpb", "--include", "data/*.json", *options, env={"SHELF_KEY": KEY})
    assert result.code == 0, result.err
    return folder / "my-shelf.mcpb", result


@pytest.fixture(scope="session")
def uv(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Return uv: the one on PATH, or one installed for the tests."""
    if result := shutil.which("uv"):
        return Path(result)
    folder = tmp_path_factory.mktemp("uv")
    result = run_pip("install", "--no-compile", "--target", folder, "uv", PIP_USER="0")
    if result.returncode and is_offline(result.stderr):
        skip_or_fail(pytestconfig, "NO UV, SO NO BUNDLE IS STARTED AS A HOST STARTS IT")
    assert result.returncode == 0, result.stderr
    return folder / "bin" / "uv"


@pytest.fixture(scope="session")
def official(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> BundleTool:
    """Return the official tool for bundles, with a separate home."""
    try:
        node = find_node()
        modules = install(node, KITS / "packaging")
    except (RegistryUnreachable, ToolchainUnavailable) as missing:
        skip_or_fail(pytestconfig, f"THE OFFICIAL TOOL FOR BUNDLES HAS SEEN NONE: {missing}")
    script = modules / "@anthropic-ai/mcpb/dist/cli/cli.js"
    home = tmp_path_factory.mktemp("home")
    env = {**node_environment(node), "HOME": str(home), "USERPROFILE": str(home)}

    def tool(words: Sequence[str | Path], folder: Path) -> str:
        result = run([node, script, *words], env, TIMEOUT, folder)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout + result.stderr

    return tool
