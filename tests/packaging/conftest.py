"""What is made once for all: the wheel, uv, and the official tool for bundles; skipped aloud without a network."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging_kit import PATIENCE, ROOT, Official, pip, shelf

sys.path.append(str(ROOT / "tests" / "node"))  # what runs Node lives beside the Node clients

from needed import say
from toolchain import RegistryUnreachable, ToolchainUnavailable, find_node, install, node_environment, run

NO_NETWORK = ("No matching distribution", "Temporary failure in name resolution", "NewConnectionError")


def without(config: pytest.Config, reason: str) -> None:
    """Skip aloud, and fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    say(config, reason)
    pytest.skip(reason)


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
    folder = tmp_path_factory.mktemp("wheel")
    done = pip("wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    if done.returncode and any(words in done.stderr for words in NO_NETWORK):
        without(pytestconfig, "NO NETWORK TO GET THE BUILD BACKEND, SO NOTHING MADE WITH A WHEEL IS TESTED")
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def uv(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """uv: the one on PATH, or one that is installed for the tests."""
    if found := shutil.which("uv"):
        return Path(found)
    folder = tmp_path_factory.mktemp("uv")
    done = pip("install", "--target", folder, "uv")
    if done.returncode and any(words in done.stderr for words in NO_NETWORK):
        without(pytestconfig, "NO UV, SO NO BUNDLE IS STARTED AS A HOST STARTS IT")
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "uv"


@pytest.fixture(scope="session")
def official(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Official:
    """The official tool for bundles, with a home of its own."""
    try:
        node = find_node()
        modules = install(node, Path(__file__).parent)
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
