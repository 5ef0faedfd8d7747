"""What is made once for all: the wheel, uv, and the official tool for bundles; skipped aloud without a network."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kits.node.toolchain import (
    RegistryUnreachable,
    ToolchainUnavailable,
    find_node,
    install,
    node_environment,
    run,
)
from tests.kits.packaging.packaging_kit import KEY, PATIENCE, Official, built_wheel, offline, pip, shelf, without
from tests.kits.packaging.packaging_kit import run as command
from tests.kits.paths import KITS


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def project_folder(tmp_path: Path) -> Path:
    """A project to hand on."""
    return shelf(tmp_path / "shelf")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The project's wheel."""
    return built_wheel(tmp_path_factory, pytestconfig)


@pytest.fixture(scope="module")
def shelf_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the project to hand on."""
    folder = shelf(tmp_path_factory.mktemp("bundled") / "shelf")
    done = command(folder, "export", "mcpb", "--include", "data/*.json", env={"SHELF_KEY": KEY})
    assert done.code == 0, done.err
    return folder / "my-shelf.mcpb"


@pytest.fixture(scope="session")
def uv(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """uv: the one on PATH, or one that is installed for the tests."""
    if found := shutil.which("uv"):
        return Path(found)
    folder = tmp_path_factory.mktemp("uv")
    done = pip("install", "--no-compile", "--target", folder, "uv", PIP_USER="0")
    if done.returncode and offline(done.stderr):
        without(pytestconfig, "NO UV, SO NO BUNDLE IS STARTED AS A HOST STARTS IT")
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "uv"


@pytest.fixture(scope="session")
def official(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Official:
    """The official tool for bundles, with a home of its own."""
    try:
        node = find_node()
        modules = install(node, KITS / "packaging")
    except (RegistryUnreachable, ToolchainUnavailable) as missing:
        without(pytestconfig, f"THE OFFICIAL TOOL FOR BUNDLES HAS SEEN NONE: {missing}")
    script = modules / "@anthropic-ai/mcpb/dist/cli/cli.js"
    home = tmp_path_factory.mktemp("home")
    env = {**node_environment(node), "HOME": str(home), "USERPROFILE": str(home)}

    def tool(words: Sequence[str | Path], folder: Path) -> str:
        done = run([node, script, *words], env, PATIENCE, folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return tool
