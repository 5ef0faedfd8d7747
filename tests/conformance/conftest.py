"""Fixtures of the conformance tests: Node with the suite, installed as for the Node clients."""

from __future__ import annotations

import pytest

from tests.kits.conformance.referee import Toolchain


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Toolchain:
    """Return Node and the suite. Without them the tests are skipped with a visible reason; in CI they fail."""
    # The import of referee makes its folder known.
    from tests.kits.node.needed import require_toolchain

    return require_toolchain(pytestconfig, "THE CONFORMANCE SUITE DID NOT RUN")
