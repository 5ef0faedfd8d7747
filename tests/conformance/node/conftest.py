"""Fixtures of the Node clients: Node, and a bridge for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.node.needed import require_toolchain
from tests.kits.node.served import Addresses, serve_tools
from tests.kits.node.toolchain import Toolchain


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Toolchain:
    """Node and its packages; without them the tests are skipped aloud, and fail in CI."""
    return require_toolchain(pytestconfig, "THE NODE CLIENTS WERE NOT TESTED")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home directory for the Node processes of a module: the Inspector keeps files there."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def addresses(node: Toolchain, home: Path) -> Iterator[Addresses]:
    """One HTTP server for a module, gone again after it; not started where there is no Node."""
    with serve_tools(home) as server_addresses:
        yield server_addresses
