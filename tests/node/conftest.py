"""What the Node clients need: Node itself, and the bridge they talk to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Addresses, served
from toolchain import Toolchain, ToolchainUnavailable, toolchain


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Toolchain:
    """Node and its packages; without them the tests are skipped aloud, and fail in CI."""
    try:
        return toolchain()
    except ToolchainUnavailable as missing:
        reason = f"THE NODE CLIENTS WERE NOT TESTED: {missing}"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        say(pytestconfig, reason)
        pytest.skip(reason)


def say(config: pytest.Config, line: str) -> None:
    """Print a line that output capturing does not swallow, also from a worker of pytest-xdist."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{line}", file=sys.stderr, flush=True)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory of its own for the Node processes of a module: the Inspector keeps files there."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def addresses(node: Toolchain, home: Path) -> Iterator[Addresses]:
    """One HTTP server for a module, gone again after it; not started where there is no Node."""
    with served(home) as found:
        yield found
