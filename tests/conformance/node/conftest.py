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
    """Return Node and its packages. Without them the tests are skipped with a visible reason; in CI they fail."""
    return require_toolchain(pytestconfig, "THE NODE CLIENTS WERE NOT TESTED")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home directory for the Node processes of a module: the Inspector keeps files there."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def addresses(node: Toolchain, home: Path) -> Iterator[Addresses]:
    """Run one HTTP server for the tests of a module. It does not start without Node."""
    with serve_tools(home) as server_addresses:
        yield server_addresses
